// Mcp limits an MCP server: every client to 60 calls a minute, and to 2 calls of the tool render at
// once. It serves HTTP, or with the argument stdio the one client that has started it. It is a
// module of its own.
//
// To try it (only the lines that matter of each answer). The first request opens a session, and
// counts:
//
//	$ go -C examples/mcp run .
//	$ accept='Accept: application/json, text/event-stream'
//	$ session=$(curl -si -H "$accept" --json '{"jsonrpc": "2.0", "id": 0, "method": "initialize",
//	    "params": {"protocolVersion": "2025-06-18", "capabilities": {},
//	    "clientInfo": {"name": "curl", "version": "1"}}}' localhost:8080 |
//	    tr -d '\r' | grep -i '^mcp-session-id')
//	$ search='{"jsonrpc": "2.0", "id": 1, "method": "tools/call",
//	    "params": {"name": "search", "arguments": {"text": "weir"}}}'
//	$ curl -s -H "$accept" -H "$session" --json "$search" 'localhost:8080/?[1-60]' |
//	    grep -c '"text":"Nothing is known about weir."'
//	59
//	$ curl -s -H "$accept" -H "$session" --json "$search" localhost:8080
//	event: message
//	data: {...{"code":429,"message":"Too many requests: retry in 60 seconds.","data":{...}}}
//	$ curl -s -o /dev/null -w '%{http_code}\n' --json 'garbage' 'localhost:8080/?[1-60]' | uniq -c
//	     58 400
//	      2 429
//
// A limiter around the handler counts garbage. It allows 120 requests a minute.
package main

import (
	"cmp"
	"context"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/headers"
	"github.com/weir-go/weir/keyfuncs"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/mcpmw"
	"github.com/weir-go/weir/nethttp"
)

// flood counts requests before they are decoded. The SDK refuses what it cannot decode before a
// middleware sees it. Clients that follow the other limits never reach this one. Its denials are
// errors of JSON-RPC, which clients read; a 429 would end the sessions of some.
var flood = nethttp.MustNew(nethttp.Config{
	Rules: []nethttp.Rule{ends, {
		Name:  "requests",
		Limit: perAddress,
		Key:   core.Otherwise([]nethttp.Rule{ends}, address),
	}},
	Headers: headers.Options{Show: headers.OnDenial},
	Denied:  mcpmw.HTTPDenied,
})

// ends is the budget of requests that end a session, so that no denial leaves one behind.
var ends = nethttp.Rule{
	Name:  "ends",
	Limit: perAddress,
	Key:   core.When(mcpmw.EndsSession, address),
}

var (
	perAddress = limits.SlidingLog(limits.PerMinute(120))
	address    = keyfuncs.Address(keyfuncs.Peer) // behind a proxy: keyfuncs.MustTrustedProxies
)

// rules returns the rules for clients with the key client.
func rules(client func(*mcpmw.Call) (string, error)) []mcpmw.Rule {
	return []mcpmw.Rule{{
		Name:  "per-client",
		Limit: limits.SlidingLog(limits.PerMinute(60)),
		Key:   client,
	}, {
		Name:  "renders",
		Limit: limits.Concurrent(2),
		Key:   core.When(mcpmw.CallsTool("render"), client),
	}}
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var err error
	switch {
	case len(os.Args) == 1:
		err = serveHTTP(ctx)
	case len(os.Args) == 2 && os.Args[1] == "stdio":
		err = serveStdio(ctx)
	default:
		err = fmt.Errorf("usage: %s [stdio]", os.Args[0])
	}
	if err != nil {
		log.Fatal(err)
	}
}

// newServer returns a server whose tools obey the rules.
func newServer(rules []mcpmw.Rule) (*mcp.Server, error) {
	limiter, err := mcpmw.New(mcpmw.Config{Rules: rules})
	if err != nil {
		return nil, err
	}
	search := &mcp.Tool{Name: "search", Description: "Searches for a text."}
	render := &mcp.Tool{Name: "render", Description: "Renders pages, one a second."}
	if names := limiter.Unlimited(search, render); len(names) > 0 {
		return nil, fmt.Errorf("no rule limits the tools %q", names)
	}
	server := mcp.NewServer(&mcp.Implementation{Name: "example", Version: "v1.0.0"}, nil)
	server.AddReceivingMiddleware(limiter.Middleware())
	mcp.AddTool(server, search, searching)
	mcp.AddTool(server, render, rendering)
	return server, nil
}

