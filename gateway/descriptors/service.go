package descriptors

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir/gateway/internal/minutely"
	"github.com/weir-go/weir/internal/ground/call"
	"github.com/weir-go/weir/internal/ground/turns"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
	"github.com/weir-go/weir/memory"
	"github.com/weir-go/weir/stats"
)

// ErrUnavailable is the error of a decision that was not made because the backend failed,
// and the file says that its limits are then closed, or because no limits have come yet.
var ErrUnavailable = errors.New("descriptors: the limits cannot be decided now")

// Options are the options of [New]. The zero value is ready to use.
type Options struct {
	// Backend counts. It must not take leases: a [backends.Backend] of package redisbackend
	// has no Options.Lease. A lease would take units that a limit by unit then counts as used.
	// nil: the memory of this process.
	Backend backends.Backend

	// Fallback counts while Backend fails. nil: the memory of this process.
	Fallback backends.Backend

	// Instances is how many processes share Backend at least. While Backend fails, each falls
	// back to its share of every limit, rounded up: divided by Instances, or by the number that
	// Backend counts if that is larger. 0: the whole limit, unless Backend counts.
	Instances int

	// MaxPromise is how far ahead a denied request may be promised a turn of its own, in Answer.Turn:
	// 2s to 24h, see core.Config. 0: all are told the same wait.
	MaxPromise time.Duration

	// MaxDetailed is how many values of requests metrics tell apart, for rules with
	// detailed_metric or value_to_metric. 0: 1,000.
	MaxDetailed int

	// Observe is called once for every call of Decide, on its goroutine and before it returns. It
	// must be quick, and safe for concurrent use. nil: it is not called.
	Observe func(context.Context, Event)

	// Logger gets a line a minute while the backend fails. nil: the logger that slog.Default
	// returns at that time.
	Logger *slog.Logger
}

// Service decides requests by the limits of a [Config]. It is safe for concurrent use.
type Service struct {
	backend, fallback backends.Backend
	denials           denials // of backend
	instances         int
	turns             *turns.Table // nil: no turns are promised
	inForce           atomic.Pointer[snapshot]
	flights           flights
	counts            registry
	failing, invalid  minutely.Log
	observe           func(context.Context, Event) // nil: no one observes
	replacing         sync.Mutex
}

// snapshot is a Config in force, with the counters of its domains.
type snapshot struct {
	*Config
	counts map[string]domainCounts
}

// New returns a service for the limits of config, or an error that reports every mistake in
// the arguments.
func New(config *Config, o Options) (*Service, error) {
	var errs []error
	if config == nil {
		errs = append(errs, errors.New("descriptors: config must not be nil"))
	}
	if o.Instances < 0 {
		errs = append(errs,
			fmt.Errorf("descriptors: Instances must not be negative (got %d)", o.Instances))
	}
	if err := turns.Validate(o.MaxPromise); err != nil {
		errs = append(errs, fmt.Errorf("descriptors: MaxPromise: %w", err))
	}
	if o.MaxDetailed < 0 {
		errs = append(errs,
			fmt.Errorf("descriptors: MaxDetailed must not be negative (got %d)", o.MaxDetailed))
	}
	if errs != nil {
		return nil, errors.Join(errs...)
	}
	s := &Service{
		backend: o.Backend, fallback: o.Fallback, instances: o.Instances,
		turns:   turns.New(o.MaxPromise),
		counts:  registry{maxDetailed: o.MaxDetailed},
		observe: o.Observe,
		failing: minutely.Log{
			Logger: o.Logger, Level: slog.LevelWarn, Text: "descriptors: the backend fails",
		},
		invalid: minutely.Log{
			Logger: o.Logger, Level: slog.LevelWarn,
			Text: "descriptors: a descriptor breaks the protocol, and is not counted",
		},
	}
	if s.backend == nil {
		s.backend = memory.MustNew(memory.Options{})
	}
	if s.fallback == nil {
		s.fallback = memory.MustNew(memory.Options{})
	}
	s.denials = denialsOf(s.backend)
	s.flights = newFlights(s.backend, s.fallback)
	s.Replace(config)
	return s, nil
}

// MustNew is [New] for arguments that the program sets. It panics if they have a mistake.
func MustNew(config *Config, o Options) *Service {
	s, err := New(config, o)
	if err != nil {
		panic(err)
	}
	return s
}

// Replace puts the limits of config into force, from the next request on. What has been
// counted stays counted, as long as a limit keeps its place and unit. config must not be nil.
func (s *Service) Replace(config *Config) {
	s.replacing.Lock()
	defer s.replacing.Unlock()
	s.inForce.Store(&snapshot{config, s.counts.of(config)})
}

// Domains returns the names of the domains in force, sorted.
func (s *Service) Domains() []string { return s.inForce.Load().Domains() }

// Metrics returns the counters of s. Labels are names of the file. Rules with detailed_metric
// or value_to_metric have values of requests besides, as many as Options.MaxDetailed says.
func (s *Service) Metrics() []stats.Metric { return s.counts.metrics() }

// Decide decides a request. A descriptor that breaks the protocol is not counted, and a line a
// minute is logged. The error is [Invalid] if the request breaks it, or each descriptor does,
// [ErrUnavailable] if the backend fails and the limits are then closed, or that of a context that
// has ended.
func (s *Service) Decide(ctx context.Context, r *Request) (Answer, error) {
	if s.observe == nil {
		return s.decide(ctx, r, nil)
	}
	e := Event{Source: limits.SourceNotAsked}
	a, err := s.decide(ctx, r, &e)
	e.Err = err
	s.observe(ctx, e)
	return a, err
}

