package serve

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/gateway/envoy"
	"github.com/weir-go/weir/internal/proof/freeport"
	"github.com/weir-go/weir/internal/proof/testrun"
)

// modelled starts weir and Envoy in front of app, as examples/envoy/NAME says, with changes of the
// limits and of envoy.yaml. Limits hold for a year: no test waits for the turn of an hour.
func modelled(t *testing.T, name string, app http.Handler, lines []string,
	changes ...string) *system {
	t.Helper()
	path := testrun.Program(t, "envoy")
	if minorOf(t, path) < 40 {
		t.Skip("Envoy before 1.40 lacks a filter of this guide")
	}
	s := &system{t: t, dir: t.TempDir()}
	limits := filepath.Join(s.dir, "limits")
	if err := os.Mkdir(limits, 0o755); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob("../../../../examples/envoy/" + name + "/limits*")
	if err != nil || len(files) != 1 {
		t.Fatal(files, err)
	}
	if deep, _ := filepath.Glob(files[0] + "/*"); len(deep) > 0 {
		files = deep
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, unit := range []string{"minute", "hour", "month"} {
			lines = append(lines, "unit: "+unit, "unit: year")
		}
		s.write("limits/"+filepath.Base(file), strings.NewReplacer(lines...).Replace(string(text)))
	}
	s.weir = start(t, Config{Paths: []string{limits}, Drain: time.Second,
		Descriptors: envoy.RateLimitOptions{Fields: name == "models"}})
	server := httptest.NewServer(app)
	t.Cleanup(server.Close)
	address, err := freeport.Address()
	if err != nil {
		t.Fatal(err)
	}
	s.url = "http://" + address
	s.write("envoy.yaml", example(t, name+"/envoy.yaml", append(changes,
		"port_value: 8000", "port_value: "+portOf(address),
		"port_value: 9000", "port_value: "+portOf(server.Listener.Addr().String()),
		"port_value: 8081", "port_value: "+portOf(s.weir.grpc))...))
	s.run(path, "-c", "envoy.yaml", "--use-dynamic-base-id", "--concurrency", "1", "-l", "error")
	return s
}

func TestTheGuideOfModelsShowsItsFiles(t *testing.T) {
	files := blocksOf(t, "../../../../docs/envoy-models.md")
	for name, file := range map[string]string{
		"mcp.yaml": "mcp/limits.yaml", "models.yaml": "models/limits/limits.yaml",
	} {
		if shown := files[name]; shown != example(t, file) {
			t.Errorf("%s: the guide shows\n%s", name, shown)
		}
	}
	for name, file := range map[string]string{
		"mcp-actions.yaml": "mcp/envoy.yaml", "mcp-filter.yaml": "mcp/envoy.yaml",
		"models-actions.yaml": "models/envoy.yaml",
	} {
		_, part, _ := strings.Cut(files[name], "\n")
		if part == "" || !strings.Contains(flat(example(t, file)), flat(part)) {
			t.Errorf("%s: the guide shows\n%s", name, part)
		}
	}
}

// posts sends a body as JSON, with fields and their values, and returns the status and the answer.
func (s *system) posts(path, key, body string, fields ...string) (int, string) {
	s.t.Helper()
	r, err := http.NewRequest("POST", s.url+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+key)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	for i := 0; i < len(fields); i += 2 {
		r.Header.Set(fields[i], fields[i+1])
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return response.StatusCode, string(text)
}

// tools answers calls of MCP with the name of the tool, as a lenient program reads it.
func tools(w http.ResponseWriter, r *http.Request) {
	var call struct {
		ID     json.RawMessage `json:"id"`
		Params struct {
			Name string `json:"name"`
		} `json:"params"`
	}
	if err := json.NewDecoder(r.Body).Decode(&call); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, `{"id":%s,"ran":%q,"for":%q}`, call.ID, call.Params.Name, r.Header.Get("X-User"))
}

// runs calls a tool, and wants it to run.
func (s *system) runs(body, key, want string, fields ...string) {
	s.t.Helper()
	status, text := s.posts("/mcp", key, body, fields...)
	if status != 200 || !strings.Contains(text, want) {
		s.t.Error(status, text)
	}
}

const toolCall = `{"jsonrpc":"2.0","id":7,"method":"tools/call",` +
	`"params":{"name":%q,"arguments":{"a":[1]}}}`

