package mcpmw_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/headers"
	"github.com/weir-go/weir/keyfuncs"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/mcpmw"
	"github.com/weir-go/weir/policy"
)

func everybody(limit limits.Limit) []mcpmw.Rule {
	return []mcpmw.Rule{{
		Name: "everybody", Limit: limit, Key: keyfuncs.Constant[*mcpmw.Call]("everybody"),
	}}
}

// toolCalls is everybody for "tools/call" of the named tools, or of all.
func toolCalls(limit limits.Limit, tools ...string) []mcpmw.Rule {
	rules := everybody(limit)
	rules[0].Key = core.When(mcpmw.CallsTool(tools...), rules[0].Key)
	return rules
}

// connect connects a client to server in this process.
func connect(t testing.TB, server *mcp.Server) *mcp.ClientSession {
	t.Helper()
	one, other := mcp.NewInMemoryTransports()
	if _, err := server.Connect(t.Context(), one, nil); err != nil {
		t.Fatal(err)
	}
	session, err := mcp.NewClient(implementation, nil).Connect(t.Context(), other, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { session.Close() })
	return session
}

// echoServer has the tools search and render, which answer "done".
func echoServer(limiters ...*mcpmw.Limiter) *mcp.Server {
	server := newServer()
	for _, l := range limiters {
		server.AddReceivingMiddleware(l.Middleware())
	}
	for _, name := range []string{"search", "render"} {
		addTool(server, name, func(context.Context, *mcp.CallToolRequest) (string, error) {
			return "done", nil
		})
	}
	return server
}

func callTool(t testing.TB, s *mcp.ClientSession, name string) (*mcp.CallToolResult, error) {
	t.Helper()
	return s.CallTool(t.Context(), &mcp.CallToolParams{Name: name})
}

func wantDenied(t testing.TB, err error) *jsonrpc.Error {
	t.Helper()
	e, ok := errors.AsType[*jsonrpc.Error](err)
	if !ok || e.Code != mcpmw.CodeDenied {
		t.Fatalf("%v, want a denial", err)
	}
	return e
}

func wantAllowed(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("%v, want an allowed call", err)
	}
}

func TestADenialTellsTheWaitAndTheRules(t *testing.T) {
	l := newLimiter(t, mcpmw.Config{Rules: toolCalls(limits.FixedWindow(limits.PerDay(1)))})
	s := connect(t, echoServer(l))
	result, err := callTool(t, s, "search")
	wantAllowed(t, err)
	if result.Meta["ratelimit"] == nil || result.Meta["ratelimit-policy"] != `"everybody";q=1;w=86400` {
		t.Errorf("_meta %v", result.Meta)
	}
	_, err = callTool(t, s, "search")
	e := wantDenied(t, err)
	var data struct {
		RetryAfter       int64
		ViolatedPolicies []string
	}
	if err := json.Unmarshal(e.Data, &data); err != nil {
		t.Fatal(err)
	}
	if data.RetryAfter < 1 || data.RetryAfter > 86400 ||
		!slices.Equal(data.ViolatedPolicies, []string{"everybody"}) ||
		!strings.HasPrefix(e.Message, "Too many requests: retry in ") {
		t.Errorf("%s, %s", e.Message, e.Data)
	}
}

func TestAWaitIsRoundedUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, mcpmw.Config{Rules: toolCalls(limits.TokenBucket(limits.PerMinute(1), 1))})
		s := connect(t, echoServer(l))
		_, err := callTool(t, s, "search")
		wantAllowed(t, err)
		for _, c := range []struct {
			after time.Duration
			want  string
		}{{200 * time.Millisecond, "60"}, {time.Second, "59"}, {58 * time.Second, "1"}} {
			time.Sleep(c.after)
			_, err := callTool(t, s, "search")
			if e := wantDenied(t, err); !strings.Contains(string(e.Data), `"retryAfter":`+c.want+`,`) {
				t.Errorf("%s, want %s seconds", e.Data, c.want)
			}
		}
		time.Sleep(800 * time.Millisecond)
		_, err = callTool(t, s, "search")
		wantAllowed(t, err)
	})
}

func TestRulesApplyToNamedTools(t *testing.T) {
	l := newLimiter(t, mcpmw.Config{Rules: toolCalls(limits.FixedWindow(limits.PerDay(1)), "render")})
	s := connect(t, echoServer(l))
	for range 3 {
		_, err := callTool(t, s, "search")
		wantAllowed(t, err)
		_, err = s.ListTools(t.Context(), nil)
		wantAllowed(t, err)
	}
	_, err := callTool(t, s, "render")
	wantAllowed(t, err)
	_, err = callTool(t, s, "render")
	wantDenied(t, err)
	_, err = callTool(t, s, "search")
	wantAllowed(t, err)
}

