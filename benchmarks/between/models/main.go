// Models puts a gateway of language models before weir, or behind it, and prints what a limited user
// and an innocent one get: one row of a Markdown table for each run.
//
//	models -gateway 'LiteLLM 1.110.2' -setting 'as it comes' -told 8s -- litellm --config gateway.yaml
//
// It starts two addresses of one model, $A and $B, and weir before them: a limit of 1,000 tokens by
// user, of which the limited one uses all by its first request. The gateway is a program of its own
// and listens on $PORT of 127.0.0.1. Text such as $A is replaced in its arguments, in the fields of
// -header and in the file of -config, which becomes $CONFIG.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/weir-go/weir/headers"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/nethttp"
	"github.com/weir-go/weir/tokens"
)

const (
	startTime = 2 * time.Minute // of a gateway
	interval  = 250 * time.Millisecond
	used      = 1000 // tokens of an answer
)

var options struct {
	gateway, setting, header, config, told string
	watch, max                             time.Duration
	denials                                int
	as503, oneLimited, before              bool
}

func main() {
	flag.StringVar(&options.gateway, "gateway", "", "name and release of the gateway")
	flag.StringVar(&options.setting, "setting", "", "what is set")
	flag.StringVar(&options.header, "header", "", "a field of requests to the gateway, as name: value")
	flag.StringVar(&options.config, "config", "", "a file for the gateway, which is copied to $CONFIG")
	flag.StringVar(&options.told, "told", "8s", "the window of the limit, after which it ends")
	flag.DurationVar(&options.watch, "watch", 12*time.Second, "how long the innocent user is watched")
	flag.DurationVar(&options.max, "max", 0, "MaxRetryAfter")
	flag.BoolVar(&options.as503, "as503", false, "deny by DenyAs503")
	flag.BoolVar(&options.oneLimited, "second", false, "$B is another model, which is not limited")
	flag.IntVar(&options.denials, "denials", 1, "requests of the limited user before the other is watched")
	flag.BoolVar(&options.before, "before", false, "weir stands before the gateway")
	head := flag.Bool("head", false, "print the head of the table, and run nothing")
	flag.Parse()
	if *head {
		fmt.Println("| gateway | setting | weir tells | the limited user gets | requests to weir " +
			"| the innocent user is refused | and told |\n|---|---|---|---|---|---|---|")
		return
	}
	if err := run(flag.Args()); err != nil {
		fmt.Fprintf(os.Stderr, "%s, %s: %v\n", options.gateway, options.setting, err)
		os.Exit(1)
	}
}

// Model answers as OpenAI's chat completions do, and says its name.
type model struct{ name string }

func (m *model) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var call struct {
		Stream  bool
		Options struct {
			Usage bool `json:"include_usage"`
		} `json:"stream_options"`
	}
	if err := json.NewDecoder(r.Body).Decode(&call); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	usage := fmt.Sprintf(`{"prompt_tokens":%d,"completion_tokens":%d,"total_tokens":%d}`,
		used-100, 100, used)
	if !call.Stream {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"id":"c","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,`+
			`"message":{"role":"assistant","content":"%s"},"finish_reason":"stop"}],"usage":%s}`, m.name, usage)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	const event = `data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[%s]%s}` + "\n\n"
	fmt.Fprintf(w, event, `{"index":0,"delta":{"role":"assistant","content":"`+m.name+`"},"finish_reason":null}`, "")
	fmt.Fprintf(w, event, `{"index":0,"delta":{},"finish_reason":"stop"}`, "")
	if call.Options.Usage {
		fmt.Fprintf(w, event, "", `,"usage":`+usage)
	}
	io.WriteString(w, "data: [DONE]\n\n")
}

type userKey struct{}

// identified knows the user by the member of the body, which gateways pass on.
func identified(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 1<<20))
		var call struct{ User string }
		if err != nil || json.Unmarshal(body, &call) != nil {
			http.Error(w, "no JSON", http.StatusBadRequest)
			return
		}
		if os.Getenv("TRACE") != "" {
			fmt.Fprintln(os.Stderr, r.URL, r.Header, string(body))
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), userKey{}, call.User)))
	})
}

func byUser(r *http.Request) (string, error) { return r.Context().Value(userKey{}).(string), nil }

// charges are the tokens of each request that has ended.
type charges struct {
	mu  sync.Mutex
	all []int64
}

func (c *charges) observe(_ *http.Request, call *tokens.Call) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all = append(c.all, call.Tokens())
}

