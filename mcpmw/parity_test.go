package mcpmw_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/internal/proof/parity"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/mcpmw"
)

// Codes of the application of the parity tests, and those of the table that stand for them.
const (
	codeAborted = -32010
	codeNone    = 0 // of an error without a code
)

var tableCodes = map[int64]uint32{
	mcpmw.CodeDenied:          parity.CodeResourceExhausted,
	mcpmw.CodeUnavailable:     parity.CodeUnavailable,
	codeAborted:               parity.CodeAborted,
	jsonrpc.CodeInternalError: parity.CodeInternal,
	jsonrpc.CodeInvalidParams: parity.CodeUnauthenticated, // JSON-RPC has no code of its own
	codeNone:                  2,
}

// A call of the table is "tools/call". Down sends progress, and Up asks for each message by
// elicitation.
func TestParity(t *testing.T) {
	for _, v := range []struct {
		name    string
		options mcp.StreamableHTTPOptions
	}{
		{"streams of events", mcp.StreamableHTTPOptions{}},
		{"answers as JSON", mcp.StreamableHTTPOptions{JSONResponse: true}},
	} {
		t.Run(v.name, func(t *testing.T) {
			parity.RunCalls(t, parity.Caller[*mcpmw.Call]{
				Open: func(t *testing.T, app parity.CallApp[*mcpmw.Call]) parity.CallClient {
					return open(t, app, &v.options)
				},
				Lift:      mcpmw.Lift[string],
				LiftLimit: mcpmw.Lift[limits.Limit],
				Method:    mcpmw.Tool,
				Service: func(c *mcpmw.Call) (string, error) {
					name, err := mcpmw.Tool(c)
					return name[:max(0, strings.LastIndexByte(name, '.'))], err
				},
				Message: func(c *mcpmw.Call) string {
					return textOf(c.Params.(*mcp.CallToolParamsRaw).Arguments)
				},
				Error: func(uint32) error {
					return &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "failed"}
				},
				OutcomeFrom: mcpmw.OutcomeFrom,
				Spend:       mcpmw.Spend,
				Detach:      mcpmw.Detach,

				Status:       func(uint32) int { return http.StatusBadRequest },
				WholeSeconds: true,
				NoShed:       true,
			})
		})
	}
}

func open(
	t *testing.T, app parity.CallApp[*mcpmw.Call], options *mcp.StreamableHTTPOptions,
) parity.CallClient {
	t.Helper()
	server := newServer()
	middleware := []mcp.Middleware{recovering}
	for _, c := range []*parity.Config[*mcpmw.Call]{app.Site, app.Group} {
		if c == nil {
			continue
		}
		rules := append([]mcpmw.Rule(nil), c.Rules...)
		for i := range rules { // the table has no other calls
			rules[i].Key = core.When(mcpmw.CallsTool(), rules[i].Key)
		}
		config := mcpmw.Config{
			Rules: rules, Backend: c.Backend, Fallback: c.Fallback, Instances: c.Instances,
			Observer: c.Observer, Headers: c.Headers, MaxWaiting: c.MaxWaiting,
			OutcomeInContext: c.OutcomeInContext,
		}
		if c.Sorry {
			config.Denied = sorry
		}
		l := newLimiter(t, config)
		if c.Made != nil {
			c.Made(callLimiter{l})
		}
		middleware = append(middleware, l.Middleware())
	}
	server.AddReceivingMiddleware(middleware...)
	for _, service := range []string{"parity.v1.First", "parity.v1.Second"} {
		addTool(server, service+".Unary", func(ctx context.Context, r *mcp.CallToolRequest) (string, error) {
			if app.Unary != nil {
				return "hello", app.Unary(ctx, textOf(r.Params.Arguments))
			}
			return "hello", nil
		})
		addTool(server, service+".Down", func(ctx context.Context, r *mcp.CallToolRequest) (string, error) {
			return "", orEcho(app.Down)(ctx, &down{ctx: ctx, r: r})
		})
		addTool(server, service+".Up", func(ctx context.Context, r *mcp.CallToolRequest) (string, error) {
			m := &up{ctx: ctx, r: r}
			err := orEcho(app.Up)(ctx, m)
			return m.answer, err
		})
	}
	handler := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, options)
	web := httptest.NewServer(mcpmw.WithRequest(handler))
	c := &parityClient{}
	client := mcp.NewClient(implementation, &mcp.ClientOptions{
		ProgressNotificationHandler: func(_ context.Context, r *mcp.ProgressNotificationClientRequest) {
			c.of(r.Params.ProgressToken.(string)).messages <- r.Params.Message
		},
		ElicitationHandler: func(ctx context.Context, r *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			select {
			case text, ok := <-c.of(r.Params.Message).sent:
				if !ok {
					return &mcp.ElicitResult{Action: "decline"}, nil
				}
				return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"text": text}}, nil
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		},
	})
	transport := &http.Transport{}
	session, err := client.Connect(t.Context(), &mcp.StreamableClientTransport{
		Endpoint: web.URL, HTTPClient: &http.Client{Transport: withHeaders{transport}}, MaxRetries: -1,
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		session.Close()
		transport.CloseIdleConnections()
		web.CloseClientConnections()
		web.Close()
	})
	c.session = session
	return c
}

