package redisbackend

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"
)

// A request that is spread over several servers cannot be decided together with
// equal ones. So only some of equal requests are under way at once, and a denial of
// one is the answer to all that waited when it was sent.

// maxEqual is how many equal requests that are spread are under way at once.
const maxEqual = 16

// flights are the requests that are spread and under way.
type flights struct {
	mu sync.Mutex
	of map[string]*flight // by what is charged
}

// flight is equal requests.
type flight struct {
	underWay int
	waiting  []*passenger // in the order in which they came
	boarded  int64        // how many ever waited
	endedAt  time.Time    // when the latest ended
}

// passenger is a request that waits for others. Both fields are set before its
// channel is closed.
type passenger struct {
	number int64
	called chan struct{}
	denial []settled // nil: it is to be decided itself
}

// tagOf is what equal requests have in common.
func tagOf(accounts []account, instant int64) string {
	tag := fmt.Appendf(nil, "%d;", instant)
	for i := range accounts {
		a := &accounts[i]
		tag = fmt.Appendf(tag, "%d %s %v %v;", len(a.name), a.name, a.limit.text, a.units())
	}
	return string(tag)
}

// enter waits until a request may be sent, or is denied with another, or ctx ends.
// A request that may be sent has to leave, with the number that enter returns.
func (fs *flights) enter(ctx context.Context, tag string, late *lateness) (number int64, denial []settled, err error) {
	since := time.Now()
	fs.mu.Lock()
	f := fs.of[tag]
	if f == nil {
		if fs.of == nil {
			fs.of = make(map[string]*flight)
		}
		f = new(flight)
		fs.of[tag] = f
	}
	if f.underWay < maxEqual {
		f.underWay++
		number = f.boarded
		fs.mu.Unlock()
		return number, nil, nil
	}
	f.boarded++
	p := &passenger{number: f.boarded, called: make(chan struct{})}
	f.waiting = append(f.waiting, p)
	fs.mu.Unlock()
	ended := func() time.Time {
		fs.mu.Lock()
		defer fs.mu.Unlock()
		return f.endedAt
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
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if i := slices.Index(f.waiting, p); i >= 0 {
		f.waiting = slices.Delete(f.waiting, i, i+1)
		return 0, nil, spared{fmt.Errorf("%w: %w", errBusy, ctx.Err())}
	}
	return p.number, p.denial, nil // called at the very last moment
}

// leave ends a request that entered with a number. Its denial, if it was denied,
// is that of all who waited by then. Those that wait on are called, as many as may
// be under way.
func (fs *flights) leave(tag string, number int64, denial []settled) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	f := fs.of[tag]
	f.endedAt = time.Now()
	f.underWay--
	if denial != nil {
		rest := f.waiting[:0]
		for _, p := range f.waiting {
			if p.number > number {
				rest = append(rest, p)
				continue
			}
			p.denial = denial
			close(p.called)
		}
		clear(f.waiting[len(rest):])
		f.waiting = rest
	}
	for f.underWay < maxEqual && len(f.waiting) > 0 {
		p := f.waiting[0]
		f.waiting = slices.Delete(f.waiting, 0, 1)
		f.underWay++
		p.number = f.boarded // all that wait now were there before it is sent
		close(p.called)
	}
	if f.underWay == 0 {
		delete(fs.of, tag)
	}
}