// A tool has its limit, whatever a client writes into fields and bodies.
func TestARealEnvoyLimitsEachTool(t *testing.T) {
	s := modelled(t, "mcp", http.HandlerFunc(tools), nil)
	search, weather := fmt.Sprintf(toolCall, "search"), fmt.Sprintf(toolCall, "weather")
	with := func(part, instead string) string { return strings.Replace(search, part, instead, 1) }
	for range 3 {
		s.runs(search, "key-of-ann", `"ran":"search","for":"ann"`)
	}
	for name, call := range map[string]struct {
		body   string
		fields []string
		denied bool // by an error for its id; otherwise by status 400
	}{
		"as before": {search, nil, true},
		"a forged Mcp-Name": {search,
			[]string{"Mcp-Name", "weather", "Mcp-Method", "tools/call"}, true},
		"a forged X-User":        {search, []string{"X-User", "bob"}, true},
		"an escape":              {with("search", `se\u0061rch`), nil, true},
		"a name in arguments":    {with(`{"a"`, `{"name":"weather","a"`), nil, true},
		"another name first":     {with(`"name"`, `"name":"weather","name"`), nil, false},
		"another name last":      {with(`}}}`, `},"name":"weather"}}`), nil, false},
		"further params":         {with(`]}}}`, `]}},"params":{"name":"weather"}}`), nil, false},
		"a name in capitals":     {with(`"name"`, `"NAME"`), nil, true},
		"a batch":                {"[" + search + "]", nil, false},
		"two messages":           {search + weather, nil, false},
		"no version":             {with(`"jsonrpc":"2.0",`, ""), nil, false},
		"another type":           {search, []string{"Content-Type", "text/plain"}, false},
		"a body above the bound": {with("1", strings.Repeat("1", 1<<20)), nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			status, text := s.posts("/mcp", "key-of-ann", call.body, call.fields...)
			if call.denied {
				var answer struct {
					ID    int
					Error struct {
						Code    int
						Message string
					}
				}
				err := json.Unmarshal([]byte(text), &answer)
				if status != 200 || err != nil || answer.ID != 7 || answer.Error.Code != 429 ||
					!strings.HasPrefix(answer.Error.Message, "Too many requests: retry in ") {
					t.Error(status, text)
				}
			} else if status != 400 {
				t.Error(status, text)
			}
		})
	}
	s.runs(weather, "key-of-ann", `"ran":"weather","for":"ann"`)
	s.runs(search, "key-of-bob", `"ran":"search","for":"bob"`)
	if status, _ := s.posts("/mcp", "key-of-eve", search); status != 401 {
		t.Error(status)
	}
}

// Each line of the guide closes a way around the limit.
func TestWithoutALineOfTheGuideAToolHasNoLimit(t *testing.T) {
	const (
		bound    = "\n                      max_request_body_size: 1048576"
		twice    = "\n                      reject_duplicate_keys: true"
		nameless = `path: [{key: params}, {key: name}]}, default_value: "-"`
	)
	search := fmt.Sprintf(toolCall, "search")
	for name, way := range map[string]struct {
		line, instead, body string
		fields              []string
	}{
		"HEADERS": {bound + twice, "\n                      attribute_source: HEADERS", search,
			[]string{"Mcp-Name", "weather", "Mcp-Method", "tools/call"}},
		"traffic_mode": {"traffic_mode: REJECT_NO_MCP", "traffic_mode: PASS_THROUGH", search,
			[]string{"Content-Type", "text/plain"}},
		"reject_duplicate_keys": {twice, "",
			strings.Replace(search, `]}}}`, `]}},"params":{"name":"weather"}}`, 1), nil},
		"forwarding": {"forwarding: {header: x-user, hide", "forwarding: {hide", search,
			[]string{"X-User", ""}},
		"default_value": {nameless, strings.TrimSuffix(nameless, `, default_value: "-"`),
			strings.Replace(search, `"name"`, `"NAME"`, 1), nil},
	} {
		t.Run(name, func(t *testing.T) {
			s := modelled(t, "mcp", http.HandlerFunc(tools), nil, way.line, way.instead)
			for i := range 6 {
				user := "ann"
				if name == "forwarding" {
					user = fmt.Sprint("user-", i)
					way.fields[1] = user
				}
				s.runs(way.body, "key-of-ann", `"for":"`+user+`"`, way.fields...)
			}
		})
	}
	s := modelled(t, "mcp", http.HandlerFunc(tools), nil, bound, "")
	long := strings.Replace(search, "[1]", "["+strings.Repeat("1,", 5000)+"1]", 1)
	if status, text := s.posts("/mcp", "key-of-ann", long); status != 400 {
		t.Error(status, text)
	}
}

