package shed

import (
	"math"
	"time"

	"github.com/weir-go/weir/internal/proof/overload"
)

// rajomonParameters are the parameters that users of Rajomon choose: how much a price rises or
// falls for a difference of 10 ms between the longest wait and the threshold, and how often.
type rajomonParameters struct {
	step             int64
	threshold, every time.Duration
}

var (
	// published are the parameters in the tests of its repository.
	published = rajomonParameters{180, 500 * time.Microsecond, 5 * time.Millisecond}
	// tuned are the best of 40 parameter sets for these graphs, found with other seeds.
	tuned = rajomonParameters{20, 60 * time.Millisecond, 250 * time.Millisecond}
)

// rajomon is the scheme of Xing and others, "Rajomon: Decentralized and Coordinated Overload
// Control for Latency-Sensitive Microservices", NSDI 2025, as a limiter of one service. Each
// service has a price, which follows how long requests wait in it. A request has tokens. It is
// admitted if it has as many as the price, and needs the highest price of all services that it will
// visit. One in five answers tells the caller the price. The first caller has a budget of tokens.
//
// It is a new implementation. With the repository's own functions in its place (commit f7c7553:
// UpdatePrice, UpdateDownstreamPrice, LoadShedding, RateLimiting, DeductTokens) all figures are the
// same. The original measures waits in Go's scheduler; this one measures waits for a slot.
type rajomon struct {
	parameters rajomonParameters
	front      *rajomon // nil: this is the front
	user       *rajomonUser
	index      int
	own        int64
	rises      int // consecutive rises of the price
	prices     map[string]map[int]int64
	longest    time.Duration // longest wait since the last adjustment of the price
	adjusted   time.Time
}

// rajomonUser is the end user, who pays. tokensOf is divided equally among the requests that the
// services can do.
type rajomonUser struct {
	rajomon
	left   int64
	filled time.Time
	per    int64 // per millisecond
	tokens map[float64]int64
}

const tokensOf = 10_000 // initial tokens

func newRajomon(g *overload.Graph, p rajomonParameters) (services []overload.Limiter) {
	user := &rajomonUser{
		left: tokensOf, filled: time.Now(), per: int64(g.Capacity() * tokensOf / 2 / 1000),
		tokens: make(map[float64]int64),
	}
	user.prices = make(map[string]map[int]int64)
	var front *rajomon
	for i := range g.Services {
		r := &rajomon{
			parameters: p, front: front, user: user, index: i,
			prices: make(map[string]map[int]int64), adjusted: time.Now(),
		}
		if i == 0 {
			front = r
		}
		services = append(services, r)
	}
	return services
}

func (r *rajomon) adjust() {
	p := r.parameters
	for now := time.Now(); now.Sub(r.adjusted) >= p.every; r.longest = 0 {
		r.adjusted = r.adjusted.Add(p.every)
		by := (r.longest.Microseconds() - p.threshold.Microseconds()) * p.step / 10_000
		switch {
		case by > 0:
			if r.rises >= 2 {
				by = int64(float64(by) * math.Pow(0.8, float64(r.rises)))
			}
			r.rises++
		case by < 0:
			r.rises = 0
		}
		r.own = max(0, r.own+by)
	}
}

// Waited records how long a request waited for a slot.
func (r *rajomon) Waited(d time.Duration) {
	r.adjust()
	r.longest = max(r.longest, d)
}

// price returns the price of a kind of request in this service and those behind it.
func (r *rajomon) price(kind string) int64 {
	price := r.own
	for _, p := range r.prices[kind] {
		price = max(price, p)
	}
	return price
}

func (r *rajomon) learn(kind string, service int, price int64) {
	if r.prices[kind] == nil {
		r.prices[kind] = make(map[int]int64)
	}
	r.prices[kind][service] = price
}

// send returns the tokens of a request, and whether the user sends the request.
func (u *rajomonUser) send(q overload.Request) (tokens int64, ok bool) {
	for now := time.Now(); now.Sub(u.filled) >= time.Millisecond; {
		u.filled = u.filled.Add(time.Millisecond)
		u.left += u.per
	}
	tokens = int64((1 - q.Lot) * float64(u.left))
	if tokens < u.price(q.Route) {
		return 0, false
	}
	u.left -= tokens
	u.tokens[q.Lot] = tokens
	return tokens, true
}

func (r *rajomon) Enter(q overload.Request) (func(bool), bool) {
	r.adjust()
	caller, tokens, ok := &r.user.rajomon, int64(0), true
	if r.front != nil {
		caller, tokens = r.front, r.user.tokens[q.Lot]
	} else if tokens, ok = r.user.send(q); !ok {
		return nil, false
	}
	price := r.price(q.Route)
	tell := func(bool) {
		if tokens%5 == 0 {
			caller.learn(q.Route, r.index, price)
		}
	}
	if tokens < price {
		tell(true)
		return nil, false
	}
	return tell, true
}