// sorry answers with an error of the application's own, which has the fields and no more.
func sorry(_ *mcpmw.Call, o core.Outcome, err *jsonrpc.Error) (mcp.Result, error) {
	var data map[string]any
	if err := json.Unmarshal(err.Data, &data); err != nil {
		return nil, err
	}
	delete(data, "violatedPolicies")
	data["retry-after"] = fmt.Sprint(data["retryAfter"])
	delete(data, "retryAfter")
	text, e := json.Marshal(data)
	if e != nil {
		return nil, e
	}
	return nil, &jsonrpc.Error{Code: codeAborted, Message: parity.SorryText(o), Data: text}
}

// implementation names the programs of the tests.
var implementation = &mcp.Implementation{Name: "test", Version: "v1"}

func newServer() *mcp.Server {
	return mcp.NewServer(implementation, &mcp.ServerOptions{Logger: slog.New(slog.DiscardHandler)})
}

// addTool adds a tool whose result is a text.
func addTool(
	server *mcp.Server, name string, run func(context.Context, *mcp.CallToolRequest) (string, error),
) {
	tool := &mcp.Tool{Name: name, InputSchema: json.RawMessage(`{"type":"object"}`)}
	server.AddTool(tool, func(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		text, err := run(ctx, r)
		if err != nil {
			return nil, err
		}
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: text}}}, nil
	})
}

// recovering is the middleware of a program that turns panics into errors.
func recovering(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, r mcp.Request) (result mcp.Result, err error) {
		defer func() {
			if recover() != nil {
				result, err = nil, &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "panicked"}
			}
		}()
		return next(ctx, method, r)
	}
}

func newLimiter(t testing.TB, config mcpmw.Config) *mcpmw.Limiter {
	t.Helper()
	l, err := mcpmw.New(config)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// callLimiter has no preflights.
type callLimiter struct{ *mcpmw.Limiter }

func (callLimiter) Preflights() int64 { return 0 }

func textOf(arguments json.RawMessage) string {
	var m struct{ Text string }
	_ = json.Unmarshal(arguments, &m)
	return m.Text
}

func orEcho(
	run func(context.Context, parity.ServerMessages) error,
) func(context.Context, parity.ServerMessages) error {
	if run == nil {
		return parity.Echo
	}
	return run
}

// down has the messages of a stream of the server.
type down struct {
	ctx      context.Context
	r        *mcp.CallToolRequest
	received bool
}

func (m *down) Send(text string) error {
	return m.r.Session.NotifyProgress(m.ctx, &mcp.ProgressNotificationParams{
		ProgressToken: m.r.Params.GetProgressToken(), Message: text,
	})
}

func (m *down) Receive() (string, error) {
	if m.received {
		return "", io.EOF
	}
	m.received = true
	return textOf(m.r.Params.Arguments), nil
}

// up has the messages of a stream of the client.
type up struct {
	ctx    context.Context
	r      *mcp.CallToolRequest
	answer string
}

func (m *up) Send(text string) error {
	m.answer = text
	return nil
}

func (m *up) Receive() (string, error) {
	r, err := m.r.Session.Elicit(m.ctx, &mcp.ElicitParams{Message: m.r.Params.GetProgressToken().(string)})
	switch {
	case err != nil:
		return "", err
	case r.Action != "accept":
		return "", io.EOF
	}
	return r.Content["text"].(string), nil
}

type headersKey struct{}

// withHeaders adds the header fields that a call has in its context.
type withHeaders struct{ next http.RoundTripper }

func (w withHeaders) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	fields, _ := r.Context().Value(headersKey{}).(http.Header)
	for name, values := range fields {
		r.Header[http.CanonicalHeaderKey(name)] = values
	}
	return w.next.RoundTrip(r)
}

