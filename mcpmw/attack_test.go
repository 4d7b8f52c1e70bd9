package mcpmw_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/mcpmw"
)

// target is a server with a concurrency limit on tool calls. Its tool wait returns when its context
// ends or when may gets a value, stay only when may gets a value, and boom panics.
type target struct {
	limiter *mcpmw.Limiter
	server  *mcp.Server
	begun   chan string // gets the name of a tool that begins
	may     chan bool
	served  atomic.Int64
}

func newTarget(t *testing.T, limit limits.Limit) *target {
	t.Helper()
	of := &target{
		limiter: newLimiter(t, mcpmw.Config{Rules: toolCalls(limit)}), server: newServer(),
		begun: make(chan string, 1000), may: make(chan bool),
	}
	of.server.AddReceivingMiddleware(recovering, of.limiter.Middleware())
	begin := func(name string) {
		of.served.Add(1)
		of.begun <- name
	}
	addTool(of.server, "wait", func(ctx context.Context, _ *mcp.CallToolRequest) (string, error) {
		begin("wait")
		select {
		case <-of.may:
			return "waited", nil
		case <-ctx.Done():
			return "", ctx.Err()
		}
	})
	addTool(of.server, "stay", func(context.Context, *mcp.CallToolRequest) (string, error) {
		begin("stay")
		<-of.may
		return "stayed", nil
	})
	addTool(of.server, "boom", func(context.Context, *mcp.CallToolRequest) (string, error) {
		begin("boom")
		panic("boom")
	})
	addTool(of.server, "ask", func(ctx context.Context, r *mcp.CallToolRequest) (string, error) {
		begin("ask")
		_, err := r.Session.Elicit(ctx, &mcp.ElicitParams{Message: "well?"})
		return "", err
	})
	return of
}

func (of *target) wantHeld(t *testing.T, units int) {
	t.Helper()
	waitFor(t, fmt.Sprintf("%d units are held", units),
		func() bool { return of.limiter.State().Held == units })
}

func waitFor(t *testing.T, what string, so func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !so(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("a minute later it is not so that %s", what)
		}
	}
}

// peer writes and reads lines of JSON, as a client over stdio does.
type peer struct {
	conn    net.Conn
	answers chan answer
}

type answer struct {
	ID     any
	Method string
	Result json.RawMessage
	Error  *struct {
		Code    int64
		Message string
	}
}

const (
	initialize = `{"jsonrpc":"2.0","id":"i","method":"initialize","params":{` +
		`"protocolVersion":"2025-06-18","capabilities":{"elicitation":{}},` +
		`"clientInfo":{"name":"a","version":"1"}}}`
	initialized = `{"jsonrpc":"2.0","method":"notifications/initialized"}`
)

func call(id any, tool string) string {
	text, _ := json.Marshal(id)
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":"tools/call",`+
		`"params":{"name":%q,"arguments":{}}}`, text, tool)
}

func cancelled(id any) string {
	text, _ := json.Marshal(id)
	return fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/cancelled",`+
		`"params":{"requestId":%s}}`, text)
}

// dial connects a peer, as over stdio, and opens a session.
func (of *target) dial(t *testing.T) *peer {
	t.Helper()
	one, other := net.Pipe()
	transport := &mcp.IOTransport{Reader: one, Writer: one}
	if _, err := of.server.Connect(t.Context(), transport, nil); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { other.Close() })
	p := &peer{other, make(chan answer, 1000)}
	go func() {
		defer close(p.answers)
		for lines := bufio.NewScanner(other); lines.Scan(); {
			var a answer
			if err := json.Unmarshal(lines.Bytes(), &a); err != nil {
				t.Errorf("%s: %v", lines.Bytes(), err)
			}
			if !strings.HasPrefix(a.Method, "notifications/") {
				p.answers <- a
			}
		}
	}()
	p.send(t, initialize)
	if a := p.next(t); a.ID != "i" || a.Error != nil {
		t.Fatalf("%+v", a)
	}
	p.send(t, initialized)
	return p
}

func (p *peer) send(t *testing.T, lines ...string) {
	t.Helper()
	if _, err := io.WriteString(p.conn, strings.Join(lines, "\n")+"\n"); err != nil {
		t.Fatal(err)
	}
}

func (p *peer) next(t *testing.T) answer {
	t.Helper()
	select {
	case a := <-p.answers:
		return a
	case <-time.After(time.Minute):
		t.Fatal("no answer in a minute")
		return answer{}
	}
}

func TestTwoCallsWithOneID(t *testing.T) {
	of := newTarget(t, limits.Concurrent(2))
	p := of.dial(t)
	p.send(t, call(7, "stay"))
	<-of.begun
	p.send(t, call(7, "stay"), call(7, "boom"), call(8, "wait")) // the SDK drops the first two
	if name := <-of.begun; name != "wait" {
		t.Errorf("%s begins", name)
	}
	of.wantHeld(t, 2)
	p.send(t, call(9, "stay"))
	if a := p.next(t); a.ID != 9. || a.Error == nil || a.Error.Code != mcpmw.CodeDenied {
		t.Errorf("%+v", a)
	}
	of.may <- true
	of.may <- true
	of.wantHeld(t, 0)
	for range 2 { // the id is free after the answer
		if a := p.next(t); a.Error != nil {
			t.Errorf("%+v", a)
		}
	}
	if of.served.Load() != 2 {
		t.Errorf("%d served", of.served.Load())
	}
	p.send(t, call(7, "stay"))
	of.may <- true
	of.wantHeld(t, 0)
}