// clients ask for a search four times, and then for the weather.
var clients = map[string]string{
	"client.py": `
import asyncio, sys, httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

async def main():
    http = httpx2.AsyncClient(headers={'Authorization': 'Bearer key-of-ann'})
    async with Client(streamable_http_client(sys.argv[1], http_client=http)) as client:
        for tool in ['search'] * 4 + ['weather']:
            try:
                print(tool, (await client.call_tool(tool, {})).content[0].text)
            except Exception as e:
                print(tool, 'error', e)

asyncio.run(main())
`,
	"client.mjs": `
import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
const client = new Client({ name: 'c', version: '1' })
const requestInit = { headers: { Authorization: 'Bearer key-of-ann' } }
const url = new URL(process.argv[2])
await client.connect(new StreamableHTTPClientTransport(url, { requestInit }))
for (const tool of ['search', 'search', 'search', 'search', 'weather']) {
  try {
    console.log(tool, (await client.callTool({ name: tool, arguments: {} })).content[0].text)
  } catch (e) {
    console.log(tool, 'error', e.message)
  }
}
await client.close()
`,
}

// A real server and real clients: a denied call is an error for the model to read, and the session
// goes on.
func TestRealClientsOfMCPReadADenialOfEnvoy(t *testing.T) {
	testrun.FullOnly(t, "clients, which pip and npm install")
	testrun.Program(t, "envoy")
	dir := t.TempDir()
	for _, command := range [][]string{
		{"python3", "-m", "pip", "install", "-q", "--target", dir, "mcp==2.3.0"},
		{"npm", "install", "--no-audit", "--no-fund", "--silent", "--prefix", dir,
			"@modelcontextprotocol/sdk@1.32.2"},
	} {
		if out, err := testrun.Command(t, command[0], command[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", command[0], err, out)
		}
	}
	for name, program := range map[string]string{"client.py": "python3", "client.mjs": "node"} {
		t.Run(name, func(t *testing.T) {
			s := modelled(t, "mcp", scripted(t, "mcp", "PYTHONPATH="+dir), nil)
			path := filepath.Join(dir, name)
			if err := os.WriteFile(path, []byte(clients[name]), 0o644); err != nil {
				t.Fatal(err)
			}
			client := testrun.Command(t, program, path, s.url+"/mcp")
			client.Env = append(os.Environ(), "PYTHONPATH="+dir)
			out, err := client.CombinedOutput()
			lines := strings.Split(string(out), "\n")
			if err != nil || len(lines) < 5 || strings.TrimSpace(lines[0]) != "search found" ||
				!strings.HasPrefix(lines[3], "search error ") ||
				!strings.Contains(lines[3], "Too many requests: retry in ") || lines[4] != "weather sunny" {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}

// scripted starts the server of an example, and returns a proxy to it.
func scripted(t *testing.T, name string, env ...string) http.Handler {
	t.Helper()
	address, err := freeport.Address()
	if err != nil {
		t.Fatal(err)
	}
	path := "../../../../examples/envoy/" + name + "/server.py"
	server := testrun.Command(t, "python3", path, portOf(address))
	server.Env = append(os.Environ(), env...)
	var log strings.Builder
	server.Stdout, server.Stderr = &log, &log
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		server.Process.Kill()
		server.Wait()
		if t.Failed() {
			t.Log(log.String())
		}
	})
	for end := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		conn, err := net.Dial("tcp", address)
		if err == nil {
			conn.Close()
			return httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: address})
		}
		if time.Now().After(end) {
			t.Fatal(err)
		}
	}
}

// The server of the guide answers as a model does.
func TestTheGuidesModelIsCharged(t *testing.T) {
	s := modelled(t, "models", scripted(t, "models"), nil)
	s.asks(`{"model":"large"}`, 200)
	s.has("4999774", "96999", "20")
	s.asks(`{"model":"small","stream":true,"stream_options":{"include_usage":true}}`, 200)
	s.has("4999755", "93998", "20")
	s.asks(`{"model":"small","stream":true}`, 200) // the estimate
	s.has("4999747", "92998", "20")
}

