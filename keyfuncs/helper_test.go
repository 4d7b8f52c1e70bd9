package keyfuncs_test

import (
	"errors"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"testing"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/keyfuncs"
)

// request has the peer remote and the header lines fields, each "Name: value".
func request(remote string, fields ...string) *http.Request {
	r := &http.Request{
		Method:     http.MethodGet,
		URL:        &url.URL{Path: "/"},
		Header:     http.Header{},
		RemoteAddr: remote,
	}
	for _, field := range fields {
		name, value, _ := strings.Cut(field, ":")
		r.Header.Add(name, strings.TrimPrefix(value, " "))
	}
	return r
}

type key = func(*http.Request) (string, error)

func wantKey(t *testing.T, key key, r *http.Request, want string) {
	t.Helper()
	got, err := key(r)
	if err != nil || got != want {
		t.Errorf("got %q, %v; want %q", got, err, want)
	}
}

func wantAbsent(t *testing.T, key key, r *http.Request) {
	t.Helper()
	if got, err := key(r); got != "" || !errors.Is(err, core.ErrAbsent) {
		t.Errorf("got %q, %v; want core.ErrAbsent", got, err)
	}
}

func wantUnidentified(t *testing.T, key key, r *http.Request) {
	t.Helper()
	got, err := key(r)
	if got != "" || !errors.Is(err, keyfuncs.ErrUnidentified) {
		t.Errorf("got %q, %v; want ErrUnidentified", got, err)
	}
	if errors.Is(err, core.ErrAbsent) {
		t.Errorf("%v must not be core.ErrAbsent, or First would go on", err)
	}
}

// hopCase is a request and the address that a source finds in it; "" means an error.
type hopCase struct {
	name   string
	remote string
	lines  []string
	want   string
}

func (c hopCase) run(t *testing.T, source keyfuncs.AddrSource, header string) {
	t.Helper()
	t.Run(c.name, func(t *testing.T) {
		t.Helper()
		r := request(c.remote)
		if c.lines != nil {
			r.Header[header] = c.lines
		}
		got, err := source(r)
		if c.want == "" {
			if err == nil {
				t.Fatalf("got %v, want an error", got)
			}
			if !errors.Is(err, keyfuncs.ErrUnidentified) || got.IsValid() {
				t.Fatalf("got %v, %v; want no address and ErrUnidentified", got, err)
			}
			return
		}
		if err != nil || got != netip.MustParseAddr(c.want) {
			t.Fatalf("got %v, %v; want %s", got, err, c.want)
		}
	})
}
