package mcpmw_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/mcpmw"
)

// newest is the protocol without sessions. Releases of the SDK before 1.8 do not know it.
const newest = "2026-07-28"

// callOver posts a call of the tool search over HTTP, without a session. fields are header fields,
// one a line.
func callOver(t *testing.T, url, version, fields string) (status int, code int64, text string) {
	t.Helper()
	body := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"search","arguments":{},` +
		`"_meta":{"io.modelcontextprotocol/protocolVersion":"` + version + `",` +
		`"io.modelcontextprotocol/clientInfo":{"name":"a","version":"1"},` +
		`"io.modelcontextprotocol/clientCapabilities":{}}}}`
	r, err := http.NewRequestWithContext(t.Context(), "POST", url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	r.Header.Set("Mcp-Protocol-Version", version)
	for field := range strings.SplitSeq(fields, "\n") {
		if name, value, ok := strings.Cut(field, ": "); ok {
			r.Header.Set(name, value)
		}
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	all, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	_, data, isEvent := strings.Cut(string(all), "data: ")
	if !isEvent {
		data = string(all)
	}
	var answer struct{ Error struct{ Code int64 } }
	_ = json.Unmarshal([]byte(data), &answer) // older releases answer in words
	return response.StatusCode, answer.Error.Code, data
}

// knowsNewest reports whether the SDK serves the protocol without sessions.
func knowsNewest(t *testing.T) bool {
	t.Helper()
	web := serveHTTP(t, echoServer(), &mcp.StreamableHTTPOptions{Stateless: true})
	status, _, _ := callOver(t, web.URL, newest, "Mcp-Method: tools/call\nMcp-Name: search")
	return status == 200
}

// The limiter counts calls of one client together, with sessions and without.
func TestAStatelessServerCountsAsAStatefulOneDoes(t *testing.T) {
	for _, stateless := range []bool{false, true} {
		l := newLimiter(t, mcpmw.Config{Rules: []mcpmw.Rule{{
			Name: "calls", Limit: limits.FixedWindow(limits.PerDay(3)),
			Key: mcpmw.Lift(func(r *http.Request) (string, error) { return r.Header.Get("X-User"), nil }),
		}}})
		options := &mcp.StreamableHTTPOptions{Stateless: stateless}
		url := serveHTTP(t, echoServer(l), options).URL
		before := l.State().Held
		for _, user := range []string{"a", "b"} {
			s := connectHTTP(t, url, "X-User", user) // "initialize" counts, "server/discover" does not
			counted := 1
			if s.InitializeResult() != nil && s.InitializeResult().ProtocolVersion == newest {
				counted = 0
			}
			allowed := 0
			for range 4 {
				_, err := callTool(t, s, "search")
				if err == nil {
					allowed++
					continue
				}
				wantDenied(t, err)
			}
			if allowed != 3-counted {
				t.Errorf("stateless %t: %d of 4 calls are allowed, of 3 with %d counted", stateless, allowed, counted)
			}
		}
		if after := l.State().Held; after != before {
			t.Errorf("stateless %t: %d units are held", stateless, after)
		}
	}
}

// A denial has the status 200 of HTTP in every protocol: clients read the error.
func TestADenialWithoutASessionHasStatus200(t *testing.T) {
	versions := []string{"2025-06-18", "2025-11-25"}
	if knowsNewest(t) {
		versions = append(versions, newest)
	}
	for _, version := range versions {
		l := newLimiter(t, mcpmw.Config{Rules: toolCalls(limits.FixedWindow(limits.PerDay(1)))})
		url := serveHTTP(t, echoServer(l), &mcp.StreamableHTTPOptions{Stateless: true}).URL
		for i, want := range []int64{0, mcpmw.CodeDenied} {
			status, code, text := callOver(t, url, version, "Mcp-Method: tools/call\nMcp-Name: search")
			if status != 200 || code != want {
				t.Errorf("%s, call %d: %d, code %d, want %d: %s", version, i, status, code, want, text)
			}
		}
	}
}

// The SDK compares Mcp-Method and Mcp-Name with the body before a middleware sees the call, so no
// rule counts a call that contradicts itself, and no tool runs.
func TestACallThatContradictsItsFieldsIsNotCounted(t *testing.T) {
	known := knowsNewest(t)
	l := newLimiter(t, mcpmw.Config{Rules: toolCalls(limits.FixedWindow(limits.PerDay(1)))})
	url := serveHTTP(t, echoServer(l), &mcp.StreamableHTTPOptions{Stateless: true}).URL
	for _, fields := range []string{
		"", "Mcp-Method: tools/call", "Mcp-Name: search", "Mcp-Method: tools/list\nMcp-Name: search",
		"Mcp-Method: tools/call\nMcp-Name: render",
	} {
		const headerMismatch = -32020
		status, code, text := callOver(t, url, newest, fields)
		if status != 400 || known && code != headerMismatch {
			t.Errorf("%q: %d, code %d: %s", fields, status, code, text)
		}
	}
	if !known {
		return
	}
	for i, want := range []int64{0, mcpmw.CodeDenied} {
		_, code, text := callOver(t, url, newest, "Mcp-Method: tools/call\nMcp-Name: search")
		if code != want {
			t.Errorf("call %d: code %d, want %d: %s", i, code, want, text)
		}
	}
}

// In older protocols nothing compares the fields with the body: a rule must not believe them.
func TestOlderProtocolsDoNotCompareTheFields(t *testing.T) {
	url := serveHTTP(t, echoServer(), &mcp.StreamableHTTPOptions{Stateless: true}).URL
	status, code, text := callOver(t, url, "2025-11-25", "Mcp-Method: ping\nMcp-Name: another")
	if status != 200 || code != 0 {
		t.Errorf("%d, code %d: %s", status, code, text)
	}
}

// A stateless server has no sessions. Releases of the SDK before 1.8 take any id that a client sends,
// so a key by session limits nothing. Later ones have none: all clients count together.
func TestAKeyBySessionTellsNoClientsApartWithoutSessions(t *testing.T) {
	want := 0
	if knowsNewest(t) {
		want = 4
	}
	rule := mcpmw.Rule{Name: "session", Limit: limits.FixedWindow(limits.PerDay(1)), Key: mcpmw.Session}
	l := newLimiter(t, mcpmw.Config{Rules: []mcpmw.Rule{rule}})
	url := serveHTTP(t, echoServer(l), &mcp.StreamableHTTPOptions{Stateless: true}).URL
	denied := 0
	for i := range 5 {
		_, code, _ := callOver(t, url, "2025-11-25", fmt.Sprintf("Mcp-Session-Id: s%d", i))
		if code == mcpmw.CodeDenied {
			denied++
		}
	}
	if denied != want {
		t.Errorf("%d of 5 clients are denied, want %d", denied, want)
	}
}
