package connect2mw_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"

	"connectrpc.com/connect/v2"
	"connectrpc.com/connect/v2/connecthttp"

	"github.com/weir-go/weir/connect2mw"
	"github.com/weir-go/weir/keyfuncs"
	"github.com/weir-go/weir/limits"
)

// Each client may make 2 calls a day.
var perClient = connect2mw.MustNew(connect2mw.Config{Rules: []connect2mw.Rule{{
	Name:  "per-client",
	Limit: limits.TokenBucket(limits.PerDay(2), 2),
	Key:   keyfuncs.Address(connect2mw.Peer),
}}})

func Example() {
	server := connect.NewServer(perClient.Interceptor())
	server.Register(unary(greet, greeter)) // as greetv1connect.RegisterGreeterHandler does
	mux := http.NewServeMux()
	connecthttp.Mount(mux, server)
	listening := httptest.NewServer(mux)
	defer listening.Close()

	client := connect.NewClient(connecthttp.NewTransport(listening.Client(), listening.URL))
	for range 3 {
		ctx, info := connect.NewClientContext(context.Background())
		text, err := ask(ctx, client, greet, "Ann")
		if err != nil {
			fmt.Println(connect.CodeOf(err))
			continue
		}
		fmt.Println(text, info.ResponseHeader().Get("RateLimit-Policy"))
	}
	// Output:
	// Hello, Ann. "per-client";q=2;w=86400
	// Hello, Ann. "per-client";q=2;w=86400
	// resource_exhausted
}
