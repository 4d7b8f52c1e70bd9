package mcpmw_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/keyfuncs"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/mcpmw"
	"github.com/weir-go/weir/nethttp"
	"github.com/weir-go/weir/policy"
)

// visit calls tools of a server behind a limiter, and prints the answers. Of the tools search,
// render and fail, the last one always fails.
func visit(limiter *mcpmw.Limiter, handler func(context.Context) string, tools ...string) {
	server := newServer()
	server.AddReceivingMiddleware(limiter.Middleware())
	for _, name := range []string{"search", "render"} {
		addTool(server, name, func(ctx context.Context, _ *mcp.CallToolRequest) (string, error) {
			return handler(ctx), nil
		})
	}
	addTool(server, "fail", func(context.Context, *mcp.CallToolRequest) (string, error) {
		return "", errors.New("out of order")
	})
	ctx := context.Background()
	one, other := mcp.NewInMemoryTransports()
	if _, err := server.Connect(ctx, one, nil); err != nil {
		fmt.Println(err)
		return
	}
	session, err := mcp.NewClient(implementation, nil).Connect(ctx, other, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer session.Close()
	for _, name := range tools {
		result, err := session.CallTool(ctx, &mcp.CallToolParams{Name: name})
		if err, ok := errors.AsType[*jsonrpc.Error](err); ok {
			fmt.Println(name, err.Message)
			continue
		}
		fmt.Println(name, result.Content[0].(*mcp.TextContent).Text)
	}
}

func served(context.Context) string { return "served" }

// toolCall is a call that a server has received.
func toolCall(name string) *mcpmw.Call {
	return &mcpmw.Call{
		Context: context.Background(), Method: "tools/call",
		Params: &mcp.CallToolParamsRaw{Name: name},
	}
}

// once is a limiter that allows one call of a tool a day for each key.
func once(key func(*mcpmw.Call) (string, error)) *mcpmw.Limiter {
	return mcpmw.MustNew(mcpmw.Config{
		Rules: []mcpmw.Rule{{
			Name: "once", Limit: limits.TokenBucket(limits.PerDay(1), 1),
			Key: core.When(mcpmw.CallsTool(), key),
		}},
		Denied: brief,
	})
}

// brief says no wait, which would differ each time.
func brief(_ *mcpmw.Call, o core.Outcome, err *jsonrpc.Error) (mcp.Result, error) {
	err.Message = o.Verdict().String()
	return nil, err
}

func ExampleNew() {
	_, err := mcpmw.New(mcpmw.Config{
		Rules: []mcpmw.Rule{
			{Name: "per-user", Limit: limits.SlidingWindow(limits.PerMinute(0)), Key: mcpmw.User},
		},
	})
	fmt.Println(err)
	// Output: core: rule "per-user": limit: units of a sliding-window must be 1 to 1000000000 (got 0)
}

func ExampleMustNew() {
	defer func() { fmt.Println(recover()) }()
	mcpmw.MustNew(mcpmw.Config{})
	// Output: core: no rules: a limiter needs at least one
}

// Middleware of a program for tokens, logs or panics goes outside, before the limiter's.
func ExampleLimiter_Middleware() {
	server := mcp.NewServer(&mcp.Implementation{Name: "library", Version: "v1.0.0"}, nil)
	server.AddReceivingMiddleware(recovering, once(mcpmw.Tool).Middleware())

	visit(once(mcpmw.Tool), served, "search", "search", "render")
	// Output:
	// search served
	// search denied
	// render served
}

func ExampleLift() {
	tenant := mcpmw.Lift(keyfuncs.Header("X-Tenant"))
	c := toolCall("search")
	c.Extra = &mcp.RequestExtra{Header: http.Header{"X-Tenant": {"acme"}}}
	fmt.Println(tenant(c))
	// Output: acme <nil>
}

// Each session counts by a digest of its id. Sessions without an id count together.
func ExampleSession() {
	visit(once(mcpmw.Session), served, "search", "render")
	// Output:
	// search served
	// render denied
}

// A user counts in all sessions together, and a client without a token by its address.
func ExampleUser() {
	key := keyfuncs.First(mcpmw.User, keyfuncs.Address(mcpmw.Peer))
	c := toolCall("search")
	c.Extra = &mcp.RequestExtra{TokenInfo: &auth.TokenInfo{UserID: "ann"}}
	fmt.Println(key(c))
	// Output: 0:ann <nil>
}

// Each user may call each tool once.
func ExampleTool() {
	key := keyfuncs.Join(mcpmw.User, mcpmw.Tool)
	c := toolCall("search")
	c.Extra = &mcp.RequestExtra{TokenInfo: &auth.TokenInfo{UserID: "ann"}}
	fmt.Println(key(c))
	// Output: 3:ann6:search <nil>
}

func ExampleMethod() {
	fmt.Println(mcpmw.Method(toolCall("search")))
	// Output: tools/call <nil>
}

// A rule for one tool, and one for all.
func ExampleCallsTool() {
	limiter := mcpmw.MustNew(mcpmw.Config{
		Rules: []mcpmw.Rule{{
			Name: "renders", Limit: limits.TokenBucket(limits.PerDay(1), 1),
			Key: core.When(mcpmw.CallsTool("render"), mcpmw.User),
		}, {
			Name: "tools", Limit: limits.TokenBucket(limits.PerDay(3), 3),
			Key: core.When(mcpmw.CallsTool(), mcpmw.User),
		}},
		Denied: brief,
	})
	visit(limiter, served, "render", "render", "search", "search", "search")
	// Output:
	// render served
	// render denied
	// search served
	// search served
	// search denied
}

// The address of a client is known behind WithRequest.
func ExamplePeer() {
	handler := mcpmw.WithRequest(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		c := toolCall("search") // as the SDK makes it
		c.Extra = &mcp.RequestExtra{Header: r.Header}
		fmt.Println(keyfuncs.Address(mcpmw.Peer)(c))
	}))
	r := httptest.NewRequest("POST", "/mcp", nil)
	r.RemoteAddr = "192.0.2.1:50000"
	handler.ServeHTTP(httptest.NewRecorder(), r)
	// Output: 192.0.2.1 <nil>
}

