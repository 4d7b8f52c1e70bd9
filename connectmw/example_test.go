package connectmw_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/weir-go/weir/connectmw"
	"github.com/weir-go/weir/headers"
	"github.com/weir-go/weir/keyfuncs"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/nethttp"
)

// Each client may make 2 calls a day.
var perClient = connectmw.MustNew(connectmw.Config{Rules: []connectmw.Rule{{
	Name:  "per-client",
	Limit: limits.TokenBucket(limits.PerDay(2), 2),
	Key:   keyfuncs.Address(connectmw.Peer),
}}})

// Interceptors never count calls that cannot be decoded. This limiter, around the mux, counts requests.
var flood = nethttp.MustNew(nethttp.Config{
	Rules: []nethttp.Rule{{
		Name:  "requests",
		Limit: limits.TokenBucket(limits.PerDay(10), 10),
		Key:   keyfuncs.Address(keyfuncs.Peer),
	}},
	Headers: headers.Options{Show: headers.OnDenial},
})

const greet = "/greet.v1.Greeter/Greet"

func Example() {
	mux := http.NewServeMux()
	mux.Handle(greet, connect.NewUnaryHandler(greet, greeter,
		connect.WithInterceptors(perClient.Interceptor()),
		connect.WithReadMaxBytes(64<<10), // also of what a compressed message becomes
	))
	server := httptest.NewServer(flood.Handler(mux))
	defer server.Close()

	client := connect.NewClient[wrapperspb.StringValue, wrapperspb.StringValue](server.Client(), server.URL+greet)
	for range 3 {
		response, err := client.CallUnary(context.Background(), connect.NewRequest(wrapperspb.String("Ann")))
		if err != nil {
			fmt.Println(connect.CodeOf(err))
			continue
		}
		fmt.Println(response.Msg.GetValue(), response.Header().Get("RateLimit-Policy"))
	}
	// Output:
	// Hello, Ann. "per-client";q=2;w=86400
	// Hello, Ann. "per-client";q=2;w=86400
	// resource_exhausted
}

func greeter(
	_ context.Context, r *connect.Request[wrapperspb.StringValue],
) (*connect.Response[wrapperspb.StringValue], error) {
	return connect.NewResponse(wrapperspb.String("Hello, " + r.Msg.GetValue() + ".")), nil
}
