package plans_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/weir-go/weir/keyfuncs"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/nethttp"
	"github.com/weir-go/weir/plans"
)

// Plan is what a customer buys: the limits of two rules.
type Plan struct{ Rate, Quota limits.Limit }

func (p Plan) Validate() error { return errors.Join(p.Rate.Validate(), p.Quota.Validate()) }

var (
	freePlan = Plan{limits.SlidingWindow(limits.PerMinute(10)), limits.Calendar(1_000, limits.Month)}
	proPlan  = Plan{limits.SlidingWindow(limits.PerMinute(300)), limits.Calendar(100_000, limits.Month)}
)

type customerKey struct{} // the key under which authentication puts the customer into the context

func customerFrom(ctx context.Context) (string, bool) {
	name, ok := ctx.Value(customerKey{}).(string)
	return name, ok
}

// lookUp stands for a query of a database.
func lookUp(_ context.Context, customer string) (Plan, error) {
	if customer == "acme" {
		return proPlan, nil
	}
	return Plan{}, plans.ErrNoPlan // for sql.ErrNoRows
}

// Two rules share the look-ups of one cache.
func Example() {
	customers := plans.MustNew(lookUp, freePlan, plans.Options{})
	defer customers.Close()
	customer := keyfuncs.FromContext(customerFrom)
	limiter := nethttp.MustNew(nethttp.Config{Rules: []nethttp.Rule{{
		Name:     "rate",
		Key:      customer,
		LimitFor: customers.LimitFor(func(p Plan) limits.Limit { return p.Rate }),
	}, {
		Name:     "quota",
		Key:      customer,
		LimitFor: customers.LimitFor(func(p Plan) limits.Limit { return p.Quota }),
	}}})

	for _, name := range []string{"acme", "stranger"} {
		ctx := context.WithValue(context.Background(), customerKey{}, name)
		o := limiter.Decide(httptest.NewRequestWithContext(ctx, "GET", "/", nil))
		fmt.Println(name, o.At(0).Limit(), o.At(1).Limit())
	}
	// Output:
	// acme sliding-window 300/1m calendar 100000/month
	// stranger sliding-window 10/1m calendar 1000/month
}

// If a plan is one limit, it needs no type of its own.
func ExampleNew() {
	customers, err := plans.New(func(ctx context.Context, customer string) (limits.Limit, error) {
		plan, err := lookUp(ctx, customer)
		return plan.Rate, err
	}, freePlan.Rate, plans.Options{TTL: 5 * time.Minute})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer customers.Close()
	fmt.Println(customers.Find(context.Background(), "acme"))

	_, err = plans.New[limits.Limit](nil, limits.Limit{}, plans.Options{Budget: time.Hour})
	fmt.Println(err)
	// Output:
	// sliding-window 300/1m <nil>
	// plans: lookup: is nil: pass a function that finds the plan of a key
	// plans: default plan: limit is not set (make one with a constructor such as SlidingWindow(PerMinute(100)))
	// plans: budget: must be positive and at most the TTL, 1m0s (got 1h0m0s)
}

func ExampleMustNew() {
	customers := plans.MustNew(lookUp, freePlan, plans.Options{MaxKeys: 10_000, MaxLookups: 4})
	defer customers.Close()
	plan, err := customers.Find(context.Background(), "acme")
	fmt.Println(plan.Quota, err)
	// Output: calendar 100000/month <nil>
}

// For a framework whose requests are no *http.Request, write LimitFor by Find.
func ExampleCache_Find() {
	type request struct { // such as a *gin.Context
		context.Context
	}
	customers := plans.MustNew(lookUp, freePlan, plans.Options{})
	defer customers.Close()
	limitFor := func(r request, key string) (limits.Limit, error) {
		plan, err := customers.Find(r.Context, key)
		return plan.Rate, err
	}
	fmt.Println(limitFor(request{context.Background()}, "acme"))
	// Output: sliding-window 300/1m <nil>
}

