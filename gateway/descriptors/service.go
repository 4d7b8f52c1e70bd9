package descriptors

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir/gateway/internal/minutely"
	"github.com/weir-go/weir/internal/ground/call"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
	"github.com/weir-go/weir/memory"
)

// ErrUnavailable is the error of a decision that was not made because the backend failed,
// and the file says that its limits are then closed.
var ErrUnavailable = errors.New("descriptors: the limits cannot be decided now")

// Options are the options of [New]. The zero value is ready to use.
type Options struct {
	// Backend counts. It must not take leases: a [backends.Backend] of package redisbackend
	// has no Options.Lease. A lease would take units that a limit by unit then counts as used.
	// nil: the memory of this process.
	Backend backends.Backend

	// Fallback counts while Backend fails. nil: the memory of this process.
	Fallback backends.Backend

	// Instances is the number of processes that share Backend. Above 1, each falls back to its
	// share of every limit, rounded up. 0: the whole limit.
	Instances int

	// MaxDetailed is how many values of requests metrics tell apart, for rules with
	// detailed_metric or value_to_metric. 0: 1,000.
	MaxDetailed int

	// Logger gets a line a minute while the backend fails. nil: the logger that slog.Default
	// returns at that time.
	Logger *slog.Logger
}

// Service decides requests by the limits of a [Config]. It is safe for concurrent use.
type Service struct {
	backend, fallback backends.Backend
	instances         int64
	inForce           atomic.Pointer[snapshot]
	counts            registry
	failing           minutely.Log
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
		errs = append(errs, fmt.Errorf("descriptors: Instances must not be negative (got %d)", o.Instances))
	}
	if o.MaxDetailed < 0 {
		errs = append(errs, fmt.Errorf("descriptors: MaxDetailed must not be negative (got %d)", o.MaxDetailed))
	}
	if errs != nil {
		return nil, errors.Join(errs...)
	}
	s := &Service{
		backend: o.Backend, fallback: o.Fallback, instances: int64(max(1, o.Instances)),
		counts:  registry{maxDetailed: o.MaxDetailed},
		failing: minutely.Log{Logger: o.Logger, Level: slog.LevelWarn, Text: "descriptors: the backend fails"},
	}
	if s.backend == nil {
		s.backend = memory.MustNew(memory.Options{})
	}
	if s.fallback == nil {
		s.fallback = memory.MustNew(memory.Options{})
	}
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

// decision is a request while it is decided.
type decision struct {
	domain  *domain
	planned []planned
	charges []backends.Charge
	out     []limits.Decision
	key     []byte
	sharing int64 // among how many processes limits are divided
}

// planned is a descriptor while it is decided.
type planned struct {
	rule       *rule     // nil: nothing is counted
	override   *Override // nil: the limits are those of the rule
	unlimited  bool
	hits       int64
	refund     bool
	first, end int // its charges
}

var decisions = sync.Pool{New: func() any { return new(decision) }}

// Decide decides a request. Its error is [Invalid] if the request breaks a bound,
// [ErrUnavailable] if the backend fails and the limits are then closed, or that of a context
// that has ended.
func (s *Service) Decide(ctx context.Context, r *Request) (Answer, error) {
	if err := r.validate(); err != nil {
		s.counts.invalid.Add(1)
		return Answer{}, err
	}
	now := s.inForce.Load()
	a := Answer{Statuses: make([]Status, len(r.Descriptors))}
	d := now.domains[r.Domain]
	if d == nil {
		s.counts.unknown.Add(1)
		return a, nil
	}
	of := decisions.Get().(*decision)
	defer of.release()
	of.domain, of.sharing = d, 1
	err := of.plan(r)
	if err == nil && len(of.charges) > 0 {
		a.Source, err = s.take(ctx, of)
	}
	counts := now.counts[r.Domain]
	if err != nil {
		counts.fail(err)
		return Answer{}, err
	}
	if a.Source != Open {
		s.refund(ctx, of, a.Source)
	}
	of.conclude(&a)
	s.counts.count(&counts, of, r, &a)
	return a, nil
}

// release returns d for other requests, without what is theirs.
func (d *decision) release() {
	clear(d.planned)
	clear(d.charges)
	clear(d.out)
	d.domain, d.planned, d.charges, d.out, d.key = nil, d.planned[:0], d.charges[:0], d.out[:0], d.key[:0]
	if cap(d.charges) <= maxDescriptors {
		decisions.Put(d)
	}
}