func TestInitializeCountsAndPingsAndNotificationsDoNot(t *testing.T) {
	methods := make(map[string]int)
	l := newLimiter(t, mcpmw.Config{Rules: []mcpmw.Rule{{
		Name: "all", Limit: limits.FixedWindow(limits.PerDay(3)),
		Key: func(c *mcpmw.Call) (string, error) {
			methods[c.Method]++
			return "", nil
		},
	}}, CountProbes: true})
	server := echoServer(l)
	s := connect(t, server) // initialize, notifications/initialized
	for range 5 {
		wantAllowed(t, s.Ping(t.Context(), nil))
		wantAllowed(t, s.NotifyProgress(t.Context(), &mcp.ProgressNotificationParams{ProgressToken: "x"}))
	}
	_, err := s.ListTools(t.Context(), nil)
	wantAllowed(t, err)
	_, err = callTool(t, s, "search")
	wantAllowed(t, err)
	_, err = callTool(t, s, "search")
	wantDenied(t, err)
	wantAllowed(t, s.Ping(t.Context(), nil))
	one, other := mcp.NewInMemoryTransports()
	if _, err := server.Connect(t.Context(), one, nil); err != nil {
		t.Fatal(err)
	}
	_, err = mcp.NewClient(implementation, nil).Connect(t.Context(), other, nil)
	wantDenied(t, err)
	// Newer releases of the SDK try "server/discover" first.
	opened := methods["initialize"] + methods["server/discover"]
	delete(methods, "initialize")
	delete(methods, "server/discover")
	want := map[string]int{"tools/list": 1, "tools/call": 2}
	if diff := cmp.Diff(want, methods); diff != "" || opened < 2 {
		t.Errorf("opened by %d calls, -want +got:\n%s", opened, diff)
	}
}

func TestTheMiddlewareDoesNothingInAClient(t *testing.T) {
	l := newLimiter(t, mcpmw.Config{Rules: everybody(limits.FixedWindow(limits.PerDay(1)))})
	asked := 0
	handler := l.Middleware()(func(context.Context, string, mcp.Request) (mcp.Result, error) {
		asked++
		//lint:ignore SA1019 deprecated, and in use
		return new(mcp.ListRootsResult), nil
	})
	for range 3 {
		result, err := handler(t.Context(), "roots/list", new(mcp.ListRootsRequest))
		if wantAllowed(t, err); len(result.GetMeta()) != 0 {
			t.Errorf("_meta %v", result.GetMeta())
		}
	}
	if asked != 3 {
		t.Errorf("asked %d times", asked)
	}
}

func TestADenialMayBeAToolResult(t *testing.T) {
	l := newLimiter(t, mcpmw.Config{
		Rules: everybody(limits.FixedWindow(limits.PerDay(3))), Denied: mcpmw.ToolResult,
		CountProbes: true, // the first request of releases from 1.8 on
	})
	s := connect(t, echoServer(l))
	for range 2 {
		_, err := callTool(t, s, "search")
		wantAllowed(t, err)
	}
	result, err := callTool(t, s, "search")
	wantAllowed(t, err)
	text := result.Content[0].(*mcp.TextContent).Text
	if !result.IsError || !strings.HasPrefix(text, "Too many requests: retry in ") ||
		!strings.HasSuffix(text, ". Limits reached: everybody.") || result.StructuredContent != nil {
		t.Errorf("%+v, %q", result, text)
	}
	if seconds, ok := result.Meta["retryAfter"].(float64); !ok || seconds < 1 {
		t.Errorf("_meta %v", result.Meta)
	}
	_, err = s.ListTools(t.Context(), nil) // which has no such result
	wantDenied(t, err)
}

// A program may tell clients another code.
func TestADenialMayHaveAnotherCode(t *testing.T) {
	l := newLimiter(t, mcpmw.Config{
		Rules: toolCalls(limits.FixedWindow(limits.PerDay(1))),
		Denied: func(_ *mcpmw.Call, _ core.Outcome, err *jsonrpc.Error) (mcp.Result, error) {
			err.Code = -32000
			return nil, nil
		},
	})
	s := connect(t, echoServer(l))
	_, err := callTool(t, s, "search")
	wantAllowed(t, err)
	_, err = callTool(t, s, "search")
	if e, ok := errors.AsType[*jsonrpc.Error](err); !ok || e.Code != -32000 || len(e.Data) == 0 {
		t.Errorf("%v", err)
	}
}