func TestACancellationBeforeTheCall(t *testing.T) {
	of := newTarget(t, limits.Concurrent(1))
	p := of.dial(t)
	for id := range 200 { // the call runs or does not, and holds nothing in either case
		p.send(t, cancelled(id), call(id, "wait"), cancelled(id))
		if a := p.next(t); a.ID != float64(id) || a.Error == nil {
			t.Errorf("%+v", a)
		}
	}
	of.wantHeld(t, 0)
	p.send(t, call("last", "wait"))
	of.may <- true
	if a := p.next(t); a.Error != nil {
		t.Errorf("%+v", a)
	}
	of.wantHeld(t, 0)
}

// A rule without an end does not keep the cancellation from the handler.
func TestACancellationReachesTheHandler(t *testing.T) {
	for _, limit := range []limits.Limit{limits.FixedWindow(limits.PerDay(9)), limits.Concurrent(1)} {
		of := newTarget(t, limit)
		p := of.dial(t)
		p.send(t, call(1, "wait"))
		<-of.begun
		p.send(t, cancelled(1))
		if a := p.next(t); a.ID != 1. || a.Error == nil {
			t.Errorf("%+v", a)
		}
	}
}

// A handler that ignores its context works on, and holds its unit.
func TestASessionThatClosesWhileACallRuns(t *testing.T) {
	of := newTarget(t, limits.Concurrent(1))
	p := of.dial(t)
	p.send(t, call(1, "stay"))
	<-of.begun
	p.send(t, cancelled(1))
	p.conn.Close()
	other := of.dial(t)
	other.send(t, call(1, "wait"))
	if a := other.next(t); a.Error == nil || a.Error.Code != mcpmw.CodeDenied {
		t.Errorf("%+v", a)
	}
	of.wantHeld(t, 1)
	of.may <- true
	of.wantHeld(t, 0)
	other.send(t, call(2, "wait"))
	of.may <- true
	if a := other.next(t); a.Error != nil {
		t.Errorf("%+v", a)
	}
	of.wantHeld(t, 0)
}

func TestAClientThatLeavesWithoutAnAnswerToAQuestion(t *testing.T) {
	of := newTarget(t, limits.Concurrent(1))
	p := of.dial(t)
	p.send(t, call(1, "ask"))
	if a := p.next(t); a.Method != "elicitation/create" {
		t.Fatalf("%+v", a)
	}
	of.wantHeld(t, 1)
	p.conn.Close()
	of.wantHeld(t, 0)
}

func TestAPanicEndsWhatACallHolds(t *testing.T) {
	of := newTarget(t, limits.Concurrent(1))
	p := of.dial(t)
	for id := range 100 {
		p.send(t, call(id, "boom"))
		if a := p.next(t); a.Error == nil || a.Error.Message != "panicked" {
			t.Fatalf("%+v", a)
		}
	}
	of.wantHeld(t, 0)
}

// Neither of them reaches a rule, or costs units.
func TestWhatTheSDKRefusesIsNotCounted(t *testing.T) {
	of := newTarget(t, limits.FixedWindow(limits.PerDay(1)))
	p := of.dial(t)
	for id, line := range []string{
		`{"jsonrpc":"2.0","id":0,"method":"no/such"}`,
		`{"jsonrpc":"2.0","id":1,"method":"tools/call"}`,
		`{"jsonrpc":"2.0","id":2,"method":"notifications/initialized"}`,
		`{"jsonrpc":"2.0","id":3,"method":"tools/call","params":[]}`,
	} {
		p.send(t, line)
		if a := p.next(t); a.ID != float64(id) || a.Error == nil || a.Error.Code == mcpmw.CodeDenied {
			t.Errorf("%+v", a)
		}
	}
	p.send(t, `{"jsonrpc":"2.0","method":"tools/call","params":{"name":"wait"}}`, call(9, "wait"))
	of.may <- true
	if a := p.next(t); a.ID != 9. || a.Error != nil {
		t.Errorf("%+v", a)
	}
	p.send(t, call(10, "no such tool"))
	if a := p.next(t); a.ID != 10. || a.Error == nil || a.Error.Code != mcpmw.CodeDenied {
		t.Errorf("%+v", a)
	}
}

// visitor posts messages over HTTP.
type visitor struct {
	url, session string
	client       *http.Client
}

