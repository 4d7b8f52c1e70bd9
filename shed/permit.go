package shed

import (
	"time"

	"github.com/weir-go/weir/internal/ground/list"
)

// Permit is a request that a [Shedder] has let in. The caller must call End when the request is
// over. All methods are safe for concurrent use. On a nil Permit they do nothing.
type Permit struct {
	limiter *limiter
	class   *class // nil if it is exempt
	tenant  *tenant
	node    list.Node[*Permit]
	start   instant
	need    *need // nil if Options.Needs is
	turn    int   // see turnOf
	client  clientTime

	// The limiter's lock guards these.
	atClient    time.Duration // how long it waited for its client, until the last noteClient
	overtakenAt instant       // when it was first overtaken; 0: it was not
	state       permitState
}

type permitState uint8

const (
	ended permitState = iota
	inFlight
	streaming
	exempt
	shadowed
)

// Result is how a request has ended.
type Result struct {
	Route  string // see Options.Route
	Failed bool   // it did not succeed: a status from 400 on, or a panic
	Left   bool   // its context ended before it did: the client left, or a deadline was over

	// Refused says that a service behind has shed the request, so that it failed: a status of 503.
	// See Options.Needs.
	Refused bool

	own bool // a limiter of weir answered: that says nothing of services behind
}

// End ends the request. The first call counts.
func (p *Permit) End(result Result) {
	if p == nil {
		return
	}
	if state := p.limiter.end(p, &result); state == inFlight || state == shadowed {
		p.need.end(p.turn, &result, p.limiter.now())
	}
}

// Stream takes the request out of flight: its answer has become a stream or a connection, whose
// length says nothing of the service. The algorithm learns nothing from it. It still has to End.
func (p *Permit) Stream() {
	if p != nil && p.limiter.stream(p) {
		p.need.end(p.turn, &Result{}, p.limiter.now())
	}
}

// age returns how long p has been in flight, without atClient. It is never negative: the clock may
// have been read for atClient after it was read for now.
func (p *Permit) age(now instant) time.Duration { return max(0, now-p.start-p.atClient) }

// untilOvertaken returns the time until p, which took d, was overtaken. If it was not, or only
// after d, that is d.
func (p *Permit) untilOvertaken(d time.Duration) time.Duration {
	if p.overtakenAt == 0 {
		return d
	}
	return min(d, p.overtakenAt-p.start)
}

// listener is the Permit that the wrappers of a request's writer and content report to.
type listener Permit

func (l *listener) Stream() { (*Permit)(l).Stream() }
func (l *listener) Wait()   { l.client.begin(l.limiter.now()) }
func (l *listener) Resume() { l.client.end(l.limiter.now()) }
