package parity

import (
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
	"github.com/weir-go/weir/memory"
)

// PerAddressApp returns an application that answers GET /hello by [Hello] behind the limiter that
// the adapter's PerAddress makes of these arguments.
type PerAddressApp[R any] func(
	rate limits.Rate, source func(R) (netip.Addr, error), backend ...backends.Backend,
) (http.Handler, error)

// RunPerAddress tests PerAddress of an adapter. lift is the adapter's.
func RunPerAddress[R any](t *testing.T, app PerAddressApp[R],
	lift func(func(*http.Request) (netip.Addr, error)) func(R) (netip.Addr, error)) {
	source := lift(func(r *http.Request) (netip.Addr, error) {
		return netip.ParseAddr(r.Header.Get("X-Client"))
	})
	must := func(t *testing.T, backend ...backends.Backend) perAddressClient {
		t.Helper()
		handler, err := app(limits.PerMinute(2), source, backend...)
		if err != nil {
			t.Fatal(err)
		}
		return perAddressClient{t, handler}
	}
	run := func(name string, test func(t *testing.T)) {
		t.Run(name, func(t *testing.T) { synctest.Test(t, test) })
	}
	run("each address has a sliding window", func(t *testing.T) {
		ask := must(t)
		ask.wants("192.0.2.1", 200, `"per-address";r=1;t=30`)
		ask.wants("192.0.2.1", 200, `"per-address";r=0;t=61`)
		ask.wants("192.0.2.1", 429, `"per-address";r=0;t=61`)
		ask.wants("192.0.2.2", 200, `"per-address";r=1;t=30`)
		ask.wants("2001:db8::1", 200, `"per-address";r=1;t=30`)
		ask.wants("2001:db8::2", 200, `"per-address";r=0;t=61`) // of the same network
	})
	run("limiters count together on one backend alone", func(t *testing.T) {
		shared := memory.MustNew(memory.Options{})
		first, second, apart := must(t, shared), must(t, shared), must(t)
		first.wants("192.0.2.1", 200, `"per-address";r=1;t=30`)
		second.wants("192.0.2.1", 200, `"per-address";r=0;t=61`)
		first.wants("192.0.2.1", 429, `"per-address";r=0;t=61`)
		apart.wants("192.0.2.1", 200, `"per-address";r=1;t=30`)
	})
	run("a backend that fails is replaced by memory", func(t *testing.T) {
		ask := must(t, &failing{memory.MustNew(memory.Options{}), true})
		ask.wants("192.0.2.1", 200, `"per-address";r=1;t=30`)
		ask.wants("192.0.2.1", 200, `"per-address";r=0;t=61`)
		ask.wants("192.0.2.1", 429, `"per-address";r=0;t=61`)
	})
	run("a request without an address is a 503", func(t *testing.T) {
		must(t).wants("nonsense", 503, "")
	})
	run("every mistake is reported at once", func(t *testing.T) {
		var none *memory.Memory
		for _, test := range []struct {
			backend []backends.Backend
			wants   []string
		}{
			{nil, nil},
			{[]backends.Backend{none}, []string{"core: backend: is a nil "}},
			{[]backends.Backend{none, none}, []string{"nethttp: PerAddress: backend: pass one at most (got 2)"}},
		} {
			_, err := app(limits.PerMinute(0), nil, test.backend...)
			if err == nil {
				t.Fatal("there is no error")
			}
			lines := strings.Split(err.Error(), "\n")
			wants := append(test.wants, "nethttp: PerAddress: source: is nil: ", `core: rule "per-address": limit: `)
			for _, want := range wants {
				if !strings.Contains("\n"+err.Error(), "\n"+want) {
					t.Errorf("no line begins with %q in:\n%v", want, err)
				}
			}
			if len(lines) != len(wants) {
				t.Errorf("got %d mistakes, want %d:\n%v", len(lines), len(wants), err)
			}
		}
		if _, err := app(limits.PerMinute(2), source, nil); err != nil { // as Config.Backend
			t.Errorf("a backend that is nil: %v", err)
		}
	})
}

type perAddressClient struct {
	t   *testing.T
	app http.Handler
}

func (c perAddressClient) wants(address string, status int, field string) {
	c.t.Helper()
	r := httptest.NewRequest("GET", "/hello", nil)
	r.Header.Set("X-Client", address)
	w := httptest.NewRecorder()
	c.app.ServeHTTP(w, r)
	got := w.Header().Get("RateLimit")
	if w.Code != status || got != field {
		c.t.Errorf("%s: status %d and %s, want %d and %s", address, w.Code, got, status, field)
	}
}