// plan finds the rules of r, and what they charge.
func (d *decision) plan(r *Request) error {
	var replaced []string
	for i := range r.Descriptors {
		one := &r.Descriptors[i]
		p := planned{override: one.Limit, hits: int64(r.hits(one)), refund: one.Refund}
		var n *node
		n, d.key = d.domain.match(d.key[:0], one.Entries, one.Limit != nil)
		switch {
		case one.Limit != nil && d.domain.allOrNothing:
			return invalidf("descriptor %d brings a limit, which all_or_nothing of its domain excludes", i)
		case one.Limit != nil:
			p.rule = &d.domain.overrides[one.Limit.Unit]
		case n != nil:
			p.rule = n.rule
		}
		if p.rule != nil {
			replaced = append(replaced, p.rule.replaces...)
			p.unlimited = p.rule.unlimited
		}
		if p.rule != nil && !p.unlimited {
			p.first = len(d.charges)
			key := string(d.key)
			for j := range p.rule.limits {
				l := &p.rule.limits[j]
				if p.refund && l.native {
					return invalidf("descriptor %d is to be refunded, but its limit has an algorithm or all_or_nothing: only limits by unit can be", i)
				}
				d.charges = append(d.charges, backends.Charge{Scope: l.scope, Key: key, Limit: l.limit, Shadow: l.native && (!d.domain.allOrNothing || p.rule.shadow)})
			}
			p.end = len(d.charges)
		}
		d.planned = append(d.planned, p)
	}
	if replaced != nil {
		d.remove(replaced)
	}
	d.setCosts()
	d.out = slices.Grow(d.out[:0], len(d.charges))[:len(d.charges)]
	return nil
}

// remove leaves out the charges of rules that others replace.
func (d *decision) remove(names []string) {
	kept := d.charges[:0]
	for i := range d.planned {
		p := &d.planned[i]
		if p.rule != nil && !p.unlimited && p.rule.name != "" && slices.Contains(names, p.rule.name) {
			p.rule, p.first, p.end = nil, 0, 0
			continue
		}
		first := len(kept)
		kept = append(kept, d.charges[p.first:p.end]...)
		p.first, p.end = first, len(kept)
	}
	clear(d.charges[len(kept):])
	d.charges = kept
}

// setCosts sets what is charged. A window by unit is charged no more than has room in any window that is not over.
func (d *decision) setCosts() {
	for i := range d.planned {
		p := &d.planned[i]
		for j := p.first; j < p.end; j++ {
			ch, l := &d.charges[j], &p.rule.limits[j-p.first]
			switch {
			case p.refund:
				ch.Cost, ch.Lasts = 1, time.Second // by which Settle knows the window
			case !l.native:
				ch.Cost = p.hits
				if room := maxCharge - d.before(j); ch.Cost > room {
					ch.Cost = room
				}
			case l.shown.RequestsPerUnit == 0:
				ch.Cost = 2 // the limit is 1: nothing fits
			default:
				ch.Cost = p.hits
			}
		}
	}
}

// before returns how much the charges before the j-th one charge the same window.
func (d *decision) before(j int) (units int64) {
	for i := range d.charges[:j] {
		if d.same(i, j) {
			units += d.charges[i].Cost
		}
	}
	return units
}

// same reports whether two charges are of one window.
func (d *decision) same(i, j int) bool {
	return d.charges[i].Key == d.charges[j].Key && d.charges[i].Scope == d.charges[j].Scope
}

// take has the charges decided, by the fallback if the backend fails.
func (s *Service) take(ctx context.Context, d *decision) (Source, error) {
	err := d.take(ctx, s.backend)
	if err == nil {
		return Backend, nil
	}
	if ctx.Err() != nil {
		return NotCounted, ctx.Err()
	}
	s.failing.Note(err)
	switch d.domain.onFailure {
	case open:
		return Open, nil
	case closed:
		return NotCounted, ErrUnavailable
	}
	d.sharing = s.instances
	for i := range d.planned {
		p := &d.planned[i]
		for j := p.first; j < p.end; j++ {
			if p.rule.limits[j-p.first].native {
				d.charges[j].Limit = d.charges[j].Limit.Share(int(s.instances))
			}
		}
	}
	if err := d.take(ctx, s.fallback); err != nil {
		s.failing.Note(err)
		return NotCounted, ErrUnavailable
	}
	return Fallback, nil
}

// take charges a backend in one step. Limits with an algorithm that are charged twice take further steps, one for each
// time, since the second charge is denied alone.
func (d *decision) take(ctx context.Context, b backends.Backend) error {
	if d.isTwice() {
		return d.takeInOrder(ctx, b)
	}
	if err := call.Take(ctx, b, d.charges, d.out); err != nil {
		return err
	}
	if d.domain.allOrNothing || !d.isStuck() {
		return nil
	}
	for i := range d.charges { // one window has no room at all: the others are charged without it
		d.charges[i].Shadow = true
	}
	return call.Take(ctx, b, d.charges, d.out)
}

// isStuck reports whether a window by unit has no room for its charge, so that nothing was taken.
func (d *decision) isStuck() bool {
	for i := range d.charges {
		if !d.charges[i].Shadow && !d.out[i].Allowed {
			return true
		}
	}
	return false
}

// isTwice reports whether a limit with an algorithm is charged twice, and not all or nothing.
func (d *decision) isTwice() bool {
	if d.domain.allOrNothing {
		return false
	}
	for j := range d.charges {
		for i := range j {
			if d.charges[j].Shadow && d.same(i, j) {
				return true
			}
		}
	}
	return false
}

func (d *decision) takeInOrder(ctx context.Context, b backends.Backend) error {
	for i := range d.charges {
		if err := call.Take(ctx, b, d.charges[i:i+1], d.out[i:i+1]); err != nil {
			return err
		}
	}
	return nil
}

