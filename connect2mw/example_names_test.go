package connect2mw_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"time"

	"connectrpc.com/connect/v2"
	"connectrpc.com/connect/v2/connecthttp"
	"connectrpc.com/connect/v2/connectinprocess"

	weirclient "github.com/weir-go/weir/client"
	"github.com/weir-go/weir/connect2mw"
	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/keyfuncs"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/policy"
	"github.com/weir-go/weir/shed"
)

// visit calls methods of a server behind an interceptor, and prints the answers. Of the methods, "Fail"
// always ends with connect.CodeUnauthenticated.
func visit(interceptor connect.ServerInterceptor, handler func(context.Context) string, methods []string) {
	server := connect.NewServer(interceptor)
	for _, method := range []string{"Place", "Cancel", "Fail"} {
		server.Register(unary("/shop.v1.Orders/"+method, func(ctx context.Context, _ string) (string, error) {
			if method == "Fail" {
				return "", connect.NewError(connect.CodeUnauthenticated, "wrong password")
			}
			return handler(ctx), nil
		}))
	}
	mux := http.NewServeMux()
	connecthttp.Mount(mux, server)
	listening := httptest.NewServer(mux)
	defer listening.Close()
	client := connect.NewClient(connecthttp.NewTransport(listening.Client(), listening.URL))
	for _, method := range methods {
		text, err := ask(context.Background(), client, "/shop.v1.Orders/"+method, "order")
		if err != nil {
			fmt.Println(method, err)
			continue
		}
		fmt.Println(method, text)
	}
}

func served(context.Context) string { return "served" }

// place calls one method twice.
var place = []string{"Place", "Place"}

// call is one that a server has received.
func call(fields ...string) *connect2mw.Call {
	c := &connect2mw.Call{
		Context: context.Background(), Spec: connect.Spec{Procedure: "/shop.v1.Orders/Place"},
		Info: new(connect.CallInfo),
	}
	for i := 0; i < len(fields); i += 2 {
		c.Info.RequestHeader().Set(fields[i], fields[i+1])
	}
	return c
}

// once is a limiter that allows one call a day for each key.
func once(key func(*connect2mw.Call) (string, error)) *connect2mw.Limiter {
	return connect2mw.MustNew(connect2mw.Config{
		Rules:  []connect2mw.Rule{{Name: "once", Limit: limits.TokenBucket(limits.PerDay(1), 1), Key: key}},
		Denied: brief,
	})
}

// brief says no wait, which would differ each time.
func brief(_ *connect2mw.Call, o core.Outcome, err *connect.Error) error {
	return connect.NewError(err.Code(), o.Verdict().String())
}

func ExampleNew() {
	_, err := connect2mw.New(connect2mw.Config{
		Rules: []connect2mw.Rule{
			{Name: "per-client", Limit: limits.SlidingWindow(limits.PerMinute(0)), Key: connect2mw.Method},
		},
	})
	fmt.Println(err)
	// Output: core: rule "per-client": limit: units of a sliding-window must be 1 to 1000000000 (got 0)
}

func ExampleMustNew() {
	defer func() { fmt.Println(recover()) }()
	connect2mw.MustNew(connect2mw.Config{})
	// Output: core: no rules: a limiter needs at least one
}

// One interceptor serves unary calls and streams.
func ExampleLimiter_Interceptor() {
	visit(once(keyfuncs.Address(connect2mw.Peer)).Interceptor(), served, place)
	// Output:
	// Place served
	// Place resource_exhausted: denied
}

func ExampleLimiter_Unlimited() {
	limiter := once(core.When(func(c *connect2mw.Call) bool { return c.Spec.Procedure == "/shop.v1.Orders/Place" },
		connect2mw.Method))
	server := connect.NewServer(limiter.Interceptor())
	server.Register(unary("/shop.v1.Orders/Place", nil), unary("/shop.v1.Orders/Cancel", nil))
	fmt.Println(limiter.Unlimited(server.Specs()))
	// Output: [/shop.v1.Orders/Cancel]
}

func ExampleLift() {
	key := keyfuncs.First(connect2mw.Lift(keyfuncs.BearerToken), connect2mw.Lift(keyfuncs.Header("X-Tenant")))
	fmt.Println(key(call("X-Tenant", "acme")))
	fmt.Println(key(call("X-Tenant", "acme", "Authorization", "Bearer secret")))
	// Output:
	// 1:acme <nil>
	// 0:2bb80d537b1da3e38bd30361aa855686 <nil>
}

func ExamplePeer() {
	c := call()
	c.Info.PeerAddr = "192.0.2.1:50000"
	fmt.Println(keyfuncs.Address(connect2mw.Peer)(c))
	// Output: 192.0.2.1 <nil>
}

// Each client may use each method once.
func ExampleMethod() {
	limiter := once(keyfuncs.Join(connect2mw.Method, keyfuncs.Address(connect2mw.Peer)))
	visit(limiter.Interceptor(), served, []string{"Place", "Place", "Cancel"})
	// Output:
	// Place served
	// Place resource_exhausted: denied
	// Cancel served
}

func ExampleService() {
	fmt.Println(connect2mw.Service(call()))
	// Output: shop.v1.Orders <nil>
}

// Calls of one tenant count together, whatever they ask for.
func ExampleCall() {
	limiter := once(func(c *connect2mw.Call) (string, error) {
		return c.Info.RequestHeader().Get("X-Tenant"), nil
	})
	fmt.Println(limiter.Decide(call("X-Tenant", "acme")).Allowed(), limiter.Decide(call("X-Tenant", "acme")).Allowed())
	// Output: true false
}

