package conform

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/internal/proof/testrun"
	"github.com/weir-go/weir/keyfuncs"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/nethttp"
)

// serves makes this program a server instead of tests. It writes the file of listens once it listens, and
// redirects to the address of redirects.
const (
	serves    = "WEIR_CONFORM_SERVES"
	listens   = "WEIR_CONFORM_LISTENS"
	redirects = "WEIR_CONFORM_REDIRECTS"
)

func TestMain(m *testing.M) {
	if os.Getenv(serves) == "" {
		os.Exit(m.Run())
	}
	limiter := nethttp.MustNew(nethttp.Config{Rules: []nethttp.Rule{{
		Name: "per-key", Limit: limits.SlidingLog(limits.Per(3, 10*time.Second)),
		Key: keyfuncs.Header("X-API-Key"),
	}}})
	handler := limiter.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if to := os.Getenv(redirects); to != "" {
			w.Header().Set("Location", to)
			w.WriteHeader(http.StatusMovedPermanently)
		}
	}))
	l, err := net.Listen("tcp", "127.0.0.1:"+os.Getenv("PORT"))
	if err != nil {
		panic(err)
	}
	if name := os.Getenv(listens); name != "" {
		if err := os.WriteFile(name, nil, 0o666); err != nil {
			panic(err)
		}
	}
	panic(http.Serve(l, handler))
}

// ownProfile is a profile of this program as a server.
func ownProfile(t *testing.T) *Profile {
	t.Helper()
	testrun.Program(t, "sh")
	if runtime.GOOS == "windows" {
		t.Skip("a profile has a command for sh")
	}
	return fakeProfile(t, "limit: 3 per 10s", "algorithm: sliding-log", "fields: [retry-after, draft-11]",
		"start: "+serves+"=1 exec '"+os.Args[0]+"'")
}

func TestARealServerIsStartedAskedAndEnded(t *testing.T) {
	p := ownProfile(t)
	p.Prepare = "test -x '" + os.Args[0] + "'"
	r, err := Run(t.Context(), p, Options{Only: []string{"status", "syntax", "restart"}, Log: t.Output()})
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []Verdict{Holds, Holds, Bound} {
		if got := r.Results[i]; got.Verdict != want {
			t.Errorf("%s: %s: %s", got.Check, got.Verdict, got.Found)
		}
	}
}

func TestAServerEndsWithItsHost(t *testing.T) {
	h := newLocalHost(ownProfile(t), nil)
	defer h.close()
	s, err := h.start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if bytes, ok := s.memory(); runtime.GOOS == "linux" && (!ok || bytes < 1e6) {
		t.Errorf("its memory is %d, %v", bytes, ok)
	}
	address := strings.TrimSuffix(strings.TrimPrefix(s.url(), "http://"), "/")
	c, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
	h.close()
	if c, err := net.Dial("tcp", address); err == nil {
		c.Close()
		t.Errorf("%s still listens", address)
	}
}

func TestACommandThatFailsIsShownWithWhatItPrinted(t *testing.T) {
	for command, want := range map[string]string{
		"echo no such module; exit 3": "the server has ended (exit status 3): it printed:\nno such module",
	} {
		p := ownProfile(t)
		p.Start = command
		if _, err := Run(t.Context(), p, Options{}); err == nil || err.Error() != want {
			t.Errorf("got %v\nwant %s", err, want)
		}
		p.Prepare = command
		if _, err := Run(t.Context(), p, Options{}); err == nil || !strings.HasPrefix(err.Error(), "prepare: ") ||
			!strings.HasSuffix(err.Error(), "no such module") {
			t.Errorf("got %v", err)
		}
	}
}

func TestAServerThatDoesNotAnswerIsShownWithTheReason(t *testing.T) {
	p := ownProfile(t)
	p.Start = "exec sleep 600"
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err := Run(ctx, p, Options{})
	if err == nil || !strings.HasPrefix(err.Error(), "the server does not answer in time: Get ") ||
		!strings.HasSuffix(err.Error(), ": it has to answer on the port in the variable PORT: it printed nothing") {
		t.Errorf("got %v", err)
	}
	ctx, cancel = context.WithCancel(t.Context())
	cancel()
	if _, err := Run(ctx, p, Options{}); err == nil || !strings.HasPrefix(err.Error(), "the run was interrupted") {
		t.Errorf("got %v", err)
	}
}