// decide decides a request, and sets what is to be told of it, unless e is nil.
func (s *Service) decide(ctx context.Context, r *Request, e *Event) (Answer, error) {
	if err := r.validate(); err != nil {
		s.counts.invalid.Add(1)
		return Answer{}, err
	}
	now := s.inForce.Load()
	a := Answer{Statuses: make([]Status, len(r.Descriptors))}
	d := now.domains[r.Domain]
	if d == nil && now.awaited {
		return Answer{}, ErrUnavailable
	}
	if d == nil {
		s.counts.unknown.Add(1)
		return a, nil
	}
	if e != nil {
		e.Domain = d.name
	}
	of := decisions.Get().(*decision)
	defer of.release()
	of.domain, of.sharing = d, 1
	counts := now.counts[r.Domain]
	n, err := of.plan(r)
	if err != nil && n < len(r.Descriptors) {
		s.invalid.Note(err)
		s.counts.invalid.Add(1)
		err = nil
	}
	if err == nil {
		if failed := s.flights.land(ctx, of); failed != nil {
			s.failing.Note(failed) // the units end after the hold time
		}
	}
	if err == nil && len(of.charges) > 0 {
		a.Source, err = s.take(ctx, of)
	}
	if err != nil {
		counts.fail(err)
		return Answer{}, err
	}
	if a.Source != Open {
		s.refund(ctx, of, a.Source)
		if failed := s.flights.taken(ctx, of, a.Source); failed != nil {
			s.failing.Note(failed)
		}
	}
	of.conclude(&a)
	if s.turns != nil && a.Over {
		a.Turn = s.promise(of, a.Source)
	}
	s.counts.count(&counts, of, r, &a)
	if e != nil {
		tell(e, of, &a)
	}
	return a, nil
}

// take decides the charges by the backend and what it remembers. If it fails, the domain says what
// follows for charges that no denial answers.
func (s *Service) take(ctx context.Context, d *decision) (Source, error) {
	if s.denials.recall(d, false) {
		return Backend, nil
	}
	sent := time.Now()
	var err error
	borrows := lends(d.charges)
	if borrows {
		s.flights.name(d)
	}
	if borrows && !s.flights.canLend {
		err = errCannotLend
	} else {
		err = d.take(ctx, s.backend)
	}
	if err == nil {
		s.denials.remember(d, sent)
		return Backend, nil
	}
	if ctx.Err() != nil {
		return NotCounted, ctx.Err()
	}
	s.failing.Note(err)
	if s.denials.recall(d, true) {
		return Backend, nil
	}
	switch d.domain.onFailure {
	case open:
		return Open, nil
	case closed:
		return NotCounted, ErrUnavailable
	}
	counted, err := call.Instances(s.backend)
	if err != nil {
		s.failing.Note(err)
		return NotCounted, ErrUnavailable
	}
	d.share(int64(max(1, s.instances, counted)))
	if err := d.take(ctx, s.fallback); err != nil {
		s.failing.Note(err)
		return NotCounted, ErrUnavailable
	}
	return Fallback, nil
}

// promise promises a turn to a request that is over limits, the latest of their turns, and returns
// the wait until then.
func (s *Service) promise(d *decision, by Source) time.Duration {
	instances := 1
	if by == Backend && !backends.IsInProcess(s.backend) {
		counted, _ := call.Instances(s.backend) // a panic is an error of the next fallback
		instances = max(s.instances, counted)
	}
	denials := s.turns.Of()
	for i := range d.planned {
		p := &d.planned[i]
		for j := p.first; j < p.end; j++ {
			if !p.rule.shadow && d.statusOf(p, j).Over {
				denial := d.denial(p, j)
				denial.Instances = instances
				denials.Add(&denial)
			}
		}
	}
	turn := denials.Promise()
	if turn == limits.Never {
		return 0
	}
	return turn
}

// refund returns the units of descriptors that are to be refunded, and the one unit of each
// by which its window is known.
func (s *Service) refund(ctx context.Context, d *decision, by Source) {
	var endings []backends.Ending
	var places []int
	for i := range d.planned {
		p := &d.planned[i]
		for j := p.first; p.refund && j < p.end; j++ {
			ch := &d.charges[j]
			if !d.out[j].Allowed {
				continue
			}
			endings = append(endings, backends.Ending{
				Scope: ch.Scope, Key: ch.Key, Limit: ch.Limit, Lasts: ch.Lasts,
				Taken: min(1+p.hits, windowUnits), Ticket: d.out[j].Ticket,
			})
			places = append(places, j)
		}
	}
	if endings == nil {
		return
	}
	backend := s.backend
	if by == Fallback {
		backend = s.fallback
	}
	settled := make([]limits.Settlement, len(endings))
	if err := backends.Settle(ctx, backend, endings, settled); err != nil {
		s.failing.Note(err) // the units stay taken, which only denies early
		return
	}
	for i, j := range places {
		for k := range d.charges { // all decisions on a window are of one instant
			switch {
			case !d.same(j, k):
			case k < j: // in order: the refund is still to come, and so is its one unit
				d.out[k].Remaining += d.charges[j].Cost
			default:
				d.out[k].Remaining += settled[i].Returned
			}
		}
	}
}
