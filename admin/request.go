package admin

import (
	"cmp"
	"context"
	"net"
	"net/http"
	"net/netip"
	"strings"

	"github.com/weir-go/weir/internal/ground/token"
	"github.com/weir-go/weir/internal/http/operator"
)

// buildRequest returns the request that a person wrote.
func buildRequest(ctx context.Context, t *operator.Request) (*http.Request, error) {
	bad := func(why string) error { return &failure{http.StatusBadRequest, why} }
	place := cmp.Or(t.Path, "/")
	if !strings.HasPrefix(place, "/") {
		return nil, bad("path: must begin with a slash")
	}
	r, err := http.NewRequestWithContext(ctx, cmp.Or(t.Method, http.MethodGet),
		"http://"+cmp.Or(t.Host, "localhost")+place, http.NoBody)
	if err != nil {
		return nil, bad("method, host or path: not those of a request")
	}
	r.RequestURI, r.Pattern = place, t.Route
	r.URL.Scheme, r.URL.Host = "", "" // as servers parse requests
	if t.Address != "" {
		address, err := netip.ParseAddr(strings.TrimSpace(t.Address))
		if err != nil {
			return nil, bad("address: must be an IP address without a port")
		}
		r.RemoteAddr = net.JoinHostPort(address.String(), "1")
	}
	for _, field := range t.Headers {
		name := strings.TrimSpace(field[0])
		if !token.Is(name) {
			return nil, bad("headers: a line must be a name, a colon and a value")
		}
		if strings.EqualFold(name, "Host") {
			r.Host = strings.TrimSpace(field[1])
			continue
		}
		r.Header.Add(name, strings.TrimSpace(field[1]))
	}
	return r, nil
}