func TestAFullServiceIsUnavailable(t *testing.T) {
	rules := toolCalls(limits.FixedWindow(limits.PerDay(1)))
	rules[0].DenyAs503 = true
	s := connect(t, echoServer(newLimiter(t, mcpmw.Config{Rules: rules})))
	_, err := callTool(t, s, "search")
	wantAllowed(t, err)
	_, err = callTool(t, s, "search")
	if e, ok := errors.AsType[*jsonrpc.Error](err); !ok || e.Code != mcpmw.CodeUnavailable ||
		strings.Contains(string(e.Data), "violated") || !strings.Contains(e.Message, "at capacity") {
		t.Errorf("%v", err)
	}
}

// The quotas of the client are not the reason, so the fields of the limiter outside are deleted.
func TestAFullServiceTellsNothingOfOtherLimits(t *testing.T) {
	full := toolCalls(limits.FixedWindow(limits.PerDay(1)))
	full[0].DenyAs503 = true
	s := connect(t, echoServer(newLimiter(t, mcpmw.Config{Rules: full}),
		newLimiter(t, mcpmw.Config{Rules: toolCalls(limits.FixedWindow(limits.PerDay(9)))})))
	_, err := callTool(t, s, "search")
	wantAllowed(t, err)
	_, err = callTool(t, s, "search")
	if e, ok := errors.AsType[*jsonrpc.Error](err); !ok || e.Code != mcpmw.CodeUnavailable ||
		strings.Contains(string(e.Data), "ratelimit") {
		t.Errorf("%v: %s", err, e.Data)
	}
}

// Handlers often return one result to all callers.
func TestAResultOfTheProgramStaysAsItIs(t *testing.T) {
	shared := &mcp.CallToolResult{
		Meta: mcp.Meta{"own": "kept"}, Content: []mcp.Content{&mcp.TextContent{Text: "x"}},
	}
	l := newLimiter(t, mcpmw.Config{Rules: everybody(limits.FixedWindow(limits.PerDay(9)))})
	server := newServer()
	server.AddReceivingMiddleware(l.Middleware())
	server.AddTool(&mcp.Tool{Name: "search", InputSchema: json.RawMessage(`{"type":"object"}`)},
		func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) { return shared, nil })
	s := connect(t, server)
	for range 2 {
		result, err := callTool(t, s, "search")
		wantAllowed(t, err)
		if result.Meta["own"] != "kept" || result.Meta["ratelimit"] == nil {
			t.Errorf("_meta %v", result.Meta)
		}
	}
	if len(shared.Meta) != 1 {
		t.Errorf("a result of the program has been changed: %v", shared.Meta)
	}
}