// limiter returns the limits by user around a model or a gateway.
func limiter(observe func(*http.Request, *tokens.Call)) (func(http.Handler) http.Handler, error) {
	window, err := time.ParseDuration(options.told)
	if err != nil {
		return nil, err
	}
	meter, err := tokens.New(tokens.Config{Output: 100, Observe: observe})
	if err != nil {
		return nil, err
	}
	l, err := nethttp.New(nethttp.Config{
		Rules: []nethttp.Rule{tokens.ByCount(nethttp.Rule{
			Name: "tokens", Key: byUser, DenyAs503: options.as503,
			LimitFor: func(_ *http.Request, user string) (limits.Limit, error) {
				if user == "limited" {
					return limits.AnchoredWindow(limits.Per(used, window)), nil
				}
				return limits.AnchoredWindow(limits.Per(1000*used, window)), nil
			},
		})},
		Headers: headers.Options{
			Formats:       []headers.Format{headers.IETF, headers.OpenAI},
			MaxRetryAfter: options.max,
		},
	})
	if err != nil {
		return nil, err
	}
	return func(next http.Handler) http.Handler {
		return identified(meter.Handler(tokens.ChatCompletions, l.Handler, next))
	}, nil
}

// counted counts the requests of the limited user that reach next.
func counted(n *atomic.Int64, next http.Handler) http.Handler {
	return identified(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if user, _ := byUser(r); user == "limited" {
			n.Add(1)
		}
		next.ServeHTTP(w, r)
	}))
}

// serve serves handler on a free port until the program ends, and returns its address.
func serve(handler http.Handler) (string, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	go http.Serve(listener, handler)
	return "http://" + listener.Addr().String(), nil
}

func run(command []string) error {
	seen, spent := &atomic.Int64{}, &charges{}
	limited, err := limiter(spent.observe)
	if err != nil {
		return err
	}
	var first, second http.Handler = &model{name: "first"}, &model{name: "second"}
	if !options.before {
		first = counted(seen, limited(first))
		if !options.oneLimited {
			second = counted(seen, limited(second))
		}
	}
	a, err := serve(first)
	if err != nil {
		return err
	}
	b, err := serve(second)
	if err != nil {
		return err
	}
	port, err := freePort()
	if err != nil {
		return err
	}
	at := "http://127.0.0.1:" + port
	replaced := func(s string) string {
		return strings.NewReplacer("$A", a, "$B", b, "$PORT", port, "$CONFIG", configName()).Replace(s)
	}
	stop, ended, err := start(command, replaced, []string{"A=" + a, "B=" + b, "PORT=" + port})
	if err != nil {
		return err
	}
	defer stop()
	if err := listens(port, ended); err != nil {
		return err
	}
	c := &user{at: at, header: replaced(options.header)}
	if options.before {
		target, _ := url.Parse(at)
		gateway := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) }}
		if c.at, err = serve(counted(seen, limited(gateway))); err != nil {
			return err
		}
	}
	return c.compare(seen, spent)
}

func configName() string {
	return filepath.Join(os.TempDir(), fmt.Sprintf("models-%d.yaml", os.Getpid()))
}

// start starts the gateway. Its output goes to gateway.log.
func start(command []string, replaced func(string) string, env []string) (stop func(), ended chan error, err error) {
	if options.config != "" {
		text, err := os.ReadFile(options.config)
		if err != nil {
			return nil, nil, err
		}
		if err := os.WriteFile(configName(), []byte(replaced(string(text))), 0o600); err != nil {
			return nil, nil, err
		}
	}
	for i := range command {
		command[i] = replaced(command[i])
	}
	out, err := os.Create("gateway.log")
	if err != nil {
		return nil, nil, err
	}
	process := exec.Command(command[0], command[1:]...)
	process.Env = append(append(os.Environ(), "NO_PROXY=127.0.0.1", "no_proxy=127.0.0.1"), env...)
	process.Stdout, process.Stderr = out, out
	process.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := process.Start(); err != nil {
		return nil, nil, err
	}
	ended = make(chan error, 1)
	go func() { ended <- process.Wait() }()
	return func() {
		syscall.Kill(-process.Process.Pid, syscall.SIGKILL) // the group that Setpgid made for it
		os.Remove(configName())
	}, ended, nil
}

func freePort() (string, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer listener.Close()
	return strconv.Itoa(listener.Addr().(*net.TCPAddr).Port), nil
}

// listens waits until there is a server on port.
func listens(port string, ended chan error) error {
	for deadline := time.Now().Add(startTime); ; {
		select {
		case err := <-ended:
			return fmt.Errorf("it has ended: %v: see gateway.log", err)
		case <-time.After(100 * time.Millisecond):
		}
		conn, err := net.Dial("tcp", "127.0.0.1:"+port)
		if err == nil {
			return conn.Close()
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("it does not listen after %v: see gateway.log", startTime)
		}
	}
}

// User asks the gateway.
type user struct{ at, header string }

type answer struct {
	status int
	header http.Header
	body   string
	took   time.Duration
}

