package conform

import (
	"context"
	"net"
	"net/http"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/internal/proof/testrun"
	"github.com/weir-go/weir/keyfuncs"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/nethttp"
)

// serves makes this program a server instead of tests.
const serves = "WEIR_CONFORM_SERVES"

func TestMain(m *testing.M) {
	if os.Getenv(serves) == "" {
		os.Exit(m.Run())
	}
	limiter := nethttp.MustNew(nethttp.Config{Rules: []nethttp.Rule{{
		Name: "per-key", Limit: limits.SlidingLog(limits.Per(3, 10*time.Second)),
		Key: keyfuncs.Header("X-API-Key"),
	}}})
	handler := limiter.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	if err := http.ListenAndServe("127.0.0.1:"+os.Getenv("PORT"), handler); err != nil {
		panic(err)
	}
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