func TestResultsOfAllMethodsHaveFields(t *testing.T) {
	l := newLimiter(t, mcpmw.Config{
		Rules: everybody(limits.FixedWindow(limits.PerDay(99))), CountProbes: true,
	})
	server := mcp.NewServer(implementation, &mcp.ServerOptions{
		CompletionHandler: func(context.Context, *mcp.CompleteRequest) (*mcp.CompleteResult, error) {
			details := mcp.CompletionResultDetails{Values: []string{"a"}}
			return &mcp.CompleteResult{Completion: details}, nil
		},
		SubscribeHandler:   func(context.Context, *mcp.SubscribeRequest) error { return nil },
		UnsubscribeHandler: func(context.Context, *mcp.UnsubscribeRequest) error { return nil },
	})
	var calls atomic.Int64
	opened := false
	server.AddReceivingMiddleware(func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(ctx context.Context, method string, r mcp.Request) (mcp.Result, error) {
			if !strings.HasPrefix(method, "notifications/") {
				calls.Add(1)
			}
			result, err := next(ctx, method, r) // a subscription lasts
			if method == "initialize" || method == "server/discover" {
				opened = result.GetMeta()["ratelimit"] != nil
			}
			return result, err
		}
	}, l.Middleware())
	server.AddPrompt(&mcp.Prompt{Name: "p"},
		func(context.Context, *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
			return new(mcp.GetPromptResult), nil
		})
	server.AddResource(&mcp.Resource{URI: "file:///r", Name: "r"},
		func(context.Context, *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
			return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{URI: "file:///r", Text: "x"}}}, nil
		})
	addTool(server, "search", func(context.Context, *mcp.CallToolRequest) (string, error) { return "", nil })
	s := connect(t, server)
	ctx := t.Context()
	check := func(method string, result mcp.Result, err error) {
		t.Helper()
		if err != nil {
			t.Errorf("%s: %v", method, err)
		} else if result.GetMeta()["ratelimit"] == nil {
			t.Errorf("%s: _meta %v", method, result.GetMeta())
		}
	}
	prompt, err := s.GetPrompt(ctx, &mcp.GetPromptParams{Name: "p"})
	check("prompts/get", prompt, err)
	prompts, err := s.ListPrompts(ctx, nil)
	check("prompts/list", prompts, err)
	resource, err := s.ReadResource(ctx, &mcp.ReadResourceParams{URI: "file:///r"})
	check("resources/read", resource, err)
	resources, err := s.ListResources(ctx, nil)
	check("resources/list", resources, err)
	templates, err := s.ListResourceTemplates(ctx, nil)
	check("resources/templates/list", templates, err)
	tools, err := s.ListTools(ctx, nil)
	check("tools/list", tools, err)
	complete, err := s.Complete(ctx, &mcp.CompleteParams{
		Argument: mcp.CompleteParamsArgument{Name: "a", Value: "b"},
		Ref:      &mcp.CompleteReference{Type: "ref/prompt", Name: "p"},
	})
	check("completion/complete", complete, err)
	// The results of these methods may be empty.
	//lint:ignore SA1019 deprecated, and in use
	wantAllowed(t, s.SetLoggingLevel(ctx, &mcp.SetLoggingLevelParams{Level: "info"}))
	wantAllowed(t, s.Subscribe(ctx, &mcp.SubscribeParams{URI: "file:///r"}))
	wantAllowed(t, s.Unsubscribe(ctx, &mcp.UnsubscribeParams{URI: "file:///r"}))
	waitFor(t, "each call is counted", func() bool {
		d, err := l.ExplainKey(ctx, "everybody", "everybody", limits.Limit{})
		return err == nil && d.Remaining == 99-calls.Load()
	})
	if calls.Load() < 8 || !opened {
		t.Errorf("%d calls, the first with fields: %t", calls.Load(), opened)
	}
}

// A handler may call another server of its process with its own context.
func TestAServerInsideAHandlerHasItsOwnFields(t *testing.T) {
	inner := echoServer(newLimiter(t, mcpmw.Config{Rules: toolCalls(limits.FixedWindow(limits.PerDay(5)))}))
	server := newServer()
	outer := toolCalls(limits.FixedWindow(limits.PerDay(9)))
	outer[0].Name = "outer"
	server.AddReceivingMiddleware(newLimiter(t, mcpmw.Config{Rules: outer}).Middleware())
	addTool(server, "ask", func(ctx context.Context, _ *mcp.CallToolRequest) (string, error) {
		one, other := mcp.NewInMemoryTransports()
		if _, err := inner.Connect(ctx, one, nil); err != nil {
			return "", err
		}
		s, err := mcp.NewClient(implementation, nil).Connect(ctx, other, nil)
		if err != nil {
			return "", err
		}
		defer s.Close()
		result, err := s.CallTool(ctx, &mcp.CallToolParams{Name: "search"})
		if err != nil {
			return "", err
		}
		return result.Meta["ratelimit-policy"].(string), nil
	})
	result, err := callTool(t, connect(t, server), "ask")
	wantAllowed(t, err)
	if text := result.Content[0].(*mcp.TextContent).Text; text != `"everybody";q=5;w=86400` ||
		result.Meta["ratelimit-policy"] != `"outer";q=9;w=86400` {
		t.Errorf("%s, _meta %v", text, result.Meta)
	}
}

func TestNoFieldsAreAddedIfHeadersOmitThem(t *testing.T) {
	l := newLimiter(t, mcpmw.Config{
		Rules:   toolCalls(limits.FixedWindow(limits.PerDay(1))),
		Headers: headers.Options{Show: headers.Omit},
	})
	s := connect(t, echoServer(l))
	result, err := callTool(t, s, "search")
	wantAllowed(t, err)
	if result.Meta["ratelimit"] != nil || result.Meta["ratelimit-policy"] != nil {
		t.Errorf("_meta %v", result.Meta)
	}
	_, err = callTool(t, s, "search")
	if e := wantDenied(t, err); !strings.HasPrefix(string(e.Data), `{"retryAfter":`) ||
		strings.Contains(string(e.Data), ",") {
		t.Errorf("%s", e.Data)
	}
}

