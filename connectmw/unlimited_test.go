package connectmw_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/weir-go/weir/connectmw"
	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/keyfuncs"
	"github.com/weir-go/weir/limits"
)

// shopFile is the descriptor of a file, such as protoc-gen-go generates: a service shop.v1.Orders with the methods
// Place, Cancel and Follow, of which the last is a stream.
var shopFile = func() protoreflect.FileDescriptor {
	method := func(name string, streams bool) *descriptorpb.MethodDescriptorProto {
		text := proto.String(".google.protobuf.StringValue")
		return &descriptorpb.MethodDescriptorProto{
			Name: proto.String(name), InputType: text, OutputType: text, ServerStreaming: proto.Bool(streams),
		}
	}
	file, err := protodesc.NewFile(&descriptorpb.FileDescriptorProto{
		Name: proto.String("shop/v1/shop.proto"), Package: proto.String("shop.v1"), Syntax: proto.String("proto3"),
		Dependency: []string{"google/protobuf/wrappers.proto"},
		Service: []*descriptorpb.ServiceDescriptorProto{{
			Name: proto.String("Orders"),
			Method: []*descriptorpb.MethodDescriptorProto{
				method("Place", false), method("Cancel", false), method("Follow", true),
			},
		}},
	}, protoregistry.GlobalFiles)
	if err != nil {
		panic(err)
	}
	return file
}()

func TestProceduresThatNothingLimitsAreListed(t *testing.T) {
	ruleFor := func(name string, applies func(*connectmw.Call) bool) connectmw.Rule {
		return connectmw.Rule{
			Name: name, Limit: limits.FixedWindow(limits.PerMinute(1000)),
			Key: core.When(applies, keyfuncs.Address(connectmw.Peer)),
		}
	}
	is := func(method string) func(*connectmw.Call) bool {
		return func(c *connectmw.Call) bool { return strings.HasSuffix(c.Spec.Procedure, "/"+method) }
	}
	place := []connectmw.Rule{ruleFor("place", is("Place"))}
	for name, c := range map[string]struct {
		rules []connectmw.Rule
		want  []string
	}{
		"one has a rule": {place, []string{"/shop.v1.Orders/Cancel", "/shop.v1.Orders/Follow"}},
		"a name is misspelt": {
			[]connectmw.Rule{ruleFor("place", is("place"))},
			[]string{"/shop.v1.Orders/Cancel", "/shop.v1.Orders/Follow", "/shop.v1.Orders/Place"},
		},
		"streams have one": {
			append(slices.Clone(place), ruleFor("streams", func(c *connectmw.Call) bool {
				return c.Spec.StreamType != connect.StreamTypeUnary
			})),
			[]string{"/shop.v1.Orders/Cancel"},
		},
		"unary calls do": {
			[]connectmw.Rule{ruleFor("unary", func(c *connectmw.Call) bool { return c.Message != nil })},
			[]string{"/shop.v1.Orders/Follow"},
		},
		"a last rule, for all": {append(slices.Clone(place), connectmw.Rule{
			Name: "other", Limit: limits.FixedWindow(limits.PerMinute(1)),
			Key: core.Otherwise(place, keyfuncs.Address(connectmw.Peer)),
		}), nil},
	} {
		l := connectmw.MustNew(connectmw.Config{Rules: c.rules})
		if got := l.Unlimited(shopFile, shopFile); !slices.Equal(got, c.want) {
			t.Errorf("%s: got %v, want %v", name, got, c.want)
		}
	}
}

// A line at the start of a server names the procedures that were forgotten.
func ExampleLimiter_Unlimited() {
	limiter := connectmw.MustNew(connectmw.Config{Rules: []connectmw.Rule{{
		Name:  "orders",
		Limit: limits.SlidingWindow(limits.PerMinute(60)),
		Key: core.When(func(c *connectmw.Call) bool { return c.Spec.Procedure == "/shop.v1.Orders/Place" },
			keyfuncs.Address(connectmw.Peer)),
	}}})
	if procedures := limiter.Unlimited(shopFile); len(procedures) > 0 {
		fmt.Println("no rule limits these procedures:", procedures)
	}
	// Output: no rule limits these procedures: [/shop.v1.Orders/Cancel /shop.v1.Orders/Follow]
}

// A call without a user is answered connect.CodeUnauthenticated: clients repeat connect.CodeUnavailable.
func ExampleConfig_unauthenticated() {
	errNoUser := errors.New("sign in first")
	limiter := connectmw.MustNew(connectmw.Config{
		Rules: []connectmw.Rule{{
			Name: "user", Limit: limits.SlidingWindow(limits.PerMinute(60)),
			Key: func(*connectmw.Call) (string, error) { return "", errNoUser },
		}},
		Denied: func(_ *connectmw.Call, o core.Outcome, _ *connect.Error) error {
			if errors.Is(o.Err(), errNoUser) {
				return connect.NewError(connect.CodeUnauthenticated, errNoUser)
			}
			return nil // as it is: a denial, or a backend that failed
		},
	})
	visit(limiter.Interceptor(), served, []string{"Place"})
	// Output: Place unauthenticated: sign in first
}
