package main_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/weir-go/weir/internal/proof/testrun"
	"github.com/weir-go/weir/mcpmw"
)

// build returns the path of the program.
func build(t *testing.T) string {
	t.Helper()
	testrun.DependsOnSource(t, "../..")
	program := filepath.Join(t.TempDir(), "mcp")
	if out, err := testrun.Command(t, "go", "build", "-o", program, ".").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	return program
}

// launch runs the program over HTTP until the end of the test and returns its URL.
func launch(t *testing.T) string {
	t.Helper()
	cmd := testrun.Command(t, build(t))
	cmd.Env = append(os.Environ(), "ADDR=127.0.0.1:0")
	log, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewReader(log)
	t.Cleanup(func() {
		cmd.Process.Signal(syscall.SIGTERM)
		rest, _ := io.ReadAll(lines)
		if err := cmd.Wait(); err != nil {
			t.Errorf("after SIGTERM: %v\n%s", err, rest)
		}
	})
	line, err := lines.ReadString('\n')
	_, addr, ok := strings.Cut(strings.TrimSpace(line), "listening on ")
	if err != nil || !ok {
		t.Fatalf("logged %q (%v), want the address", line, err)
	}
	return "http://" + addr
}

const initialize = `{"jsonrpc": "2.0", "id": 0, "method": "initialize",
	"params": {"protocolVersion": "2025-06-18", "capabilities": {},
	"clientInfo": {"name": "curl", "version": "1"}}}`

const search = `{"jsonrpc": "2.0", "id": 1, "method": "tools/call",
	"params": {"name": "search", "arguments": {"text": "weir"}}}`

// post sends a body as the curl of the comment does. session is "" at first.
func post(t *testing.T, url, session, body string) (response *http.Response, text string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), "POST", url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	if session != "" {
		r.Header.Set("Mcp-Session-Id", session)
	}
	response, err = http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	read, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response, string(read)
}

// The session of the comment of main.go.
func TestTheSessionOfTheComment(t *testing.T) {
	url, begun := launch(t), time.Now()
	opened, _ := post(t, url, "", initialize)
	session, allowed := opened.Header.Get("Mcp-Session-Id"), 1
	for {
		_, text := post(t, url, session, search)
		if strings.Contains(text, `"text":"Nothing is known about weir."`) {
			allowed++
			continue
		}
		for _, want := range []string{
			"event: message\ndata: ", `"error":{"code":429,"message":"Too many requests: retry in `,
			`"ratelimit-policy":"\"per-client\";q=60;w=60"`, `"violatedPolicies":["per-client"]`,
		} {
			if !strings.Contains(text, want) {
				t.Fatalf("%s, want %s", text, want)
			}
		}
		break
	}
	if most := 60 * (1 + int(time.Since(begun)/time.Minute)); allowed < 60 || allowed > most {
		t.Errorf("%d calls are allowed, want 60 a minute, at most %d", allowed, most)
	}
	for range 1000 { // more than the limit in the minutes that this takes
		response, text := post(t, url, "", "garbage")
		if response.StatusCode == http.StatusTooManyRequests {
			return
		}
		if response.StatusCode != http.StatusBadRequest {
			t.Fatalf("%s, %s", response.Status, text)
		}
	}
	t.Error("1000 requests: none is denied")
}

// renders holds the unit of a call until cancel ends it. It tries again while other calls, which
// the test makes at the same time, have all units.
func renders(t *testing.T, s *mcp.ClientSession) (cancel func()) {
	t.Helper()
	ctx, leave := context.WithCancel(t.Context())
	over := make(chan error, 1)
	params := &mcp.CallToolParams{Name: "render", Arguments: map[string]any{"pages": 60}}
	go func() {
		for {
			_, err := s.CallTool(ctx, params)
			if denial, ok := errors.AsType[*jsonrpc.Error](err); !ok || denial.Code != mcpmw.CodeDenied {
				over <- err
				return
			}
			time.Sleep(100 * time.Millisecond)
		}
	}()
	return func() {
		leave()
		if err := <-over; !errors.Is(err, context.Canceled) {
			t.Errorf("a render ends with %v", err)
		}
	}
}

// tryRender renders nothing, and reports whether it is allowed.
func tryRender(t *testing.T, s *mcp.ClientSession) bool {
	t.Helper()
	result, err := s.CallTool(t.Context(), &mcp.CallToolParams{
		Name: "render", Arguments: map[string]any{"pages": 0},
	})
	denial, ok := errors.AsType[*jsonrpc.Error](err)
	switch {
	case err == nil && !result.IsError:
		return true
	case !ok || denial.Code != mcpmw.CodeDenied:
		t.Fatalf("%+v, %v", result, err)
	}
	return false
}

// It polls the server with twenty calls of the 60 that a client has, in up to 19 s.
func wantRenders(t *testing.T, s *mcp.ClientSession, allowed bool) {
	t.Helper()
	for i := range 20 {
		if tryRender(t, s) == allowed {
			return
		}
		time.Sleep(time.Duration(i) * 100 * time.Millisecond)
	}
	t.Errorf("twenty calls of render: none has allowed = %t", allowed)
}

// testRenders checks that two renders of a client run at once, and no third.
func testRenders(t *testing.T, s *mcp.ClientSession) {
	t.Helper()
	if !tryRender(t, s) {
		t.Error("the first render is denied")
	}
	one, other := renders(t, s), renders(t, s)
	wantRenders(t, s, false)
	one()
	other()
	wantRenders(t, s, true)
}

func TestTheProgramOverHTTP(t *testing.T) {
	client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "v1"}, nil)
	transport := &mcp.StreamableClientTransport{Endpoint: launch(t)}
	s, err := client.Connect(t.Context(), transport, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	testRenders(t, s)
}

func TestTheProgramOverStdio(t *testing.T) {
	client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "v1"}, nil)
	program := testrun.Command(t, build(t), "stdio")
	s, err := client.Connect(t.Context(), &mcp.CommandTransport{Command: program}, nil)
	if err != nil {
		t.Fatal(err)
	}
	testRenders(t, s)
	for range 200 {
		result, err := s.CallTool(t.Context(), &mcp.CallToolParams{
			Name: "search", Arguments: map[string]any{"text": "weir"},
		})
		if denial, ok := errors.AsType[*jsonrpc.Error](err); ok {
			if denial.Code != mcpmw.CodeDenied || !strings.HasPrefix(denial.Message, "Too many requests: ") {
				t.Errorf("%+v", denial)
			}
			break
		}
		if err != nil || result.Content[0].(*mcp.TextContent).Text != "Nothing is known about weir." {
			t.Fatalf("%+v, %v", result, err)
		}
	}
	if err := s.Close(); err != nil {
		t.Errorf("the program ends with %v", err)
	}
}