func TestTheStatusOfAnAnswer(t *testing.T) {
	statuses := make(chan int, 1)
	rules := toolCalls(limits.FixedWindow(limits.PerDay(99)))
	rules[0].FinalCost = func(r core.Result) int64 {
		statuses <- r.Status
		return 1
	}
	server := newServer()
	server.AddReceivingMiddleware(recovering, newLimiter(t, mcpmw.Config{Rules: rules}).Middleware())
	var result *mcp.CallToolResult
	var failed error
	tool := &mcp.Tool{Name: "search", InputSchema: json.RawMessage(`{"type":"object"}`)}
	server.AddTool(tool, func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return result, failed
	})
	s := connect(t, server)
	for _, c := range []struct {
		result *mcp.CallToolResult
		err    error
		want   int
	}{
		{new(mcp.CallToolResult), nil, 200},
		{&mcp.CallToolResult{IsError: true}, nil, 500},
		{nil, errors.New("broken"), 500},
		{nil, &jsonrpc.Error{Code: -32000}, 500},
		{nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams}, 400},
		{nil, fmt.Errorf("wrapped: %w", &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams}), 400},
		{nil, &jsonrpc.Error{Code: -32002}, 404},
		{nil, &jsonrpc.Error{Code: mcpmw.CodeDenied}, 429},
		{nil, &jsonrpc.Error{Code: mcpmw.CodeUnavailable}, 503},
		{nil, context.Canceled, 499},
		{nil, context.DeadlineExceeded, 504},
	} {
		result, failed = c.result, c.err
		callTool(t, s, "search")
		if got := <-statuses; got != c.want {
			t.Errorf("%+v, %v: status %d, want %d", c.result, c.err, got, c.want)
		}
	}
}

func TestKeys(t *testing.T) {
	call := func(method string, params mcp.Params, extra *mcp.RequestExtra) *mcpmw.Call {
		return &mcpmw.Call{Context: t.Context(), Method: method, Params: params, Extra: extra}
	}
	user := func(id string) *mcpmw.Call {
		return call("tools/list", nil, &mcp.RequestExtra{TokenInfo: &auth.TokenInfo{UserID: id}})
	}
	tool := func(name string) *mcpmw.Call {
		return call("tools/call", &mcp.CallToolParamsRaw{Name: name}, nil)
	}
	web := call("tools/list", nil, &mcp.RequestExtra{Header: http.Header{"X-Tenant": {"acme"}}})
	for _, c := range []struct {
		name string
		key  func(*mcpmw.Call) (string, error)
		call *mcpmw.Call
		want string
		err  error
	}{
		{"a user", mcpmw.User, user("ann"), "ann", nil},
		{"a verifier that sets no user", mcpmw.User, user(""), "", keyfuncs.ErrUnidentified},
		{"no token", mcpmw.User, web, "", core.ErrAbsent},
		{"no HTTP", mcpmw.User, tool("x"), "", core.ErrAbsent},
		{"a tool", mcpmw.Tool, tool("search"), "search", nil},
		{"a method without a tool", mcpmw.Tool, web, "", core.ErrDoesNotApply},
		{"a tool without parameters", mcpmw.Tool, call("tools/call", (*mcp.CallToolParamsRaw)(nil), nil), "",
			core.ErrDoesNotApply},
		{"no session", mcpmw.Session, web, "", core.ErrAbsent},
		{"a method", mcpmw.Method, web, "tools/list", nil},
		{"a header", mcpmw.Lift(keyfuncs.Header("X-Tenant")), web, "acme", nil},
		{"no header over stdio", mcpmw.Lift(keyfuncs.Header("X-Tenant")), tool("x"), "", core.ErrAbsent},
		{"a peer that is hidden", keyfuncs.Address(mcpmw.Peer), web, "", keyfuncs.ErrUnidentified},
		{"no peer over stdio", keyfuncs.Address(mcpmw.Peer), tool("x"), "", keyfuncs.ErrUnidentified},
		{"a certificate that is hidden", mcpmw.Lift(keyfuncs.SPIFFEID), web, "", keyfuncs.ErrUnidentified},
		{"the path of a tool", mcpmw.Lift(keyfuncs.Path), tool("search"), "/tools/call/search", nil},
		{"the path of a method", mcpmw.Lift(keyfuncs.Path), web, "/tools/list", nil},
	} {
		got, err := c.key(c.call)
		if got != c.want || !errors.Is(err, c.err) || (err == nil) != (c.err == nil) {
			t.Errorf("%s: %q, %v, want %q, %v", c.name, got, err, c.want, c.err)
		}
	}
	if mcpmw.Lift[string](nil) != nil {
		t.Error("a nil function is lifted")
	}
}