// The key of a rule may be a digest. If the database knows customers by another name, find it in
// the request.
func ExampleCache_LimitFor() {
	customers := plans.MustNew(lookUp, freePlan, plans.Options{})
	defer customers.Close()
	rate := customers.LimitFor(func(p Plan) limits.Limit { return p.Rate })
	byName := func(r *http.Request, _ string) (limits.Limit, error) {
		name, _ := customerFrom(r.Context())
		return rate(r, name)
	}
	ctx := context.WithValue(context.Background(), customerKey{}, "acme")
	r := httptest.NewRequestWithContext(ctx, "GET", "/", nil)
	fmt.Println(byName(r, keyfuncs.Digest("the API key of acme")))
	// Output: sliding-window 300/1m <nil>
}

func ExampleCache_Expire() {
	acme := freePlan
	customers := plans.MustNew(func(context.Context, string) (Plan, error) { return acme, nil },
		freePlan, plans.Options{})
	defer customers.Close()
	show := func() {
		plan, _ := customers.Find(context.Background(), "acme")
		fmt.Println(plan.Rate)
	}
	show()
	acme = proPlan // it has paid
	show()
	customers.Expire("acme")
	show()
	// Output:
	// sliding-window 10/1m
	// sliding-window 10/1m
	// sliding-window 300/1m
}

func ExampleCache_State() {
	customers := plans.MustNew(lookUp, freePlan, plans.Options{})
	defer customers.Close()
	for _, name := range []string{"acme", "stranger", "acme"} {
		customers.Find(context.Background(), name)
	}
	s := customers.State()
	fmt.Println(s.Plans, "plan,", s.Others, "key without a plan,", s.Lookups, "look-ups,", s.Failures, "failures")
	// Output: 1 plan, 1 key without a plan, 2 look-ups, 0 failures
}

func ExampleCache_Close() {
	customers := plans.MustNew(lookUp, freePlan, plans.Options{Observe: func(_ context.Context, a plans.Answer) {
		fmt.Println(a.Err)
	}})
	customers.Find(context.Background(), "acme")
	customers.Close()
	plan, err := customers.Find(context.Background(), "acme")
	fmt.Println(plan.Rate, err)
	plan, err = customers.Find(context.Background(), "another")
	fmt.Println(plan.Rate, err)
	// Output:
	// sliding-window 300/1m <nil>
	// plans: the cache is closed
	// sliding-window 10/1m <nil>
}

// Observe tells which requests did not get a current plan, and why.
func ExampleAnswer() {
	fails := false
	customers := plans.MustNew(func(ctx context.Context, name string) (Plan, error) {
		if fails {
			return Plan{}, errors.New("connection refused")
		}
		return lookUp(ctx, name)
	}, freePlan, plans.Options{
		Observe: func(_ context.Context, a plans.Answer) {
			fmt.Printf("last known plan: %v, age below a second: %v: %v\n", a.LastKnown, a.Age < time.Second, a.Err)
		},
	})
	defer customers.Close()
	customers.Find(context.Background(), "acme")
	fails = true
	customers.Expire("acme")
	plan, _ := customers.Find(context.Background(), "acme")
	fmt.Println(plan.Rate)
	plan, _ = customers.Find(context.Background(), "another")
	fmt.Println(plan.Rate)
	// Output:
	// last known plan: true, age below a second: true: connection refused
	// sliding-window 300/1m
	// last known plan: false, age below a second: true: connection refused
	// sliding-window 10/1m
}

// One look-up says both: whether there is such a customer, and by which limits.
func ExampleCache_Missing() {
	customers := plans.MustNew(lookUp, freePlan, plans.Options{})
	defer customers.Close()
	for _, name := range []string{"acme", "stranger"} {
		plan, err := customers.Find(context.Background(), name)
		fmt.Println(name, plan.Rate, err, customers.Missing(name))
	}
	fmt.Println(customers.State().Lookups, "look-ups")
	// Output:
	// acme sliding-window 300/1m <nil> false
	// stranger sliding-window 10/1m <nil> true
	// 2 look-ups
}