// answers is a model. A request says what it does.
func answers(hold <-chan struct{}) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var ask struct {
			Model, Does   string
			Stream        bool
			StreamOptions any `json:"stream_options"`
		}
		err := json.NewDecoder(r.Body).Decode(&ask)
		if err != nil || r.Header.Get("Accept-Encoding") != "" {
			http.Error(w, "no", http.StatusBadRequest)
			return
		}
		usage := `{"prompt_tokens":1001,"completion_tokens":2000,"total_tokens":3001}`
		const said = `{"role":"assistant","content":"Hello."}`
		if !ask.Stream {
			w.Header().Set("Content-Type", "application/json")
			switch ask.Does {
			case "fails":
				w.WriteHeader(500)
				fmt.Fprint(w, `{"error":{"message":"no"}}`)
				return
			case "tells no type":
				w.Header().Set("Content-Type", "text/plain")
			case "is long":
				fmt.Fprint(w, strings.Repeat(" ", 3<<20))
			case "is longer":
				fmt.Fprint(w, strings.Repeat(" ", 9<<20))
			case "is compressed":
				w.Header().Set("Content-Encoding", "gzip")
				fmt.Fprint(w, "\x1f\x8b")
			}
			fmt.Fprintf(w, `{"model":%q,"choices":[{"index":0,"message":%s}],"usage":%s}`, ask.Model, said, usage)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprintf(w, "data: {\"model\":%q,\"choices\":[{\"index\":0,\"delta\":%s}],\"usage\":null}\n\n",
			ask.Model, said)
		w.(http.Flusher).Flush()
		if ask.Does == "waits" {
			select {
			case <-hold:
			case <-r.Context().Done():
				return
			}
		}
		if ask.StreamOptions != nil {
			fmt.Fprintf(w, "data: {\"model\":%q,\"choices\":[],\"usage\":%s}\n\n", ask.Model, usage)
		}
		fmt.Fprint(w, "data: [DONE]\n\n")
	}
}

// has waits until the red team has so many units of its budget, tokens and requests left: Envoy
// charges late.
func (s *system) has(budget, tokens, requests string) {
	s.t.Helper()
	left, want := []string(nil), []string{budget, tokens, requests}
	const red = `{"entries":[{"key":"team","value":"red"}`
	for end := time.Now().Add(time.Minute); !slices.Equal(left, want); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			s.t.Fatalf("%q are left, want %q", left, want)
		}
		response, err := http.Post("http://"+s.weir.check+"/json", "application/json", strings.NewReader(
			`{"domain":"models","descriptors":[`+red+`],"hitsAddend":"0"},`+
				red+`,{"key":"tokens","value":"all"}],"hitsAddend":"0"},`+
				red+`,{"key":"at-once","value":"requests"}],"hitsAddend":"0"}]}`))
		if err != nil {
			s.t.Fatal(err)
		}
		var answer struct {
			Statuses []struct{ LimitRemaining int }
		}
		err = json.NewDecoder(response.Body).Decode(&answer)
		response.Body.Close()
		if err != nil {
			s.t.Fatal(err)
		}
		left = nil
		for _, status := range answer.Statuses {
			left = append(left, fmt.Sprint(status.LimitRemaining))
		}
	}
}

func (s *system) asks(body string, want int, fields ...string) {
	s.t.Helper()
	if status, text := s.posts("/v1/chat/completions", "key-of-red", body, fields...); status != want {
		s.t.Errorf("%s: %d %s, want %d", body, status, text[:min(len(text), 300)], want)
	}
}