type parityClient struct {
	session *mcp.ClientSession
	streams sync.Map // by token
	last    atomic.Int64
}

func (c *parityClient) of(token string) *streamClient {
	s, _ := c.streams.Load(token)
	return s.(*streamClient)
}

func (c *parityClient) call(
	ctx context.Context, tool string, fields http.Header, text string, meta mcp.Meta,
) (string, parity.CallAnswer) {
	result, err := c.session.CallTool(context.WithValue(ctx, headersKey{}, fields), &mcp.CallToolParams{
		Meta: meta, Name: tool, Arguments: map[string]any{"text": text},
	})
	if err != nil {
		return "", parityAnswer(err)
	}
	return result.Content[0].(*mcp.TextContent).Text, answerOf(result.Meta)
}

func (c *parityClient) Call(
	ctx context.Context, service string, fields http.Header, text string,
) parity.CallAnswer {
	_, answer := c.call(ctx, service+".Unary", fields, text, nil)
	return answer
}

func (c *parityClient) Stream(
	ctx context.Context, method string, fields http.Header,
) parity.ClientMessages {
	token := fmt.Sprint("stream ", c.last.Add(1))
	s := &streamClient{
		sent: make(chan string, 9), messages: make(chan string, 9), over: make(chan struct{}),
	}
	c.streams.Store(token, s)
	go func() {
		defer close(s.over)
		var text string
		text, s.answer = c.call(ctx, "parity.v1.First."+method, fields, "x", mcp.Meta{"progressToken": token})
		if method == "Up" && s.answer.Code == parity.CodeOK {
			s.messages <- text
		}
	}()
	return s
}

type streamClient struct {
	sent, messages chan string
	over           chan struct{}
	answer         parity.CallAnswer
}

func (s *streamClient) Send(text string) error { s.sent <- text; return nil }
func (s *streamClient) CloseSend()             { close(s.sent) }

func (s *streamClient) Receive() (string, error) {
	select {
	case text := <-s.messages:
		return text, nil
	case <-s.over:
	}
	select {
	case text := <-s.messages:
		return text, nil
	default:
		return "", io.EOF
	}
}

func (s *streamClient) Answer() parity.CallAnswer { return s.answer }

func parityAnswer(err error) parity.CallAnswer {
	var e *jsonrpc.Error
	switch {
	case errors.Is(err, context.Canceled):
		return parity.CallAnswer{Code: parity.CodeCanceled, Text: err.Error()}
	case errors.Is(err, context.DeadlineExceeded):
		return parity.CallAnswer{Code: parity.CodeDeadlineExceeded, Text: err.Error()}
	case !errors.As(err, &e):
		return parity.CallAnswer{Code: 999, Text: err.Error()}
	}
	var data map[string]any
	if len(e.Data) > 0 {
		if err := json.Unmarshal(e.Data, &data); err != nil {
			return parity.CallAnswer{Code: 998, Text: err.Error()}
		}
	}
	a := answerOf(data)
	code, ok := tableCodes[e.Code]
	if !ok {
		code = 997
	}
	a.Code, a.Text = code, e.Message
	return a
}

// answerOf returns the answer with the members of _meta or data.
func answerOf(data map[string]any) parity.CallAnswer {
	a := parity.CallAnswer{Fields: make(http.Header)}
	for name, value := range data {
		switch value := value.(type) {
		case string:
			a.Fields.Set(name, value)
		case float64: // retryAfter
			a.Fields.Set("Retry-After", fmt.Sprint(int64(value)))
			a.Retry = time.Duration(value) * time.Second
		case []any:
			for _, rule := range value {
				a.Violated = append(a.Violated, rule.(string))
			}
		}
	}
	return a
}