// isFree waits until nothing listens at a port.
func isFree(t *testing.T, port int) {
	t.Helper()
	for t.Context().Err() == nil {
		c, err := net.Dial("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err != nil {
			return
		}
		c.Close()
		time.Sleep(10 * time.Millisecond)
	}
}

func TestWhatACommandLeavesInTheBackgroundEndsWithTheRun(t *testing.T) {
	for name, c := range map[string]struct {
		prepare, start string // BACK starts a server in the background
		fails          string // the error has this
	}{
		"start":                {"", "BACK", ""},
		"start that has ended": {"", "BACK; exit 3", "the server has ended (exit status 3): it printed nothing"},
		"prepare":              {"BACK; echo done", "exit 3", "the server has ended (exit status 3)"},
		"prepare that fails":   {"BACK; exit 3", "true", "exit status 3: it printed nothing"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := ownProfile(t)
			p.folder = t.TempDir()
			port, err := freePort()
			if err != nil {
				t.Fatal(err)
			}
			if c.fails == "" {
				p.URL = fmt.Sprintf("http://127.0.0.1:%d/", port)
			}
			back := strings.NewReplacer("BACK", fmt.Sprintf("PORT=%d %s=1 %s=here '%s' >printed 2>&1 & "+
				"until test -e here; do sleep 0.01; done", port, serves, listens, os.Args[0]))
			p.Prepare, p.Start = back.Replace(c.prepare), back.Replace(c.start)
			_, err = Run(t.Context(), p, Options{Only: []string{"status"}})
			if c.fails == "" && err != nil || c.fails != "" && (err == nil || !strings.Contains(err.Error(), c.fails)) {
				t.Errorf("got %v\nwant %s", err, c.fails)
			}
			isFree(t, port)
		})
	}
}

func TestAServerInTheBackgroundGoesOnPrinting(t *testing.T) {
	p := ownProfile(t)
	p.Start = "(" + serves + "=1 '" + os.Args[0] + "' & while sleep 0.01; do echo loud || exit; done; kill $!) & true"
	if _, err := Run(t.Context(), p, Options{Only: []string{"status", "restart"}}); err != nil {
		t.Error(err)
	}
}

func TestACommandThatEndsAtOnceIsToldToStay(t *testing.T) {
	p := ownProfile(t)
	p.Start = "echo started"
	_, err := Run(t.Context(), p, Options{})
	if err == nil || !strings.Contains(err.Error(), "its command has to run as long as it does") {
		t.Errorf("got %v", err)
	}
}

// The page at url redirects to an address at which nothing listens.
func TestAServerThatRedirectsIsAskedAndNotFollowed(t *testing.T) {
	p := ownProfile(t)
	port, err := freePort()
	if err != nil {
		t.Fatal(err)
	}
	p.Start = fmt.Sprintf("%s=http://127.0.0.1:%d/ %s", redirects, port, p.Start)
	r, err := Run(t.Context(), p, Options{Only: []string{"status"}})
	if err != nil || r.Results[0].Verdict != Holds {
		t.Errorf("got %v, %+v", err, r)
	}
}

func TestTheStoreEndsAndStartsAgainAtItsPort(t *testing.T) {
	testrun.Program(t, "redis-server")
	p := ownProfile(t)
	p.Store = "redis"
	h := newLocalHost(p, nil)
	defer h.close()
	if err := h.startStore(t.Context()); err != nil {
		t.Fatal(err)
	}
	address := strings.TrimPrefix(h.storeURL, "redis://")
	if err := h.stopStore(); err != nil {
		t.Fatal(err)
	}
	if c, err := net.Dial("tcp", address); err == nil {
		c.Close()
		t.Error("the store still listens")
	}
	if err := h.startStore(t.Context()); err != nil {
		t.Fatal(err)
	}
	c, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
}