// A limiter of package nethttp goes outside. It counts what the SDK refuses.
func ExampleWithRequest() {
	getServer := func(*http.Request) *mcp.Server { return newServer() }
	mux := http.NewServeMux()
	mux.Handle("/mcp", mcpmw.WithRequest(mcp.NewStreamableHTTPHandler(getServer, nil)))
	w := httptest.NewRecorder()
	mux.ServeHTTP(w, httptest.NewRequest("GET", "/mcp", nil))
	fmt.Println(w.Code)
	// Output: 400
}

// The cost of a call is the length of its arguments.
func ExampleCall() {
	limiter := mcpmw.MustNew(mcpmw.Config{Rules: []mcpmw.Rule{{
		Name:  "bytes",
		Limit: limits.TokenBucket(limits.PerDay(100), 100),
		Key:   mcpmw.Tool,
		Cost: func(c *mcpmw.Call) int64 {
			if params, ok := c.Params.(*mcp.CallToolParamsRaw); ok {
				return int64(len(params.Arguments))
			}
			return 1
		},
	}}})
	c := toolCall("search")
	c.Params.(*mcp.CallToolParamsRaw).Arguments = json.RawMessage(`{"q":"go"}`)
	outcome := limiter.Decide(c)
	fmt.Println(outcome.At(0).Remaining)
	// Output: 90
}

// The rules of a policy file read calls as POST requests.
func ExampleCall_Request() {
	file, err := policy.Parse("rules.yaml", []byte(`
version: 1
client: {peer: true}
rules:
  - {name: renders, match: POST /tools/call/render, key: header Tenant, limit: sliding-log 1/day}
`), policy.Names[*mcpmw.Call]{Request: (*mcpmw.Call).Request})
	if err != nil {
		fmt.Println(err)
		return
	}
	limiter := mcpmw.MustNew(mcpmw.Config{Rules: file.Rules(), Denied: brief})
	visit(limiter, served, "render", "render", "search")
	// Output:
	// render served
	// render denied
	// search served
}