func TestALongTextIsAShortKey(t *testing.T) {
	keys := make(map[string]bool)
	for _, name := range []string{
		strings.Repeat("x", 64), strings.Repeat("x", 65), strings.Repeat("x", 1<<20), "x",
	} {
		c := &mcpmw.Call{
			Context: t.Context(), Method: "tools/call", Params: &mcp.CallToolParamsRaw{Name: name},
			Extra: &mcp.RequestExtra{TokenInfo: &auth.TokenInfo{UserID: name}},
		}
		user, err := mcpmw.User(c)
		wantAllowed(t, err)
		tool, err := mcpmw.Tool(c)
		wantAllowed(t, err)
		if user != tool || len(user) > 71 || keys[user] {
			t.Errorf("%q and %q", user, tool)
		}
		keys[user] = true
	}
}

func TestACertificateReachesTheRules(t *testing.T) {
	leaf := &x509.Certificate{
		URIs: []*url.URL{{Scheme: "spiffe", Host: "example.org", Path: "/billing"}},
	}
	for _, c := range []struct {
		name  string
		state *tls.ConnectionState
		key   string
		err   error
	}{
		{"a certificate", &tls.ConnectionState{
			PeerCertificates: []*x509.Certificate{leaf}, VerifiedChains: [][]*x509.Certificate{{leaf}},
		}, "spiffe://example.org/billing", nil},
		{"none", new(tls.ConnectionState), "", core.ErrAbsent},
		{"no TLS", nil, "", core.ErrAbsent},
	} {
		asked := false
		handler := mcpmw.WithRequest(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			asked = true
			call := &mcpmw.Call{Context: t.Context(), Extra: &mcp.RequestExtra{Header: r.Header}}
			if key, err := mcpmw.Lift(keyfuncs.SPIFFEID)(call); key != c.key || !errors.Is(err, c.err) {
				t.Errorf("%s: %q, %v, want %q, %v", c.name, key, err, c.key, c.err)
			}
		}))
		r := httptest.NewRequest("POST", "/mcp", nil)
		r.TLS = c.state
		handler.ServeHTTP(httptest.NewRecorder(), r)
		if !asked {
			t.Errorf("%s: not asked", c.name)
		}
	}
}

// A tool has one name, and a rule of a policy file finds every call of it.
func TestNoSpellingOfAToolPassesALimit(t *testing.T) {
	file, err := policy.Parse("rules.yaml", []byte(`
version: 1
client: {peer: true}
rules:
  - {name: searches, match: POST /tools/call/search, key: header Tenant, limit: sliding-log 1/day}
`), policy.Names[*mcpmw.Call]{Request: (*mcpmw.Call).Request})
	if err != nil {
		t.Fatal(err)
	}
	s := connect(t, echoServer(newLimiter(t, mcpmw.Config{Rules: file.Rules()})))
	_, err = callTool(t, s, "search")
	wantAllowed(t, err)
	for _, name := range []string{
		"search", "Search", "search/", "/search", "./search", "x/../search", "search?", "search#",
		"%73earch", "search\x00", " search", "search ", "s\u0435arch", "",
	} {
		if _, err := callTool(t, s, name); err == nil {
			t.Errorf("%q is allowed", name)
		}
	}
}

func TestAMissingWrapperIsNamed(t *testing.T) {
	_, err := mcpmw.Peer(&mcpmw.Call{Context: t.Context(), Extra: new(mcp.RequestExtra)})
	if err == nil || !strings.Contains(err.Error(), "mcpmw.WithRequest") {
		t.Errorf("%v", err)
	}
}

// serveHTTP starts a server over HTTP with WithRequest.
func serveHTTP(t testing.TB, server *mcp.Server, options *mcp.StreamableHTTPOptions) *httptest.Server {
	t.Helper()
	handler := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, options)
	web := httptest.NewServer(mcpmw.WithRequest(handler))
	t.Cleanup(func() {
		web.CloseClientConnections()
		web.Close()
	})
	return web
}

