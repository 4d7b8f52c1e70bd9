package grpcmw_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/status"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/grpcmw"
	"github.com/weir-go/weir/keyfuncs"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/policy"
)

// ruleFor returns a rule for the calls for which applies is true.
func ruleFor(name string, applies func(*grpcmw.Call) bool) grpcmw.Rule {
	return grpcmw.Rule{
		Name: name, Limit: limits.FixedWindow(limits.PerMinute(1000)),
		Key: core.When(applies, keyfuncs.Address(grpcmw.Peer)),
	}
}

func isMethod(name string) func(*grpcmw.Call) bool {
	return func(c *grpcmw.Call) bool { return strings.HasSuffix(c.FullMethod, name) }
}

func TestMethodsThatNothingLimitsAreListed(t *testing.T) {
	server := grpc.NewServer()
	pb.RegisterTestServiceServer(server, new(service))
	healthpb.RegisterHealthServer(server, health.NewServer())
	unlimited := func(rules ...grpcmw.Rule) []string {
		return newLimiter(t, grpcmw.Config{Rules: rules}).Unlimited(server.GetServiceInfo())
	}
	const test, check = "/grpc.testing.TestService/", "/grpc.health.v1.Health/"
	isHealth := func(c *grpcmw.Call) bool { return strings.HasPrefix(c.FullMethod, check) }
	isStream := func(c *grpcmw.Call) bool { return c.Message == nil }
	isUnary := func(c *grpcmw.Call) bool { return c.Message != nil }
	unary := []string{test + "CacheableUnaryCall", test + "EmptyCall", test + "UnaryCall", test + "UnimplementedCall"}

	got, want := unlimited(ruleFor("health", isHealth), ruleFor("streams", isStream)), unary
	if !slices.Equal(got, want) {
		t.Errorf("health and streams have rules: got %v, want %v", got, want)
	}
	if got := unlimited(ruleFor("health", isHealth), ruleFor("unary", isUnary)); len(got) != 4 ||
		!slices.Contains(got, test+"FullDuplexCall") {
		t.Errorf("health and unary calls have rules: got %v", got)
	}
	if got := unlimited(ruleFor("misspelt", isMethod("/UnaryCal"))); !slices.Contains(got, test+"UnaryCall") {
		t.Errorf("a misspelt name: got %v", got)
	}
	if got := unlimited(ruleFor("all", func(*grpcmw.Call) bool { return true })); len(got) > 0 {
		t.Errorf("all have a rule: got %v", got)
	}
	shadow := ruleFor("shadow", func(*grpcmw.Call) bool { return true })
	shadow.Mode = core.Shadow
	if got := unlimited(shadow); !slices.Contains(got, test+"UnaryCall") {
		t.Errorf("a shadow limits nothing: got %v", got)
	}
	rules := []grpcmw.Rule{ruleFor("health", isHealth)}
	other := grpcmw.Rule{
		Name: "other", Limit: limits.FixedWindow(limits.PerMinute(1)),
		Key: core.Otherwise(rules, keyfuncs.Address(grpcmw.Peer)),
	}
	if got := unlimited(append(rules, other)...); len(got) > 0 {
		t.Errorf("a last rule is for the others: got %v", got)
	}
	looks := ruleFor("message", func(c *grpcmw.Call) bool { return c.Message.(*pb.SimpleRequest).FillUsername })
	if got := unlimited(looks); len(got) > 0 { // it fails for all calls, which are then unavailable
		t.Errorf("a condition that panics: got %v", got)
	}
}

func TestMethodsThatAPolicyFileForgetsAreListed(t *testing.T) {
	p, err := policy.Parse("weir.yaml",
		[]byte(`{version: 1, rules: [{name: calls, match: POST /grpc.testing.TestService/, `+
			`except: POST /grpc.testing.TestService/EmptyCall, key: everybody, limit: 10/minute}]}`),
		policy.Names[*grpcmw.Call]{Request: (*grpcmw.Call).Request})
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	pb.RegisterTestServiceServer(server, new(service))
	got := newLimiter(t, grpcmw.Config{Rules: p.Rules()}).Unlimited(server.GetServiceInfo())
	if want := []string{"/grpc.testing.TestService/EmptyCall"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// A last rule limits calls of methods that no other rule names, over the wire.
func TestWhatNoRuleNamesHasTheLastRule(t *testing.T) {
	all := keyfuncs.Constant[*grpcmw.Call]("all")
	rules := []grpcmw.Rule{
		{Name: "unary", Limit: limits.FixedWindow(limits.PerDay(100)), Key: core.When(isMethod("/UnaryCall"), all)},
	}
	other := grpcmw.Rule{Name: "other", Limit: limits.FixedWindow(limits.PerDay(1)), Key: core.Otherwise(rules, all)}
	client := serve(t, new(service), both(newLimiter(t, grpcmw.Config{Rules: append(rules, other)}))...)
	for range 3 {
		if got := ask(t.Context(), client); got.code == codes.ResourceExhausted {
			t.Errorf("UnaryCall: %+v", got)
		}
	}
	for _, want := range []bool{false, true} {
		_, err := client.EmptyCall(t.Context(), new(pb.Empty))
		if denied := status.Code(err) == codes.ResourceExhausted; denied != want {
			t.Errorf("EmptyCall: %v, want a denial: %t", err, want)
		}
	}
}

// A line at the start of a server names the methods that were forgotten.
func ExampleLimiter_Unlimited() {
	limiter := grpcmw.MustNew(grpcmw.Config{Rules: []grpcmw.Rule{{
		Name:  "checks",
		Limit: limits.SlidingWindow(limits.PerMinute(60)),
		Key: core.When(func(c *grpcmw.Call) bool { return c.FullMethod == healthpb.Health_Check_FullMethodName },
			keyfuncs.Address(grpcmw.Peer)),
	}}})
	server := grpc.NewServer(grpc.ChainUnaryInterceptor(limiter.Unary()), grpc.ChainStreamInterceptor(limiter.Stream()))
	healthpb.RegisterHealthServer(server, health.NewServer())
	if methods := limiter.Unlimited(server.GetServiceInfo()); len(methods) > 0 {
		fmt.Println("no rule limits these methods:", methods)
	}
	// Output: no rule limits these methods: [/grpc.health.v1.Health/List /grpc.health.v1.Health/Watch]
}

// A call without a user is answered codes.Unauthenticated: clients repeat codes.Unavailable.
func ExampleConfig_unauthenticated() {
	errNoUser := errors.New("sign in first")
	limiter := grpcmw.MustNew(grpcmw.Config{
		Rules: []grpcmw.Rule{{
			Name: "user", Limit: limits.SlidingWindow(limits.PerMinute(60)),
			Key: func(*grpcmw.Call) (string, error) { return "", errNoUser },
		}},
		Denied: func(_ *grpcmw.Call, o core.Outcome, _ *status.Status) error {
			if errors.Is(o.Err(), errNoUser) {
				return status.Error(codes.Unauthenticated, errNoUser.Error())
			}
			return nil // as it is: a denial, or a backend that failed
		},
	})
	_, err := limiter.Unary()(context.Background(), nil, &grpc.UnaryServerInfo{FullMethod: "/a.B/C"}, handler)
	fmt.Println(err)
	// Output: rpc error: code = Unauthenticated desc = sign in first
}
