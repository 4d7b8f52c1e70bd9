package shed

import (
	"math"
	"time"

	"github.com/weir-go/weir/internal/proof/overload"
)

// rajomonParameters are what users of Rajomon choose: how much a price rises or falls by a
// difference of 10 ms between the longest wait and the threshold, and how often.
type rajomonParameters struct {
	step             int64
	threshold, every time.Duration
}

var (
	// published are those of the tests of its repository.
	published = rajomonParameters{180, 500 * time.Microsecond, 5 * time.Millisecond}
	// tuned are the best of 40 for these graphs, with other seeds.
	tuned = rajomonParameters{20, 60 * time.Millisecond, 250 * time.Millisecond}
)

// rajomon is the scheme of Xing and others, "Rajomon: Decentralized and Coordinated Overload
// Control for Latency-Sensitive Microservices", NSDI 2025, as a limiter of one service. Each
// service has a price, which follows how long requests wait in it. A request has tokens, goes on
// if it has as many as the price, and needs the highest price of all services that it will visit.
// One in five answers tells the caller the price. The first caller has a budget of tokens.
//
// It is written anew. With the repository's own functions in its place (commit f7c7553:
// UpdatePrice, UpdateDownstreamPrice, LoadShedding, RateLimiting, DeductTokens) all figures are
// the same. Its wait is that in Go's scheduler; here it is that for a slot.
type rajomon struct {
	parameters rajomonParameters
	front      *rajomon // nil: it is the front
	user       *rajomonUser
	index      int
	own        int64
	rises      int // of the price, one after the other
	prices     map[string]map[int]int64
	longest    time.Duration // wait since the price was last adjusted
	adjusted   time.Time
}

// rajomonUser is the end user, who pays. An equal part of tokensOf goes to each request that the
// services can do.
type rajomonUser struct {
	rajomon
	left   int64
	filled time.Time
	per    int64 // for each millisecond
	tokens map[float64]int64
}

const tokensOf = 10_000 // at first

func newRajomon(g *overload.Graph, p rajomonParameters) (services []overload.Limiter) {
	user := &rajomonUser{
		left: tokensOf, filled: time.Now(), per: int64(g.Capacity() * tokensOf / 2 / 1000), tokens: make(map[float64]int64),
	}
	user.prices = make(map[string]map[int]int64)
	var front *rajomon
	for i := range g.Services {
		r := &rajomon{
			parameters: p, front: front, user: user, index: i, prices: make(map[string]map[int]int64), adjusted: time.Now(),
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

// Waited notes how long a request has waited for a slot.
func (r *rajomon) Waited(d time.Duration) {
	r.adjust()
	r.longest = max(r.longest, d)
}

// price returns what a request of a kind needs here and behind.
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

// send returns the tokens of a request, and whether the user sends it.
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
