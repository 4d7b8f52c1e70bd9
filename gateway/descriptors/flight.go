package descriptors

import (
	"context"
	"errors"
	"hash/maphash"
	"slices"
	"time"

	"github.com/weir-go/weir/internal/ground/call"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
)

// A limit in flight lends units: a request takes one when it begins, and another request of the proxy,
// a refund, brings it back at the end. Both have the same entries, among them that of the holder if
// the file names one. A refund of a holder that has no units does nothing, so a proxy may send it twice,
// late, or after a denial. A unit whose refund is lost ends after the hold time.
//
// While the backend decides, the fallback is told what is lent, so that it denies as much when it has
// to decide. A refund goes to both.

// flights lends the units of limits in flight, and takes them back.
type flights struct {
	backend, fallback backends.Backend
	digester          backends.Digester // nil: the states are in this process
	canLend, mirrors  bool
	seed              maphash.Seed
}

var errCannotLend = errors.New("descriptors: the backend is no backends.Lender: " +
	"it cannot decide a limit in flight")

func newFlights(backend, fallback backends.Backend) flights {
	f := flights{backend: backend, fallback: fallback, seed: maphash.MakeSeed()}
	f.digester, _ = backends.As[backends.Digester](backend)
	f.canLend = backends.CanLend(backend)
	f.mirrors = !backends.IsInProcess(backend) && backends.CanLend(fallback)
	return f
}

// holder returns the number of a holder, as a backend knows it. It is never 0, which stands for no holder.
func (f *flights) holder(scope, key, text string) uint64 {
	number := uint64(0)
	if f.digester != nil {
		number = f.digester.Digest(scope, key, text)
	} else {
		number = maphash.String(f.seed, text)
	}
	const least = 1 << 8 // backends may drop the last byte
	return number | least
}

// name sets the holders of the charges of d.
func (f *flights) name(d *decision) {
	for i := range d.planned {
		p := &d.planned[i]
		for j := p.first; j < p.end && p.hasHolder; j++ {
			if ch := &d.charges[j]; ch.Lends > 0 {
				ch.Value = f.holder(ch.Scope, ch.Key, p.holder)
			}
		}
	}
}

// land returns the units of refunds of d.
func (f *flights) land(ctx context.Context, d *decision) error {
	var endings []backends.Ending
	for i := range d.planned {
		p := &d.planned[i]
		if !p.lands || p.rule == nil || p.hits == 0 {
			continue
		}
		for j := range p.limits {
			l := &p.limits[j]
			isUnknown := l.holder != "" && !p.hasHolder // which units it has taken
			if l.lends == 0 || isUnknown {
				continue
			}
			e := backends.Ending{
				Scope: l.scope, Key: p.key, Limit: l.limit, Taken: p.hits, Lends: l.lends,
			}
			if p.hasHolder {
				e.Value = f.holder(e.Scope, e.Key, p.holder)
			}
			endings = append(endings, e)
		}
	}
	return f.settle(ctx, endings)
}

// settle carries out endings, whatever becomes of the request. Both the backend and the fallback may
// have lent the units.
func (f *flights) settle(ctx context.Context, endings []backends.Ending) error {
	if endings == nil {
		return nil
	}
	if f.mirrors {
		_ = settle(ctx, f.fallback, endings) // in this process it does not fail
	}
	return settle(ctx, f.backend, endings)
}

// settle has b carry out endings, whatever becomes of the request.
func settle(ctx context.Context, b backends.Backend, endings []backends.Ending) error {
	settled := make([]limits.Settlement, len(endings))
	err := call.Settle(context.WithoutCancel(ctx), b, endings, settled)
	for i := range settled {
		err = errors.Join(err, settled[i].Err)
	}
	return err
}

// taken tells the fallback what the backend has lent. If the proxy has left meanwhile, it will not
// send a refund, so the units are returned at once.
func (f *flights) taken(ctx context.Context, d *decision, by Source) error {
	endings := f.lent(d)
	switch {
	case endings == nil:
		return nil
	case ctx.Err() != nil && by == Fallback:
		return settle(ctx, f.fallback, endings)
	case ctx.Err() != nil: // the fallback does not know of these units
		return settle(ctx, f.backend, endings)
	case by == Backend && f.mirrors:
		for i := range endings {
			endings[i].Taken, endings[i].Final = 0, endings[i].Taken
		}
		return call.Settle(ctx, f.fallback, endings, make([]limits.Settlement, len(endings)))
	}
	return nil
}

// lends reports whether charges ask for units of limits in flight.
func lends(charges []backends.Charge) bool {
	return slices.ContainsFunc(charges, func(ch backends.Charge) bool { return ch.Lends > 0 })
}

// lent returns the endings that bring back what d has taken of limits in flight.
func (f *flights) lent(d *decision) (endings []backends.Ending) {
	for i := range d.charges {
		ch := &d.charges[i]
		switch {
		case !ch.Shadow && !d.out[i].Allowed:
			return nil // all or nothing
		case ch.Lends > 0 && ch.Cost > 0 && d.out[i].Allowed:
			endings = append(endings, call.ReturnOf(ch, &d.out[i]))
		}
	}
	return endings
}

// The hold time of a limit in flight.
const (
	minHold = time.Second
	maxHold = 24 * time.Hour
)