// The rules of a policy file read calls as POST requests for the procedure.
func ExampleCall_Request() {
	file, err := policy.Parse("rules.yaml", []byte(`
version: 1
client: {peer: true}
rules:
  - {name: place, match: POST /shop.v1.Orders/Place, key: address, limit: sliding-log 1/day}
`), policy.Names[*connect2mw.Call]{Request: (*connect2mw.Call).Request})
	if err != nil {
		fmt.Println(err)
		return
	}
	limiter := connect2mw.MustNew(connect2mw.Config{Rules: file.Rules(), Denied: brief})
	visit(limiter.Interceptor(), served, []string{"Place", "Place", "Cancel"})
	// Output:
	// Place served
	// Place resource_exhausted: denied
	// Cancel served
}

// Denials in the words of the program.
func ExampleConfig() {
	limiter := connect2mw.MustNew(connect2mw.Config{
		Rules: []connect2mw.Rule{{Name: "once", Limit: limits.TokenBucket(limits.PerDay(1), 1), Key: connect2mw.Method}},
		Denied: func(_ *connect2mw.Call, _ core.Outcome, err *connect.Error) error {
			mine := connect.NewError(err.Code(), "come back tomorrow")
			for _, detail := range err.Details() {
				mine = mine.WithDetail(detail)
			}
			return mine
		},
	})
	visit(limiter.Interceptor(), served, place)
	// Output:
	// Place served
	// Place resource_exhausted: come back tomorrow
}

// Only calls that fail count.
func ExampleRule() {
	failures := connect2mw.MustNew(connect2mw.Config{
		Rules: []connect2mw.Rule{{
			Name:      "failed log-ins",
			Limit:     limits.SlidingLog(limits.PerDay(1)),
			Key:       keyfuncs.Address(connect2mw.Peer),
			FinalCost: core.OnStatus(func(status int) bool { return status == 401 }), // connect.CodeUnauthenticated
		}},
		Denied: brief,
	})
	visit(failures.Interceptor(), served, []string{"Place", "Fail", "Place"})
	// Output:
	// Place served
	// Fail unauthenticated: wrong password
	// Place resource_exhausted: denied
}

func ExampleOutcomeFrom() {
	limiter := connect2mw.MustNew(connect2mw.Config{
		Rules: []connect2mw.Rule{
			{Name: "a", Limit: limits.TokenBucket(limits.PerDay(5), 5), Key: connect2mw.Method},
		},
		OutcomeInContext: true,
	})
	visit(limiter.Interceptor(), func(ctx context.Context) string {
		outcome, ok := connect2mw.OutcomeFrom(ctx)
		return fmt.Sprint(outcome.At(0).Remaining, " left ", ok)
	}, []string{"Place"})
	// Output: Place 4 left true
}

// A handler that says what it has used.
func ExampleSpend() {
	limiter := connect2mw.MustNew(connect2mw.Config{Rules: []connect2mw.Rule{{
		Name:      "tokens",
		Limit:     limits.TokenBucket(limits.PerDay(100), 100),
		Key:       connect2mw.Service,
		FinalCost: core.SpentCost,
	}}})
	visit(limiter.Interceptor(), func(ctx context.Context) string {
		return fmt.Sprint(connect2mw.Spend(ctx, "tokens", 7))
	}, []string{"Place"})
	o := limiter.Explain(call())
	fmt.Println(o.At(0).Remaining, "left")
	// Output:
	// Place true
	// 93 left
}

// A job that goes on after its call has been answered.
func ExampleDetach() {
	jobs := connect2mw.MustNew(connect2mw.Config{
		Rules: []connect2mw.Rule{{Name: "jobs", Limit: limits.Concurrent(1), Key: connect2mw.Service}}, Denied: brief,
	})
	ends := make(chan func(core.Result), 2)
	start := func(ctx context.Context) string {
		end, _ := connect2mw.Detach(ctx)
		ends <- end
		return "started"
	}
	visit(jobs.Interceptor(), start, place)
	(<-ends)(core.Result{Status: 200})
	visit(jobs.Interceptor(), start, []string{"Place"})
	// Output:
	// Place started
	// Place resource_exhausted: denied
	// Place started
}

// A shedder goes outside of the limiter.
func ExampleShed() {
	shedder := shed.MustNew(shed.Options[*connect2mw.Call]{
		Exempt: func(c *connect2mw.Call) bool { return c.Spec.Procedure == "/grpc.health.v1.Health/Check" },
	})
	server := connect.NewServer(connect2mw.Shed(shedder), once(connect2mw.Method).Interceptor())
	_ = server // for handlers
	visit(connect2mw.Shed(shedder), func(context.Context) string {
		return fmt.Sprint(shedder.State().InFlight, " in flight")
	}, []string{"Place"})
	// Output: Place 1 in flight
}

// A client that waits as long as the server says, and spreads its calls.
func ExampleClient() {
	limiter := connect2mw.MustNew(connect2mw.Config{
		Rules: []connect2mw.Rule{
			{Name: "a", Limit: limits.TokenBucket(limits.Per(1, 10*time.Millisecond), 1), Key: connect2mw.Method},
		},
	})
	server := connect.NewServer(limiter.Interceptor())
	server.Register(unary(greet, greeter))

	follow, err := connect2mw.Client(weirclient.Options{MaxWait: 10 * time.Second})
	if err != nil {
		fmt.Println(err)
		return
	}
	client := connect.NewClient(connectinprocess.New(server), follow)
	for range 2 {
		fmt.Println(ask(context.Background(), client, greet, "Ann"))
	}
	// Output:
	// Hello, Ann. <nil>
	// Hello, Ann. <nil>
}

func ExampleMustClient() {
	defer func() { fmt.Println(recover()) }()
	connect2mw.MustClient(weirclient.Options{Attempts: -1})
	// Output: client: attempts: must be positive, or 0 for 3 (got -1)
}
