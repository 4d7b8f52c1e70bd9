package connectmw_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/wrapperspb"

	weirclient "github.com/weir-go/weir/client"
	"github.com/weir-go/weir/connectmw"
	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/keyfuncs"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/policy"
	"github.com/weir-go/weir/shed"
)

// visit calls methods of a server behind an interceptor, and prints the answers. Of the methods, "Fail"
// always ends with connect.CodeUnauthenticated.
func visit(interceptor connect.Interceptor, handler func(context.Context) string, methods []string) {
	mux := http.NewServeMux()
	for _, method := range []string{"Place", "Cancel", "Fail"} {
		path := "/shop.v1.Orders/" + method
		mux.Handle(path,
			connect.NewUnaryHandler(path,
				func(ctx context.Context, r *connect.Request[message]) (*connect.Response[message], error) {
					if method == "Fail" {
						return nil, connect.NewError(connect.CodeUnauthenticated, errors.New("wrong password"))
					}
					return connect.NewResponse(wrapperspb.String(handler(ctx))), nil
				}, connect.WithInterceptors(interceptor)))
	}
	server := httptest.NewServer(mux)
	defer server.Close()
	for _, method := range methods {
		client := connect.NewClient[message, message](server.Client(), server.URL+"/shop.v1.Orders/"+method)
		order := connect.NewRequest(wrapperspb.String("order"))
		response, err := client.CallUnary(context.Background(), order)
		if err != nil {
			fmt.Println(method, err)
			continue
		}
		fmt.Println(method, response.Msg.GetValue())
	}
}

func served(context.Context) string { return "served" }

// place calls one method twice.
var place = []string{"Place", "Place"}

// call is one that a server has received.
func call(fields ...string) *connectmw.Call {
	c := &connectmw.Call{
		Context: context.Background(), Spec: connect.Spec{Procedure: "/shop.v1.Orders/Place"},
		Header: make(http.Header),
	}
	for i := 0; i < len(fields); i += 2 {
		c.Header.Set(fields[i], fields[i+1])
	}
	return c
}

// once is a limiter that allows one call a day for each key.
func once(key func(*connectmw.Call) (string, error)) *connectmw.Limiter {
	return connectmw.MustNew(connectmw.Config{
		Rules:  []connectmw.Rule{{Name: "once", Limit: limits.TokenBucket(limits.PerDay(1), 1), Key: key}},
		Denied: brief,
	})
}

// brief says no wait, which would differ each time.
func brief(_ *connectmw.Call, o core.Outcome, err *connect.Error) error {
	return connect.NewError(err.Code(), errors.New(o.Verdict().String()))
}

func ExampleNew() {
	_, err := connectmw.New(connectmw.Config{
		Rules: []connectmw.Rule{
			{Name: "per-client", Limit: limits.SlidingWindow(limits.PerMinute(0)), Key: connectmw.Method},
		},
	})
	fmt.Println(err)
	// Output: core: rule "per-client": limit: units of a sliding-window must be 1 to 1000000000 (got 0)
}

func ExampleMustNew() {
	defer func() { fmt.Println(recover()) }()
	connectmw.MustNew(connectmw.Config{})
	// Output: core: no rules: a limiter needs at least one
}

// One interceptor serves unary calls and streams.
func ExampleLimiter_Interceptor() {
	visit(once(keyfuncs.Address(connectmw.Peer)).Interceptor(), served, place)
	// Output:
	// Place served
	// Place resource_exhausted: denied
}

func ExampleLift() {
	key := keyfuncs.First(connectmw.Lift(keyfuncs.BearerToken), connectmw.Lift(keyfuncs.Header("X-Tenant")))
	fmt.Println(key(call("X-Tenant", "acme")))
	fmt.Println(key(call("X-Tenant", "acme", "Authorization", "Bearer secret")))
	// Output:
	// 1:acme <nil>
	// 0:2bb80d537b1da3e38bd30361aa855686 <nil>
}

func ExamplePeer() {
	c := call()
	c.Peer.Addr = "192.0.2.1:50000"
	fmt.Println(keyfuncs.Address(connectmw.Peer)(c))
	// Output: 192.0.2.1 <nil>
}

// Each client may use each method once.
func ExampleMethod() {
	limiter := once(keyfuncs.Join(connectmw.Method, keyfuncs.Address(connectmw.Peer)))
	visit(limiter.Interceptor(), served, []string{"Place", "Place", "Cancel"})
	// Output:
	// Place served
	// Place resource_exhausted: denied
	// Cancel served
}

func ExampleService() {
	fmt.Println(connectmw.Service(call()))
	// Output: shop.v1.Orders <nil>
}

// The cost of a call is the length of its message.
func ExampleCall() {
	limiter := connectmw.MustNew(connectmw.Config{Rules: []connectmw.Rule{{
		Name:  "bytes",
		Limit: limits.TokenBucket(limits.PerDay(100), 100),
		Key:   connectmw.Service,
		Cost: func(c *connectmw.Call) int64 {
			if m, ok := c.Message.(*wrapperspb.StringValue); ok {
				return int64(len(m.GetValue()))
			}
			return 1
		},
	}}})
	c := call()
	c.Message = wrapperspb.String("order")
	outcome := limiter.Decide(c)
	fmt.Println(outcome.At(0).Remaining)
	// Output: 95
}