// Denials in the words of the program, with a code of its own.
func ExampleConfig() {
	limiter := mcpmw.MustNew(mcpmw.Config{
		Rules: []mcpmw.Rule{{
			Name: "once", Limit: limits.TokenBucket(limits.PerDay(1), 1), Key: mcpmw.Tool,
		}},
		Denied: func(_ *mcpmw.Call, _ core.Outcome, err *jsonrpc.Error) (mcp.Result, error) {
			err.Code, err.Message = -32000, "Search again tomorrow." // and the data as it is
			return nil, err
		},
	})
	visit(limiter, served, "search", "search")
	// Output:
	// search served
	// search Search again tomorrow.
}

// The model reads why, and when to try again.
func ExampleToolResult() {
	limiter := mcpmw.MustNew(mcpmw.Config{
		Rules: []mcpmw.Rule{{
			Name: "searches", Limit: limits.TokenBucket(limits.PerHour(1), 1), Key: mcpmw.Tool,
		}},
		Denied: mcpmw.ToolResult,
	})
	visit(limiter, served, "search", "search")
	// Output:
	// search served
	// search Too many requests: retry in 3600 seconds. Limits reached: searches.
}

// SEP-3304 proposes a code of its own for denials. The data is the same.
func ExampleDeniedAs() {
	key := keyfuncs.Constant[*mcpmw.Call]("all")
	limiter := mcpmw.MustNew(mcpmw.Config{
		Rules:  []mcpmw.Rule{{Name: "calls", Limit: limits.TokenBucket(limits.PerHour(1), 1), Key: key}},
		Denied: mcpmw.DeniedAs(mcpmw.CodeProposed),
	})
	handler := limiter.Middleware()(func(context.Context, string, mcp.Request) (mcp.Result, error) {
		return new(mcp.CallToolResult), nil
	})
	for range 2 {
		_, err := handler(context.Background(), "tools/call", &mcp.CallToolRequest{
			Session: new(mcp.ServerSession), Params: &mcp.CallToolParamsRaw{Name: "search"},
		})
		if e, ok := errors.AsType[*jsonrpc.Error](err); ok {
			fmt.Println(e.Code, e.Message)
		}
	}
	// Output: -32023 Too many requests: retry in 3600 seconds.
}

// Only calls that fail count.
func ExampleRule() {
	failures := mcpmw.MustNew(mcpmw.Config{
		Rules: []mcpmw.Rule{{
			Name:      "failures",
			Limit:     limits.SlidingLog(limits.PerDay(1)),
			Key:       core.When(mcpmw.CallsTool(), mcpmw.Session),
			FinalCost: core.OnStatus(func(status int) bool { return status >= 400 }),
		}},
		Denied: brief,
	})
	visit(failures, served, "search", "fail", "search")
	// Output:
	// search served
	// fail out of order
	// search denied
}

func ExampleOutcomeFrom() {
	limiter := mcpmw.MustNew(mcpmw.Config{
		Rules: []mcpmw.Rule{
			{Name: "a", Limit: limits.TokenBucket(limits.PerDay(5), 5), Key: mcpmw.Tool},
		},
		OutcomeInContext: true,
	})
	visit(limiter, func(ctx context.Context) string {
		outcome, ok := mcpmw.OutcomeFrom(ctx)
		return fmt.Sprint(outcome.At(0).Remaining, " left ", ok)
	}, "search")
	// Output: search 4 left true
}

// A handler that says what it has used.
func ExampleSpend() {
	limiter := mcpmw.MustNew(mcpmw.Config{Rules: []mcpmw.Rule{{
		Name:      "tokens",
		Limit:     limits.TokenBucket(limits.PerDay(100), 100),
		Key:       mcpmw.Tool,
		FinalCost: core.SpentCost,
	}}})
	visit(limiter, func(ctx context.Context) string {
		return fmt.Sprint(mcpmw.Spend(ctx, "tokens", 7))
	}, "search")
	o := limiter.Explain(toolCall("search"))
	fmt.Println(o.At(0).Remaining, "left")
	// Output:
	// search true
	// 93 left
}