// refund returns the units of descriptors that are to be refunded, and the one by which each window is known.
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
				Scope: ch.Scope, Key: ch.Key, Limit: ch.Limit, Taken: min(1+p.hits, windowUnits), Ticket: d.out[j].Ticket, Lasts: ch.Lasts,
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
			if d.same(j, k) {
				d.out[k].Remaining += settled[i].Returned
			}
		}
	}
}

// conclude sets the statuses of a, and what they come to.
func (d *decision) conclude(a *Answer) {
	others, quotas, quotasOver := false, 0, 0
	for i := range d.planned {
		p, status := &d.planned[i], &a.Statuses[i]
		switch {
		case p.unlimited:
			status.Unlimited, status.Remaining = true, math.MaxUint32
			continue
		case p.rule == nil || a.Source == Open:
			continue
		}
		d.status(p, status)
		if status.Over && p.rule.shadow {
			status.Over, status.Shadowed = false, true
		}
		switch {
		case p.rule.quota:
			quotas++
			if status.Over {
				quotasOver++
			}
		case status.Over:
			others = true
		}
		if !status.Over && p.rule.metadata != nil {
			a.Metadata = merge(a.Metadata, p.rule.metadata)
		}
	}
	a.Over = others || quotas > 0 && quotas == quotasOver
}

// merge returns a with what b has and a lacks. Neither is modified.
func merge(a, b map[string]any) map[string]any {
	if a == nil {
		return b
	}
	both := make(map[string]any, len(a)+len(b))
	for k, v := range a {
		both[k] = v
	}
	for k, v := range b {
		before, twice := both[k]
		m, ok := before.(map[string]any)
		n, alike := v.(map[string]any)
		switch {
		case !twice:
			both[k] = v
		case ok && alike:
			both[k] = merge(m, n)
		}
	}
	return both
}

// status sets what a descriptor comes to: of several limits, the one that is over, or that has least left.
func (d *decision) status(p *planned, status *Status) {
	for j := p.first; j < p.end; j++ {
		one := d.statusOf(p, j)
		if j == p.first || one.Over && !status.Over || one.Over == status.Over && (one.Over && one.Reset > status.Reset || !one.Over && one.Remaining < status.Remaining) {
			*status = one
		}
	}
}

// statusOf returns what the j-th charge, one of p, comes to.
func (d *decision) statusOf(p *planned, j int) (s Status) {
	l, out := &p.rule.limits[j-p.first], &d.out[j]
	s.Limit = &l.shown
	if p.override != nil {
		s.Limit = &Limit{RequestsPerUnit: p.override.RequestsPerUnit, Unit: p.override.Unit}
	}
	if l.native {
		s.Over = !out.Allowed || p.hits == 0 && out.Remaining == 0
		if !s.Over {
			s.Remaining = uint32(min(out.Remaining, math.MaxUint32))
		}
		switch {
		case !s.Over:
			s.Reset = out.ResetAfter
		case out.RetryAfter == limits.Never:
		case out.Allowed:
			s.Reset = out.EffectiveWindow
		default:
			s.Reset = out.RetryAfter
		}
		s.Reset = inSeconds(s.Reset)
		return s
	}
	most := (int64(s.Limit.RequestsPerUnit) + d.sharing - 1) / d.sharing
	used := windowUnits - out.Remaining // with all charges of the request, or without this one if it had no room
	if out.Allowed {
		for k := j; k < len(d.charges); k++ {
			if d.same(j, k) && !d.isRefund(k) {
				used -= d.charges[k].Cost
			}
		}
	}
	if !p.refund {
		used += p.hits
	}
	s.Over = used > most
	s.Remaining = uint32(max(0, most-used))
	s.Reset = untilTurn(l, out.At)
	return s
}

// isRefund reports whether the k-th charge is of a descriptor that is refunded.
func (d *decision) isRefund(k int) bool { return d.charges[k].Lasts > 0 }

// untilTurn returns the wait until the window by unit turns, in whole seconds.
func untilTurn(l *limit, at int64) time.Duration {
	if l.shown.Unit == Month || l.shown.Unit == Year {
		_, end, _ := l.limit.Window(time.UnixMicro(at))
		return inSeconds(end.Sub(time.UnixMicro(at)))
	}
	period := l.limit.Rate().Period
	return inSeconds(period - time.Duration(at)*time.Microsecond%period)
}

// inSeconds rounds a wait up to whole seconds.
func inSeconds(d time.Duration) time.Duration {
	return (d + time.Second - 1).Truncate(time.Second)
}

// pathOf returns the path of a rule with the values of a request, for metrics that tell them apart.
func pathOf(d *Descriptor) string {
	var b strings.Builder
	for i, e := range d.Entries {
		if i > 0 {
			b.WriteByte('.')
		}
		b.WriteString(e.Key)
		if e.Value != "" {
			b.WriteString("_" + e.Value)
		}
	}
	const longest = 200 // bytes of a label
	return strings.ToValidUTF8(b.String()[:min(longest, b.Len())], "�")
}