// Tokens and money are charged as answers tell, or as an estimate.
func TestARealEnvoyChargesWhatAnswersTell(t *testing.T) {
	hold := make(chan struct{})
	s := modelled(t, "models", answers(hold), []string{"concurrent 20", "concurrent 2",
		"requests_per_unit: 5000000", "requests_per_unit: 2000",
		"requests_per_unit: 100000", "requests_per_unit: 50000"})
	s.has("2000", "50000", "2")
	// 1,001 tokens at 0.025 are 26 units, 2,000 at 0.1 are 200
	s.asks(`{"model":"large"}`, 200, "Accept-Encoding", "gzip", "X-Team", "blue")
	s.has("1774", "46999", "2")
	s.asks(`{"model":"small-2026"}`, 200) // 3 and 16
	s.has("1755", "43998", "2")
	s.asks(`{"model":"other"}`, 200) // without a price it costs the most
	s.has("1529", "40997", "2")
	s.asks(`{"model":"small","stream":true,"stream_options":{"include_usage":true}}`, 200)
	s.has("1510", "37996", "2")
	s.asks(`{"model":"small","stream":true}`, 200) // 1,000 tokens of output
	s.has("1502", "36996", "2")
	s.asks(`{"model":"small","does":"fails"}`, 500)
	s.asks(`{"model":"small","does":"tells no type"}`, 200) // nor the model
	s.has("1402", "35996", "2")
	s.asks(`{"model":"small","does":"is long"}`, 200)
	s.has("1383", "32995", "2")
	s.asks(`{"model":"large","does":"is longer"}`, 500)
	s.has("1283", "31995", "2")
	s.asks(`{"model":"small","does":"is compressed"}`, 200, "Accept-Encoding", "gzip")
	s.has("1183", "30995", "2")

	// Two are in flight. Denied requests cost nothing.
	flights := make(chan *http.Response)
	const waits = `{"model":"small","does":"waits","stream":true,"stream_options":{}}`
	for range 2 {
		go func() {
			r, _ := http.NewRequest("POST", s.url+"/v1/chat/completions", strings.NewReader(waits))
			r.Header.Set("Authorization", "Bearer key-of-red")
			response, err := http.DefaultClient.Do(r)
			if err != nil {
				t.Error(err)
			}
			flights <- response
		}()
	}
	first, second := <-flights, <-flights
	if t.Failed() {
		t.FailNow()
	}
	for range 3 {
		s.asks(`{"model":"small"}`, 429)
	}
	s.has("1183", "30995", "0")
	second.Body.Close() // its client leaves, and pays the estimate
	s.has("1175", "29995", "1")
	close(hold)
	io.Copy(io.Discard, first.Body)
	first.Body.Close()
	s.has("1156", "26994", "2")

	for n := 1; n < 9; n++ { // 19 units and 3,001 tokens each
		s.asks(`{"model":"small"}`, 200)
		s.has(fmt.Sprint(1156-19*n), fmt.Sprint(26994-3001*n), "2")
	}
	s.asks(`{"model":"small"}`, 200) // passes the limit: what it costs is known at its end
	s.has("985", "0", "2")
	for range 3 {
		s.asks(`{"model":"small"}`, 429)
	}
	s.has("985", "0", "2")
	r, _ := http.NewRequest("POST", s.url, strings.NewReader(`{"model":"small"}`))
	r.Header.Set("Authorization", "Bearer key-of-red")
	denied, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	denied.Body.Close()
	if denied.StatusCode != 429 || denied.Header.Get("Retry-After") == "" {
		t.Error(denied.StatusCode, denied.Header)
	}
	if status, _ := s.posts("/", "key-of-blue", `{"model":"small"}`); status != 200 {
		t.Error(status)
	}
}

// Why the guide reads tokens by other filters: ai_protocol_manager publishes them as typed
// metadata, which formats do not see. If this fails, the guide becomes simpler.
func TestNoLimitSeesTheTokensOfAIProtocolManager(t *testing.T) {
	text := example(t, "models/envoy.yaml")
	from := strings.Index(text, "                  - name: envoy.filters.http.set_metadata")
	to := strings.Index(text, "                  - name: envoy.filters.http.router")
	const name = "envoy.extensions.filters.http.ai_protocol_manager.v3.AiProtocolManager"
	s := modelled(t, "models", answers(nil), nil, "usage:total", "usage:total_tokens", text[from:to], `
                  - name: envoy.filters.http.ai_protocol_manager
                    typed_config:
                      "@type": type.googleapis.com/`+name+`
                      response_handling:
                        token_usage:
                          metadata_namespace: usage
                          include_unconfigured_routes: true
                          default_llm_protocol: OPENAI_CHAT_COMPLETIONS
`)
	for range 3 {
		s.asks(`{"model":"small"}`, 200)
	}
	s.has("5000000", "100000", "20")
}