// connectHTTP connects a client whose requests have the header fields.
func connectHTTP(t testing.TB, url string, fields ...string) *mcp.ClientSession {
	t.Helper()
	h := make(http.Header)
	for i := 0; i < len(fields); i += 2 {
		h.Add(fields[i], fields[i+1])
	}
	transport := &http.Transport{}
	s, err := mcp.NewClient(implementation, nil).Connect(t.Context(), &mcp.StreamableClientTransport{
		Endpoint: url, HTTPClient: &http.Client{Transport: always{transport, h}}, MaxRetries: -1,
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close(); transport.CloseIdleConnections() })
	return s
}

// always adds header fields to all requests.
type always struct {
	next   http.RoundTripper
	fields http.Header
}

func (a always) RoundTrip(r *http.Request) (*http.Response, error) {
	ctx := context.WithValue(r.Context(), headersKey{}, a.fields)
	return withHeaders{a.next}.RoundTrip(r.WithContext(ctx))
}

func TestSessionsOverHTTPCountApart(t *testing.T) {
	l := newLimiter(t, mcpmw.Config{Rules: []mcpmw.Rule{{
		Name: "per-session", Limit: limits.FixedWindow(limits.PerDay(1)),
		Key: core.When(mcpmw.CallsTool(), mcpmw.Session),
	}}})
	web := serveHTTP(t, echoServer(l), nil)
	for range 2 {
		s := connectHTTP(t, web.URL)
		_, err := callTool(t, s, "search")
		wantAllowed(t, err)
		_, err = callTool(t, s, "search")
		wantDenied(t, err)
	}
}

func TestThePeerAndTheHostOfACallReachTheRules(t *testing.T) {
	seen := make(chan string, 9)
	l := newLimiter(t, mcpmw.Config{Rules: []mcpmw.Rule{{
		Name: "per-client", Limit: limits.FixedWindow(limits.PerDay(9)),
		Key: core.When(mcpmw.CallsTool(), func(c *mcpmw.Call) (string, error) {
			key, err := keyfuncs.Join(keyfuncs.Address(mcpmw.Peer), mcpmw.Lift(keyfuncs.Host))(c)
			seen <- key
			return key, err
		}),
	}}})
	web := serveHTTP(t, echoServer(l), nil)
	_, err := callTool(t, connectHTTP(t, web.URL), "search")
	wantAllowed(t, err)
	if got, want := <-seen, "9:127.0.0.1,9:127.0.0.1"; !strings.Contains(got, "127.0.0.1") ||
		strings.Count(got, "127.0.0.1") != 2 {
		t.Errorf("%q, want both parts of %q", got, want)
	}
}

// The header fields of a client cannot stand for a request of another.
func TestAForgedPeerIsNotBelieved(t *testing.T) {
	l := newLimiter(t, mcpmw.Config{Rules: []mcpmw.Rule{{
		Name: "per-client", Limit: limits.FixedWindow(limits.PerDay(1)),
		Key: core.When(mcpmw.CallsTool(), keyfuncs.Address(mcpmw.Peer)),
	}}})
	web := serveHTTP(t, echoServer(l), nil)
	for i, fields := range [][]string{
		nil, {"X-Forwarded-For", "192.0.2.1"}, {"Forwarded", "for=192.0.2.2"}, {"Remote-Addr", "192.0.2.3:1"},
	} {
		_, err := callTool(t, connectHTTP(t, web.URL, fields...), "search")
		if i == 0 {
			wantAllowed(t, err)
		} else {
			wantDenied(t, err)
		}
	}
}

// A client may leave before its call begins.
func TestARequestIsKeptAsLongAsItsHeader(t *testing.T) {
	state, gone := &tls.ConnectionState{}, make(chan bool)
	runtime.AddCleanup(state, func(gone chan bool) { close(gone) }, gone)
	var c *mcpmw.Call
	handler := mcpmw.WithRequest(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		c = &mcpmw.Call{Context: t.Context(), Extra: &mcp.RequestExtra{Header: r.Header}}
		panic(http.ErrAbortHandler)
	}))
	func() {
		defer func() { recover() }() // as net/http does
		r := httptest.NewRequest("POST", "/mcp", nil)
		r.TLS = state
		handler.ServeHTTP(httptest.NewRecorder(), r)
	}()
	runtime.GC()
	if addr, err := mcpmw.Peer(c); addr.String() != "192.0.2.1" || c.Request().TLS != state {
		t.Errorf("%v, %v, TLS state %p, want %p", addr, err, c.Request().TLS, state)
	}
	c, state = nil, nil
	waitFor(t, "nothing is kept", func() bool {
		runtime.GC()
		select {
		case <-gone:
			return true
		default:
			return false
		}
	})
}

