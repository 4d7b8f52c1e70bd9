package main

import (
	"bufio"
	"crypto/ed25519"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/weir-go/weir/internal/proof/testrun"
)

// launch builds the program, runs it until the end of the test, and returns its URL.
func launch(t *testing.T, env ...string) string {
	t.Helper()
	testrun.DependsOnSource(t, "../../..")
	program := filepath.Join(t.TempDir(), "crawlers")
	if out, err := testrun.Command(t, "go", "build", "-o", program, ".").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	cmd := testrun.Command(t, program)
	cmd.Env = append(append(os.Environ(), "ADDR=127.0.0.1:0", "REDIS_URL="), env...)
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
		rest, _ := io.ReadAll(lines)
		t.Fatalf("logged %q (%v), want the address\n%s", line, err, rest)
	}
	return "http://" + addr
}

// exchange is a request that a client has sent, and the answer.
type exchange struct {
	signed, asked bool // whether the request has a signature, and the answer asks for one
	status        int
}

// recorder is a proxy that notes what it passes on.
type recorder struct {
	*httptest.Server
	behind *url.URL

	mu  sync.Mutex
	all []exchange
}

func newRecorder(t *testing.T) *recorder {
	c := &recorder{}
	c.Server = httptest.NewServer(&httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(c.behind)
			r.Out.Host = r.In.Host // which the client has signed
		},
		ModifyResponse: func(a *http.Response) error {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.all = append(c.all, exchange{
				a.Request.Header.Get("Signature") != "", a.Header.Get("Accept-Signature") != "", a.StatusCode,
			})
			return nil
		},
	})
	t.Cleanup(c.Close)
	return c
}

func (c *recorder) seen() []exchange {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.all)
}

// REDbot is an independent client of the drafts: it signs what it is asked to sign.
func TestREDbotIsAnsweredOnceItSigns(t *testing.T) {
	testrun.FullOnly(t, "with REDbot, which pip installs")
	dir := t.TempDir()
	install := testrun.Command(t, "python3", "-m", "pip", "install", "-q", "--target", dir, "redbot==2.7.1")
	if out, err := install.CombinedOutput(); err != nil {
		t.Fatalf("pip: %v\n%s", err, out)
	}
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	key := filepath.Join(dir, "key.pem")
	if err := os.WriteFile(key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	x := base64.RawURLEncoding.EncodeToString(public)
	check := func(url string, args ...string) string {
		t.Helper()
		cmd := testrun.Command(t, "python3", append([]string{"-m", "redbot.cli", url + "/wiki/Weir"}, args...)...)
		cmd.Env = append(os.Environ(), "PYTHONPATH="+dir)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("redbot: %v\n%s", err, out)
		}
		return string(out)
	}
	signs := []string{"--web-bot-auth-key", key, "--web-bot-auth-directory", "https://bot.example"}

	for name, tt := range map[string]struct {
		agents, want string
		args         []string
	}{
		"known":     {"https://bot.example=" + x, "HTTP/1.1 200 OK", signs},
		"unsigned":  {"https://bot.example=" + x, "HTTP/1.1 429 Too Many Requests", nil},
		"elsewhere": {"https://other.example=" + x, "HTTP/1.1 429 Too Many Requests", signs}, // a key of another domain
	} {
		t.Run(name, func(t *testing.T) {
			through := newRecorder(t)
			at := launch(t, "SITE="+through.URL, "AGENTS="+tt.agents, "STRANGERS=1/day")
			if answer, err := http.Get(at); err != nil || answer.StatusCode != http.StatusOK {
				t.Fatalf("the first stranger: %v, %v", answer, err)
			}
			behind, err := url.Parse(at)
			if err != nil {
				t.Fatal(err)
			}
			through.behind = behind
			if out := check(through.URL, tt.args...); !strings.Contains(out, tt.want) {
				t.Errorf("redbot says, without %s:\n%s", tt.want, out)
			}
			all := through.seen()
			t.Log(all)
			if len(all) == 0 || all[0] != (exchange{false, true, http.StatusTooManyRequests}) {
				t.Fatalf("the first of %v: want an unsigned request that is denied and asked to sign", all)
			}
			for _, e := range all {
				if want := e.signed && name == "known"; (e.status == http.StatusOK) != want || !want && !e.asked {
					t.Errorf("%+v", e)
				}
			}
		})
	}
}

func TestAMistakeInTheEnvironmentEndsTheProgram(t *testing.T) {
	for variable, want := range map[string]string{
		"AGENTS=bot.example": "SITE or AGENTS: ", "AGENTS=https://bot.example=x": "SITE or AGENTS: ",
		"SITE=wiki.example": "SITE or AGENTS: ", "STRANGERS=many": "STRANGERS: ", "REDIS_URL=x": "REDIS_URL: ",
	} {
		name, value, _ := strings.Cut(variable, "=")
		t.Setenv(name, value)
		err := run(t.Context())
		if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: %v", variable, err)
		}
		t.Setenv(name, "")
	}
}
