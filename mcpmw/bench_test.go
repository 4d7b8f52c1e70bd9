package mcpmw_test

import (
	"context"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/weir-go/weir/headers"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/mcpmw"
)

// BenchmarkMiddleware measures what a limiter adds to a call.
func BenchmarkMiddleware(b *testing.B) {
	request := &mcp.CallToolRequest{
		Session: new(mcp.ServerSession), Params: &mcp.CallToolParamsRaw{Name: "search"},
	}
	result, huge := new(mcp.CallToolResult), limits.TokenBucket(limits.PerSecond(1e9), 1e9)
	next := func(context.Context, string, mcp.Request) (mcp.Result, error) { return result, nil }
	for _, c := range []struct {
		name   string
		method string
		config mcpmw.Config
	}{
		{"ping", "ping", mcpmw.Config{Rules: everybody(limits.Concurrent(1000))}},
		{"another tool", "tools/call", mcpmw.Config{Rules: toolCalls(huge, "render")}},
		{"allowed", "tools/call", mcpmw.Config{Rules: everybody(huge)}},
		{"allowed, without fields", "tools/call", mcpmw.Config{
			Rules: everybody(huge), Headers: headers.Options{Show: headers.Omit},
		}},
		{"held", "tools/call", mcpmw.Config{Rules: everybody(limits.Concurrent(1000))}},
	} {
		b.Run(c.name, func(b *testing.B) {
			handler := newLimiter(b, c.config).Middleware()(next)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := handler(b.Context(), c.method, request); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	l := newLimiter(b, mcpmw.Config{Rules: everybody(limits.FixedWindow(limits.PerDay(1)))})
	denying := l.Middleware()(next)
	_, _ = denying(b.Context(), "tools/call", request)
	b.Run("denied", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := denying(b.Context(), "tools/call", request); err == nil {
				b.Fatal("allowed")
			}
		}
	})
}

// BenchmarkCall measures a call of a client in this process, with a limiter and without one.
func BenchmarkCall(b *testing.B) {
	for _, limited := range []bool{false, true} {
		b.Run(map[bool]string{false: "without", true: "with"}[limited], func(b *testing.B) {
			var limiters []*mcpmw.Limiter
			if limited {
				limiters = append(limiters, newLimiter(b, mcpmw.Config{
					Rules: everybody(limits.TokenBucket(limits.PerSecond(1e9), 1e9)),
				}))
			}
			s := connect(b, echoServer(limiters...))
			for b.Loop() {
				if _, err := callTool(b, s, "search"); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