// verified wraps handler with tokens whose user is the token.
func verified(handler http.Handler) http.Handler {
	return auth.RequireBearerToken(
		func(_ context.Context, token string, _ *http.Request) (*auth.TokenInfo, error) {
			return &auth.TokenInfo{UserID: token, Expiration: time.Now().Add(time.Hour)}, nil
		}, nil)(handler)
}

func TestUsersCountAcrossSessions(t *testing.T) {
	l := newLimiter(t, mcpmw.Config{Rules: []mcpmw.Rule{{
		Name: "per-user", Limit: limits.FixedWindow(limits.PerDay(2)),
		Key: core.When(mcpmw.CallsTool(), mcpmw.User),
	}}})
	server := echoServer(l)
	handler := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, nil)
	web := httptest.NewServer(verified(handler))
	t.Cleanup(func() { web.CloseClientConnections(); web.Close() })
	for range 2 {
		_, err := callTool(t, connectHTTP(t, web.URL, "Authorization", "Bearer ann"), "search")
		wantAllowed(t, err)
	}
	_, err := callTool(t, connectHTTP(t, web.URL, "Authorization", "Bearer ann"), "search")
	wantDenied(t, err)
	_, err = callTool(t, connectHTTP(t, web.URL, "Authorization", "Bearer bob"), "search")
	wantAllowed(t, err)
}

// The transport of 2024 has the token of the request that has opened the session.
func TestUsersCountOverTheOlderTransport(t *testing.T) {
	l := newLimiter(t, mcpmw.Config{Rules: []mcpmw.Rule{{
		Name: "per-user", Limit: limits.FixedWindow(limits.PerDay(1)),
		Key: core.When(mcpmw.CallsTool(), mcpmw.User),
	}}})
	server := echoServer(l)
	handler := mcp.NewSSEHandler(func(*http.Request) *mcp.Server { return server }, nil)
	web := httptest.NewServer(verified(handler))
	t.Cleanup(func() { web.CloseClientConnections(); web.Close() })
	for i, user := range []string{"ann", "ann", "bob"} {
		transport := &http.Transport{}
		fields := http.Header{"Authorization": {"Bearer " + user}}
		s, err := mcp.NewClient(implementation, nil).Connect(t.Context(), &mcp.SSEClientTransport{
			Endpoint: web.URL, HTTPClient: &http.Client{Transport: always{transport, fields}},
		}, nil)
		wantAllowed(t, err)
		if _, err := callTool(t, s, "search"); i == 1 {
			wantDenied(t, err)
		} else {
			wantAllowed(t, err)
		}
		s.Close()
		transport.CloseIdleConnections()
	}
}

// A stateless server has no initialize, and a session for each request.
func TestAStatelessServerIsLimited(t *testing.T) {
	l := newLimiter(t, mcpmw.Config{Rules: toolCalls(limits.FixedWindow(limits.PerDay(1)))})
	web := serveHTTP(t, echoServer(l), &mcp.StreamableHTTPOptions{Stateless: true})
	_, err := callTool(t, connectHTTP(t, web.URL), "search")
	wantAllowed(t, err)
	_, err = callTool(t, connectHTTP(t, web.URL), "search")
	wantDenied(t, err)
}

func TestAConstructorReportsMistakes(t *testing.T) {
	for name, run := range map[string]func(){
		"Limiter.Middleware": func() { new(mcpmw.Limiter).Middleware() },
		"WithRequest":        func() { mcpmw.WithRequest(nil) },
		"rule":               func() { mcpmw.MustNew(mcpmw.Config{Rules: []mcpmw.Rule{{}}}) },
	} {
		func() {
			defer func() {
				text := ""
				switch r := recover().(type) {
				case string:
					text = r
				case error:
					text = r.Error()
				}
				if !strings.Contains(text, name) {
					t.Errorf("%s: %q", name, text)
				}
			}()
			run()
		}()
	}
}

func TestDecideTakesAndExplainDoesNot(t *testing.T) {
	l := newLimiter(t, mcpmw.Config{Rules: everybody(limits.FixedWindow(limits.PerDay(1)))})
	c := &mcpmw.Call{Context: t.Context(), Method: "tools/list"}
	if o := l.Explain(c); !o.Allowed() {
		t.Errorf("%v", o.Verdict())
	}
	if o := l.Decide(c); !o.Allowed() {
		t.Errorf("%v", o.Verdict())
	}
	if o := l.Decide(c); o.Allowed() {
		t.Errorf("%v", o.Verdict())
	}
}