func (of *target) visit(t *testing.T) *visitor {
	t.Helper()
	web := serveHTTP(t, of.server, nil)
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	v := &visitor{url: web.URL, client: &http.Client{Transport: transport}}
	response := v.post(t, t.Context(), initialize)
	v.session = response.Header.Get("Mcp-Session-Id")
	io.Copy(io.Discard, response.Body)
	response.Body.Close()
	response = v.post(t, t.Context(), initialized)
	response.Body.Close()
	if v.session == "" {
		t.Fatal("no session")
	}
	return v
}

// post returns the response, or nil if ctx ends before there is one.
func (v *visitor) post(t *testing.T, ctx context.Context, message string) *http.Response {
	t.Helper()
	return v.send(t, ctx, http.MethodPost, message)
}

func (v *visitor) send(t *testing.T, ctx context.Context, method, message string) *http.Response {
	t.Helper()
	r, err := http.NewRequestWithContext(ctx, method, v.url, strings.NewReader(message))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	if v.session != "" {
		r.Header.Set("Mcp-Session-Id", v.session)
	}
	response, err := v.client.Do(r)
	if err != nil {
		if ctx.Err() == nil {
			t.Error(err)
		}
		return nil
	}
	return response
}

// events returns the messages of a stream of events until it ends.
func events(response *http.Response) (messages []answer) {
	defer response.Body.Close()
	for lines := bufio.NewScanner(response.Body); lines.Scan(); {
		if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
			var a answer
			if json.Unmarshal([]byte(data), &a) == nil && a.Method == "" {
				messages = append(messages, a)
			}
		}
	}
	return messages
}

// Clients of 2025-03-26 may send several messages at once.
func TestEachCallOfABatchCounts(t *testing.T) {
	of := newTarget(t, limits.FixedWindow(limits.PerDay(5)))
	v := of.visit(t)
	var batch []string
	for id := range 20 {
		batch = append(batch, call(id, "boom"))
	}
	codes := make(map[int64]int)
	for _, a := range events(v.post(t, t.Context(), "["+strings.Join(batch, ",")+"]")) {
		codes[a.Error.Code]++
	}
	if codes[mcpmw.CodeDenied] != 15 || of.served.Load() != 5 {
		t.Errorf("%v, %d served", codes, of.served.Load())
	}
}

// The SDK refuses the second call while the first runs. It serves it if it reads it later.
func TestTwoCallsOfABatchWithOneID(t *testing.T) {
	of := newTarget(t, limits.Concurrent(2))
	v := of.visit(t)
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	var wg sync.WaitGroup
	wg.Go(func() {
		if r := v.post(t, ctx, "["+call(7, "stay")+","+call(7, "stay")+"]"); r != nil {
			events(r)
		}
	})
	<-of.begun
	of.wantHeld(t, 1)
	close(of.may)
	of.wantHeld(t, 0)
	leave()
	wg.Wait()
	of.wantHeld(t, 0)
	if of.served.Load() > 2 {
		t.Errorf("%d served", of.served.Load())
	}
}

// The SDK lets a call run on whose client has closed the stream of its events.
func TestAClientThatClosesTheStreamOfItsCall(t *testing.T) {
	of := newTarget(t, limits.Concurrent(1))
	v := of.visit(t)
	for id := range 20 {
		ctx, leave := context.WithCancel(t.Context())
		over, tool := make(chan bool, 1), []string{"stay", "wait"}[id%2]
		try := func() {
			if r := v.post(t, ctx, call(id, tool)); r != nil {
				events(r)
			}
			over <- true
		}
		go try()
		for begun := false; !begun; {
			select {
			case <-of.begun:
				begun = true
			case <-over: // denied: no unit is held, and the store gets the last one back in a moment
				go try()
			}
		}
		leave()
		<-over
		if id%2 == 0 {
			of.wantHeld(t, 1)
			of.may <- true
		} else {
			v.post(t, t.Context(), cancelled(id)).Body.Close()
		}
		of.wantHeld(t, 0)
	}
}

func TestASessionThatIsDeletedWhileACallRuns(t *testing.T) {
	of := newTarget(t, limits.Concurrent(1))
	v := of.visit(t)
	var wg sync.WaitGroup
	wg.Go(func() { events(v.post(t, t.Context(), call(1, "stay"))) })
	<-of.begun
	wg.Go(func() { v.send(t, t.Context(), http.MethodDelete, "").Body.Close() })
	of.wantHeld(t, 1)
	of.may <- true
	wg.Wait()
	of.wantHeld(t, 0)
}

// A flood of names of tools costs units like other calls, and a bounded memory.
func TestNamesOfToolsThatDoNotExist(t *testing.T) {
	l := newLimiter(t, mcpmw.Config{Rules: toolCalls(limits.FixedWindow(limits.PerDay(100)))})
	s := connect(t, echoServer(l))
	denied := 0
	for i := range 1000 {
		_, err := callTool(t, s, fmt.Sprint("tool", i, strings.Repeat("x", i)))
		if err == nil {
			t.Fatal("a tool that does not exist")
		}
		if strings.Contains(err.Error(), "Too many requests") {
			denied++
		}
	}
	if denied != 900 {
		t.Errorf("%d denied", denied)
	}
}
