package mcpmw_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/keyfuncs"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/mcpmw"
)

type greeting struct {
	Name string `json:"name"`
}

func greet(
	_ context.Context, _ *mcp.CallToolRequest, g greeting,
) (*mcp.CallToolResult, any, error) {
	return &mcp.CallToolResult{
		Content: []mcp.Content{&mcp.TextContent{Text: "Hello, " + g.Name + "."}},
	}, nil, nil
}

// Each client may call the tool greet 2 times a day.
func Example() {
	limiter := mcpmw.MustNew(mcpmw.Config{Rules: []mcpmw.Rule{{
		Name:  "per-client",
		Limit: limits.TokenBucket(limits.PerDay(2), 2),
		Key:   core.When(mcpmw.CallsTool("greet"), keyfuncs.Address(mcpmw.Peer)),
	}}})
	server := mcp.NewServer(&mcp.Implementation{Name: "greeter", Version: "v1.0.0"}, nil)
	mcp.AddTool(server, &mcp.Tool{Name: "greet"}, greet)
	server.AddReceivingMiddleware(limiter.Middleware())
	handler := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, nil)
	web := httptest.NewServer(mcpmw.WithRequest(handler)) // keeps the address of each client
	defer web.Close()

	ctx := context.Background()
	client := mcp.NewClient(&mcp.Implementation{Name: "ann", Version: "v1.0.0"}, nil)
	session, err := client.Connect(ctx, &mcp.StreamableClientTransport{Endpoint: web.URL}, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer session.Close()
	for range 3 {
		result, err := session.CallTool(ctx, &mcp.CallToolParams{
			Name: "greet", Arguments: greeting{"Ann"},
		})
		if err != nil {
			fmt.Println(err)
			continue
		}
		text := result.Content[0].(*mcp.TextContent).Text
		fmt.Println(text, result.Meta["ratelimit-policy"])
	}
	// Output:
	// Hello, Ann. "per-client";q=2;w=86400
	// Hello, Ann. "per-client";q=2;w=86400
	// calling "tools/call": Too many requests: retry in 12 hours.
}