// A job that goes on after its call has been answered.
func ExampleDetach() {
	jobs := mcpmw.MustNew(mcpmw.Config{
		Rules: []mcpmw.Rule{{Name: "jobs", Limit: limits.Concurrent(1), Key: mcpmw.Tool}}, Denied: brief,
	})
	ends := make(chan func(core.Result), 2)
	start := func(ctx context.Context) string {
		end, _ := mcpmw.Detach(ctx)
		ends <- end
		return "started"
	}
	visit(jobs, start, "render", "render")
	(<-ends)(core.Result{Status: 200})
	visit(jobs, start, "render")
	// Output:
	// render started
	// render denied
	// render started
}

// A misspelt name causes no error: ask which tools have no rule.
func ExampleLimiter_Unlimited() {
	limiter := mcpmw.MustNew(mcpmw.Config{Rules: []mcpmw.Rule{{
		Name: "renders", Limit: limits.Concurrent(2),
		Key: core.When(mcpmw.CallsTool("rendr"), mcpmw.User),
	}}})
	fmt.Println(limiter.Unlimited(&mcp.Tool{Name: "render"}))
	// Output: [render]
}

// A limiter around the handler counts what the SDK refuses. Its denials are answers that clients
// read. Ends of sessions have a budget of their own.
func ExampleHTTPDenied() {
	client := keyfuncs.Address(keyfuncs.Peer)
	limit := limits.SlidingLog(limits.PerDay(1))
	ends := nethttp.Rule{Name: "ends", Limit: limit, Key: core.When(mcpmw.EndsSession, client)}
	flood := nethttp.MustNew(nethttp.Config{
		Rules: []nethttp.Rule{ends, {
			Name: "requests", Limit: limit, Key: core.Otherwise([]nethttp.Rule{ends}, client),
		}},
		Denied: mcpmw.HTTPDenied,
	})
	served := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "served") })
	ask := func(method, body string) {
		r := httptest.NewRequest(method, "/mcp", strings.NewReader(body))
		r.Header.Set("Mcp-Session-Id", "s")
		w := httptest.NewRecorder()
		flood.Handler(served).ServeHTTP(w, r)
		var response struct {
			ID    any
			Error struct {
				Code    int
				Message string
			}
		}
		if json.Unmarshal(w.Body.Bytes(), &response) != nil {
			fmt.Println(w.Code, w.Body)
			return
		}
		fmt.Println(w.Code, response.ID, response.Error)
	}
	ask("POST", `{"jsonrpc": "2.0", "id": 1, "method": "tools/call"}`)
	ask("POST", `{"jsonrpc": "2.0", "id": 2, "method": "tools/call"}`)
	ask("POST", `{"jsonrpc": "2.0", "method": "notifications/initialized"}`)
	ask("DELETE", "")
	// Output:
	// 200 served
	// 200 2 {429 Too many requests: retry in 24 hours.}
	// 429 <nil> {429 Too many requests: retry in 24 hours.}
	// 200 served
}

func ExampleHTTPDeniedAs() {
	flood := nethttp.MustNew(nethttp.Config{
		Rules: []nethttp.Rule{{
			Name: "requests", Limit: limits.FixedWindow(limits.PerDay(1)),
			Key: keyfuncs.Address(keyfuncs.Peer), Cost: func(*http.Request) int64 { return 2 }, // never
		}},
		Denied: mcpmw.HTTPDeniedAs(mcpmw.CodeProposed),
	})
	w := httptest.NewRecorder()
	r := httptest.NewRequest("POST", "/mcp", strings.NewReader(`{"jsonrpc": "2.0", "id": 1, "method": "a"}`))
	flood.Handler(http.NotFoundHandler()).ServeHTTP(w, r)
	var response struct{ Error struct{ Code int } }
	_ = json.Unmarshal(w.Body.Bytes(), &response)
	fmt.Println(w.Code, response.Error.Code)
	// Output: 200 -32023
}

func ExampleEndsSession() {
	r := httptest.NewRequest("DELETE", "/mcp", nil)
	fmt.Println(mcpmw.EndsSession(r))
	r.Header.Set("Mcp-Session-Id", "s")
	fmt.Println(mcpmw.EndsSession(r))
	// Output:
	// false
	// true
}
