package shed

import (
	"cmp"
	"context"
	"hash/maphash"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/internal/ground/shedlimit"
	"github.com/weir-go/weir/internal/http/answer"
	"github.com/weir-go/weir/internal/http/shedgate"
)

// Shedder admits as many requests at once as the service can answer in time, and sheds the others.
// [New] makes it. It starts no goroutine, and need not be closed. It is safe for concurrent use.
type Shedder[R any] struct {
	limiter  limiter
	needs    needs
	given    shedlimit.Algorithm // of this repository's tests; nil: options choose
	seed     maphash.Seed        // for the names of tenants
	settings atomic.Pointer[settings[R]]
	replace  sync.Mutex // held by Replace
	random   atomic.Uint64
}

// settings are the options that a request reads. They never change.
type settings[R any] struct {
	classes  []*class
	classify func(R) int
	tenant   func(R) string
	exempt   func(R) bool
	route    func(R) string
	needs    func(R) string
	lot      func(R) string
	maxWait  time.Duration
	mode     core.Mode
	observe  func(context.Context, R, Event)
	denied   func(http.ResponseWriter, R, Event) error

	drainLimit int64
}

// New returns a shedder, or an error that reports every mistake in options.
func New[R any](options Options[R]) (*Shedder[R], error) { return newShedder(options, nil) }

func newShedder[R any](options Options[R], a shedlimit.Algorithm) (*Shedder[R], error) {
	s := &Shedder[R]{given: a}
	s.limiter.epoch, s.seed = time.Now(), maphash.MakeSeed()
	s.needs.names, s.needs.others.of = make(map[string]*need), &s.needs
	if err := s.Replace(options); err != nil {
		return nil, err
	}
	return s, nil
}

// MustNew is [New] for package variables. It panics if options have a mistake.
func MustNew[R any](options Options[R]) *Shedder[R] {
	s, err := New(options)
	if err != nil {
		panic(err)
	}
	return s
}

// Replace puts other options into force, from the next request on. What was learned stays: the
// limit, latencies, requests in flight and all counters, which go by the names of classes. What
// tenants use stays, too, unless options have no Tenant. Requests under way and in the queue go on.
// Those of a class that is left out count as the least important. If the new mode is [core.Shadow]
// or [core.Disabled], all requests in the queue are let in at once. If options have mistakes,
// Replace reports them all and changes nothing.
func (s *Shedder[R]) Replace(options Options[R]) error {
	if err := options.check(); err != nil {
		return err
	}
	s.replace.Lock()
	defer s.replace.Unlock()
	classes := s.limiter.configure(options.Classes, limits{
		algorithm: s.given, fixed: options.Limit, slo: options.SLO,
		maxLimit: options.MaxInFlight, maxWaiting: options.MaxWaiting,
		fair: options.Tenant != nil, open: options.Mode != core.Enforce,
	})
	s.settings.Store(&settings[R]{
		classes: classes, classify: options.Classify, tenant: options.Tenant,
		exempt: options.Exempt, route: options.Route, needs: options.Needs, lot: options.Lot,
		maxWait: options.MaxWait, mode: options.Mode,
		observe: options.Observe, denied: options.Denied,
		drainLimit: cmp.Or(options.DrainLimit, answer.DrainLimit),
	})
	return nil
}

// Acquire decides a request. If there is a queue, it waits there, until ctx ends at the latest.
// If the verdict is Admitted, the caller must call [Permit.End] when the request is over.
// Otherwise the Permit is nil. It is also nil while the mode is [core.Disabled]. If Observe
// panics, Acquire ends the request.
func (s *Shedder[R]) Acquire(ctx context.Context, request R) (*Permit, Event) {
	set := s.settings.Load()
	if set.mode == core.Disabled {
		return nil, Event{Verdict: Admitted}
	}
	var got entry
	event := Event{Verdict: Admitted}
	if set.exempt != nil && set.exempt(request) {
		got = s.limiter.exempted()
		event.Exempt = true
	} else {
		c := set.class(request)
		name := uint64(0)
		if set.tenant != nil {
			name = maphash.String(s.seed, set.tenant(request))
		}
		got = s.decide(ctx, set, request, c, name)
		event.Class, event.Shadow, event.Ahead, event.Wait = c.name, got.shadow, got.ahead, got.wait
		switch {
		case got.left:
			event.Verdict = Left
		case got.permit == nil:
			event.Verdict, event.Spread = Shed, got.spread
		}
	}
	event.Limit, event.InFlight = got.limit, got.inFlight
	if set.observe != nil {
		set.tell(ctx, request, event, got.permit)
	}
	return got.permit, event
}

// decide decides a request of c and of the tenant with that name.
func (s *Shedder[R]) decide(
	ctx context.Context, set *settings[R], request R, c *class, name uint64,
) entry {
	lot := s.draw(set, request)
	if set.needs == nil {
		return s.limiter.acquire(ctx.Done(), c, name, lot, set.maxWait)
	}
	over := set.tenant != nil && s.limiter.isOver(name)
	turn := turnOf(slices.Index(set.classes, c), over)
	need, ok := s.needs.admit(set.needs(request), turn, s.drawAny(), s.limiter.now())
	if !ok {
		return s.limiter.ahead(c)
	}
	got := s.limiter.acquire(ctx.Done(), c, name, lot, set.maxWait)
	if got.permit != nil && !got.shadow {
		got.permit.need, got.permit.turn = need, turn
	}
	return got
}

// draw returns the lot of a request. Without Options.Lot all have lot 0.
func (s *Shedder[R]) draw(set *settings[R], request R) uint32 {
	if set.lot == nil {
		return 0
	}
	if name := set.lot(request); name != "" {
		return lotOf(name)
	}
	return s.drawAny()
}

func (s *Shedder[R]) drawAny() uint32 { return uint32(mix(s.random.Add(golden)) % lots) }

// tell calls Observe, and ends p if it does not return.
func (set *settings[R]) tell(ctx context.Context, request R, event Event, p *Permit) {
	returned := false
	defer func() {
		if !returned && p != nil {
			p.limiter.end(p, nil)
		}
	}()
	set.observe(ctx, request, event)
	returned = true
}

func (set *settings[R]) class(request R) *class {
	last := len(set.classes) - 1
	if set.classify == nil {
		return set.classes[last]
	}
	if i := set.classify(request); i >= 0 && i < last {
		return set.classes[i]
	}
	return set.classes[last]
}

// State returns what s does now and has done. It is zero if [New] did not make s.
func (s *Shedder[R]) State() State {
	set := s.settings.Load()
	if set == nil {
		return State{}
	}
	state := s.limiter.state()
	state.Mode = set.mode
	return state
}

// By these, adapters reach gates, and tests of this repository set algorithms.
func init() {
	shedgate.Open = func(shedder, config any) any {
		return shedder.(interface{ gate(config any) any }).gate(config)
	}
	shedlimit.New = func(options any, a shedlimit.Algorithm) (any, error) {
		return options.(interface {
			shedder(shedlimit.Algorithm) (any, error)
		}).shedder(a)
	}
}

func (s *Shedder[R]) gate(config any) any { return newGate(s, config.(shedgate.Config[R])) }