func (a answer) String() string {
	if a.status == 0 {
		return "no answer, " + a.body
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%d after %.1f s", a.status, a.took.Seconds())
	if a.status == http.StatusOK {
		return b.String()
	}
	n := 0
	for _, name := range []string{"Retry-After", "RateLimit", "X-Ratelimit-Remaining-Tokens", "Llm_provider-Retry-After"} {
		if value := a.header.Get(name); value != "" {
			n++
			fmt.Fprintf(&b, ", `%s: %s`", name, value)
		}
	}
	if n == 0 {
		b.WriteString(", no field")
	}
	return b.String()
}

// text is what the answer says, for a cell of a table.
func (a answer) text() string {
	var said struct {
		Error struct{ Message string }
	}
	s := a.body
	if json.Unmarshal([]byte(s), &said) == nil && said.Error.Message != "" {
		s = said.Error.Message
	}
	s = strings.NewReplacer("|", "¦", "\n", " ", "`", "'").Replace(s)
	if r := []rune(s); len(r) > 110 {
		s = string(r[:110]) + "…"
	}
	return s
}

func (u *user) ask(name string, stream bool) answer {
	extra := ""
	if stream {
		extra = `,"stream":true,"stream_options":{"include_usage":true}`
	}
	body := fmt.Sprintf(`{"model":"m","user":%q,"max_tokens":100,`+
		`"messages":[{"role":"user","content":"hi"}]%s}`, name, extra)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	began := time.Now()
	r, err := http.NewRequestWithContext(ctx, "POST", u.at+"/v1/chat/completions", strings.NewReader(body))
	if err != nil {
		return answer{body: err.Error()}
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Authorization", "Bearer sk-1")
	if name, value, found := strings.Cut(u.header, ": "); found {
		r.Header.Set(name, value)
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		return answer{body: err.Error(), took: time.Since(began)}
	}
	defer response.Body.Close()
	text, _ := io.ReadAll(response.Body)
	return answer{response.StatusCode, response.Header, string(text), time.Since(began)}
}

// compare has the limited user denied, and watches the innocent one meanwhile and after.
func (u *user) compare(seen *atomic.Int64, spent *charges) error {
	for _, name := range []string{"innocent", "limited"} { // the last request uses all
		for try := 0; ; try++ { // some gateways listen before they answer
			if a := u.ask(name, false); a.status == http.StatusOK {
				break
			} else if try == 40 || name == "limited" {
				return fmt.Errorf("the first request of the %s user: %v: %s", name, a, a.text())
			}
			time.Sleep(interval)
		}
	}
	for range options.denials - 1 {
		u.ask("limited", false)
	}
	seen.Store(0)
	denial := make(chan answer, 1)
	go func() { denial <- u.ask("limited", false) }()
	began := time.Now()
	time.Sleep(interval / 2)
	var refused, second, asked int
	var from, until time.Duration
	var told answer
	byB := false
	for time.Since(began) < options.watch {
		now := time.Since(began)
		a := u.ask("innocent", false)
		asked++
		switch {
		case a.status != http.StatusOK:
			if refused++; refused == 1 {
				from, told = now, a
			}
			until = 0
		case refused > 0 && until == 0:
			until = now
		}
		if byB = a.status == http.StatusOK && strings.Contains(a.body, "second"); byB {
			second++
		}
		time.Sleep(interval)
	}
	d := <-denial
	said := "-"
	if refused > 0 {
		said = told.text()
		if s := told.header.Get("Retry-After"); s != "" {
			said = "`Retry-After: " + s + "`; " + said
		}
	}
	lasted := "not"
	switch {
	case refused > 0 && until == 0:
		lasted = fmt.Sprintf("all %.0f s that it was watched", (options.watch - from).Seconds())
	case refused > 0:
		lasted = fmt.Sprintf("%.1f s", (until - from).Seconds())
	}
	if options.oneLimited && second > 0 {
		lasted += fmt.Sprintf("; the second model serves it, %d of %d requests", second, asked)
		if byB {
			lasted += ", to the end"
		}
	}
	if options.before {
		u.ask("innocent", true)
		spent.mu.Lock()
		lasted += fmt.Sprintf("; charged %d tokens, and %d for a stream, of %d", spent.all[0],
			spent.all[len(spent.all)-1], used)
		spent.mu.Unlock()
	}
	window, _ := time.ParseDuration(options.told)
	tells := fmt.Sprintf("429, `Retry-After: %.0f`", window.Seconds())
	if options.max > 0 && window > options.max {
		tells = "429, no `Retry-After`"
	}
	if options.as503 {
		tells = strings.Replace(tells, "429", "503", 1)
	}
	fmt.Println("|", strings.Join([]string{options.gateway, options.setting, tells, d.String(),
		strconv.FormatInt(seen.Load(), 10), lasted, said}, " | "), "|")
	return nil
}
