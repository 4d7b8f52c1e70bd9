package redisbackend

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"
)

// Equal requests whose keys are spread over several servers cannot share a call. So a gate
// lets only a few of them be under way at once. If one is denied, the denial is also the
// answer to all that waited when it was sent.

// maxEqual is how many equal requests a gate lets be under way at once.
const maxEqual = 16

// gates has a gate for every set of equal requests that is under way.
type gates struct {
	mu sync.Mutex
	of map[string]*gate // by tag
}

// gate limits how many of a set of equal requests are under way.
type gate struct {
	underWay int
	waiting  []*waiter // in the order in which they came
	arrived  int64     // how many ever waited
	endedAt  time.Time // when the latest ended
}

// waiter is a request that waits at a gate. Its number and denial are set before called
// is closed.
type waiter struct {
	number int64
	called chan struct{}
	denial []result // nil: it may be sent
}

// tagOf returns a text that is the same for equal requests only.
func tagOf(accounts []account, instant int64) string {
	return string(appendCharges(fmt.Appendf(nil, "%d;", instant), accounts))
}

// appendCharges appends a text that is the same for accounts that are charged the same only.
func appendCharges(text []byte, accounts []account) []byte {
	for i := range accounts {
		a := &accounts[i]
		text = fmt.Appendf(text, "%d %s %v %v;", len(a.name), a.name, a.limit.text, a.units())
	}
	return text
}

// enter waits until a request may be sent, another request's denial answers it, or ctx
// ends. A request that may be sent must leave, with the number that enter returns.
func (gs *gates) enter(ctx context.Context, tag string, late *lateness) (number int64, denial []result, err error) {
	since := time.Now()
	gs.mu.Lock()
	g := gs.of[tag]
	if g == nil {
		if gs.of == nil {
			gs.of = make(map[string]*gate)
		}
		g = new(gate)
		gs.of[tag] = g
	}
	if g.underWay < maxEqual {
		g.underWay++
		number = g.arrived
		gs.mu.Unlock()
		return number, nil, nil
	}
	g.arrived++
	p := &waiter{number: g.arrived, called: make(chan struct{})}
	g.waiting = append(g.waiting, p)
	gs.mu.Unlock()
	ended := func() time.Time {
		gs.mu.Lock()
		defer gs.mu.Unlock()
		return g.endedAt
	}
	select {
	case <-p.called:
		return p.number, p.denial, nil
	case <-ctx.Done():
	}
	for late.excuses(ctx, since, ended) {
		timer := time.NewTimer(slice)
		select {
		case <-p.called:
			timer.Stop()
			return p.number, p.denial, nil
		case <-timer.C:
		}
	}
	gs.mu.Lock()
	defer gs.mu.Unlock()
	if i := slices.Index(g.waiting, p); i >= 0 {
		g.waiting = slices.Delete(g.waiting, i, i+1)
		return 0, nil, spared{fmt.Errorf("%w: %w", errBusy, ctx.Err())}
	}
	return p.number, p.denial, nil // called just now
}

// leave is called when a request that entered with a number has its decision. If it was
// denied, the denial answers all that waited when it entered. Then as many others are
// called as may be under way.
func (gs *gates) leave(tag string, number int64, denial []result) {
	gs.mu.Lock()
	defer gs.mu.Unlock()
	g := gs.of[tag]
	g.endedAt = time.Now()
	g.underWay--
	if denial != nil {
		rest := g.waiting[:0]
		for _, p := range g.waiting {
			if p.number > number {
				rest = append(rest, p)
				continue
			}
			p.denial = denial
			close(p.called)
		}
		clear(g.waiting[len(rest):])
		g.waiting = rest
	}
	for g.underWay < maxEqual && len(g.waiting) > 0 {
		p := g.waiting[0]
		g.waiting = slices.Delete(g.waiting, 0, 1)
		g.underWay++
		p.number = g.arrived // all that wait now were there before it is sent
		close(p.called)
	}
	if g.underWay == 0 {
		delete(gs.of, tag)
	}
}