// The rules of a policy file read calls as POST requests for the procedure.
func ExampleCall_Request() {
	file, err := policy.Parse("rules.yaml", []byte(`
version: 1
client: {peer: true}
rules:
  - {name: place, match: POST /shop.v1.Orders/Place, key: address, limit: sliding-log 1/day}
`), policy.Names[*connectmw.Call]{Request: (*connectmw.Call).Request})
	if err != nil {
		fmt.Println(err)
		return
	}
	limiter := connectmw.MustNew(connectmw.Config{Rules: file.Rules(), Denied: brief})
	visit(limiter.Interceptor(), served, []string{"Place", "Place", "Cancel"})
	// Output:
	// Place served
	// Place resource_exhausted: denied
	// Cancel served
}

// Denials in the words of the program.
func ExampleConfig() {
	limiter := connectmw.MustNew(connectmw.Config{
		Rules: []connectmw.Rule{{Name: "once", Limit: limits.TokenBucket(limits.PerDay(1), 1), Key: connectmw.Method}},
		Denied: func(_ *connectmw.Call, _ core.Outcome, err *connect.Error) error {
			mine := connect.NewError(err.Code(), errors.New("come back tomorrow"))
			for _, detail := range err.Details() {
				mine.AddDetail(detail)
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
	failures := connectmw.MustNew(connectmw.Config{
		Rules: []connectmw.Rule{{
			Name:      "failed log-ins",
			Limit:     limits.SlidingLog(limits.PerDay(1)),
			Key:       keyfuncs.Address(connectmw.Peer),
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
	limiter := connectmw.MustNew(connectmw.Config{
		Rules: []connectmw.Rule{
			{Name: "a", Limit: limits.TokenBucket(limits.PerDay(5), 5), Key: connectmw.Method},
		},
		OutcomeInContext: true,
	})
	visit(limiter.Interceptor(), func(ctx context.Context) string {
		outcome, ok := connectmw.OutcomeFrom(ctx)
		return fmt.Sprint(outcome.At(0).Remaining, " left ", ok)
	}, []string{"Place"})
	// Output: Place 4 left true
}

// A handler that says what it has used.
func ExampleSpend() {
	limiter := connectmw.MustNew(connectmw.Config{Rules: []connectmw.Rule{{
		Name:      "tokens",
		Limit:     limits.TokenBucket(limits.PerDay(100), 100),
		Key:       connectmw.Service,
		FinalCost: core.SpentCost,
	}}})
	visit(limiter.Interceptor(), func(ctx context.Context) string {
		return fmt.Sprint(connectmw.Spend(ctx, "tokens", 7))
	}, []string{"Place"})
	o := limiter.Explain(call())
	fmt.Println(o.At(0).Remaining, "left")
	// Output:
	// Place true
	// 93 left
}

// A job that goes on after its call has been answered.
func ExampleDetach() {
	jobs := connectmw.MustNew(connectmw.Config{
		Rules: []connectmw.Rule{{Name: "jobs", Limit: limits.Concurrent(1), Key: connectmw.Service}}, Denied: brief,
	})
	ends := make(chan func(core.Result), 2)
	start := func(ctx context.Context) string {
		end, _ := connectmw.Detach(ctx)
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
	shedder := shed.MustNew(shed.Options[*connectmw.Call]{
		Exempt: func(c *connectmw.Call) bool { return c.Spec.Procedure == "/grpc.health.v1.Health/Check" },
	})
	interceptors := connect.WithInterceptors(connectmw.Shed(shedder), once(connectmw.Method).Interceptor())
	_ = interceptors // for handlers
	visit(connectmw.Shed(shedder), func(context.Context) string {
		return fmt.Sprint(shedder.State().InFlight, " in flight")
	}, []string{"Place"})
	// Output: Place 1 in flight
}

// Each service with a certificate counts by its SPIFFE ID.
func ExampleWithTLS() {
	limiter := once(connectmw.Lift(keyfuncs.SPIFFEID))
	mux := http.NewServeMux()
	mux.Handle(greet, connect.NewUnaryHandler(greet, greeter, connect.WithInterceptors(limiter.Interceptor())))
	server := http.Server{Handler: connectmw.WithTLS(mux)} // with TLSConfig.ClientAuth: tls.RequireAndVerifyClientCert
	fmt.Println(server.Handler != nil)
	// Output: true
}

// A client that waits as long as the server says, and spreads its calls.
func ExampleClient() {
	limiter := connectmw.MustNew(connectmw.Config{
		Rules: []connectmw.Rule{
			{Name: "a", Limit: limits.TokenBucket(limits.Per(1, 10*time.Millisecond), 1), Key: connectmw.Method},
		},
	})
	mux := http.NewServeMux()
	mux.Handle(greet, connect.NewUnaryHandler(greet, greeter, connect.WithInterceptors(limiter.Interceptor())))
	server := httptest.NewServer(mux)
	defer server.Close()

	greetings := connect.NewClient[wrapperspb.StringValue, wrapperspb.StringValue](server.Client(), server.URL+greet,
		connect.WithInterceptors(connectmw.MustClient(weirclient.Options{MaxWait: 10 * time.Second})))
	response, err := greetings.CallUnary(context.Background(), connect.NewRequest(wrapperspb.String("Ann")))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(response.Msg.GetValue())
	// Output: Hello, Ann.
}