type query struct {
	Text string `json:"text"`
}

func searching(
	_ context.Context, _ *mcp.CallToolRequest, q query,
) (*mcp.CallToolResult, any, error) {
	return answer("Nothing is known about " + q.Text + "."), nil, nil
}

type document struct {
	Pages int `json:"pages"`
}

// rendering tells the client of each page. The call holds its unit until it returns.
func rendering(
	ctx context.Context, r *mcp.CallToolRequest, d document,
) (*mcp.CallToolResult, any, error) {
	second := time.NewTicker(time.Second)
	defer second.Stop()
	for page := 1; page <= min(d.Pages, 60); page++ {
		select {
		case <-second.C:
		case <-ctx.Done(): // the client has cancelled the call
			return nil, nil, ctx.Err()
		}
		if token := r.Params.GetProgressToken(); token != nil {
			err := r.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{
				ProgressToken: token, Progress: float64(page), Total: float64(d.Pages),
			})
			if err != nil { // the client has left
				return nil, nil, err
			}
		}
	}
	return answer("Done."), nil, nil
}

func answer(text string) *mcp.CallToolResult {
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: text}}}
}

// serveStdio serves the client that has started the program.
func serveStdio(ctx context.Context) error {
	server, err := newServer(rules(keyfuncs.Constant[*mcpmw.Call]("stdio")))
	if err != nil {
		return err
	}
	return server.Run(ctx, &mcp.StdioTransport{})
}

// serveHTTP answers on $ADDR, or on port 8080 if it is not set, until it is interrupted. Clients
// count by the address of the connection. Behind a proxy, use
// mcpmw.Lift(keyfuncs.Address(keyfuncs.MustTrustedProxies("10.0.0.0/8"))) or a similar function;
// with auth.RequireBearerToken around the handler, use mcpmw.User.
func serveHTTP(ctx context.Context) error {
	server, err := newServer(rules(keyfuncs.Address(mcpmw.Peer)))
	if err != nil {
		return err
	}
	handler := mcpmw.WithRequest(mcp.NewStreamableHTTPHandler(
		func(*http.Request) *mcp.Server { return server },
		&mcp.StreamableHTTPOptions{SessionTimeout: 10 * time.Minute}, // per-client bounds them
	))
	listener, err := net.Listen("tcp", cmp.Or(os.Getenv("ADDR"), ":8080"))
	if err != nil {
		return err
	}
	log.Printf("listening on %v", listener.Addr())
	web := &http.Server{
		Handler:      flood.Handler(patient(http.MaxBytesHandler(handler, 1<<20))),
		ReadTimeout:  10 * time.Second,
		WriteTimeout: 20 * time.Second, // of what is not behind patient
		IdleTimeout:  2 * time.Minute,
		BaseContext:  func(net.Listener) context.Context { return ctx },
	}
	failed := make(chan error, 1)
	go func() { failed <- web.Serve(listener) }()
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	within, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	return web.Shutdown(within)
}

// patient lets clients take ten seconds to read each message, however long a call lasts.
func patient(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		m := &messages{w, http.NewResponseController(w)}
		m.controller.SetWriteDeadline(time.Time{}) // the first message may be far off
		next.ServeHTTP(m, r)
	})
}

type messages struct {
	http.ResponseWriter
	controller *http.ResponseController
}

func (m *messages) Write(data []byte) (int, error) {
	m.controller.SetWriteDeadline(time.Now().Add(10 * time.Second))
	return m.ResponseWriter.Write(data)
}

// Flush sends a message. The next one may be far off, so Flush also removes the deadline.
func (m *messages) Flush() {
	m.controller.Flush()
	m.controller.SetWriteDeadline(time.Time{})
}

func (m *messages) Unwrap() http.ResponseWriter { return m.ResponseWriter }
