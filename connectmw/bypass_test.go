package connectmw_test

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/weir-go/weir/connectmw"
	"github.com/weir-go/weir/internal/proof/bypass"
	"github.com/weir-go/weir/policy"
)

// A procedure without side effects is called by GET as well.
func TestNoSpellingOfAMethodPassesALimit(t *testing.T) {
	bypass.Calls(t, func(t *testing.T, file string) func(method, path string) bool {
		rules := bypass.Rules(t, file, policy.Names[*connectmw.Call]{Request: (*connectmw.Call).Request})
		l := newLimiter(t, connectmw.Config{Rules: rules})
		const path = "/parity.v1.First/Unary"
		var served atomic.Int32
		mux := http.NewServeMux()
		mux.Handle(path,
			connect.NewUnaryHandler(path,
				func(context.Context, *connect.Request[message]) (*connect.Response[message], error) {
					served.Add(1)
					return connect.NewResponse(wrapperspb.String("hello")), nil
				}, connect.WithInterceptors(l.Interceptor()),
				connect.WithIdempotency(connect.IdempotencyNoSideEffects)))
		c, server := start(t, mux, false)
		return func(method, target string) bool {
			before := served.Load()
			r, err := http.NewRequest(method, server, strings.NewReader(`"x"`))
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("Content-Type", "application/json")
			r.URL.Opaque = target
			if method == "GET" {
				r.Body, r.ContentLength = nil, 0
				r.URL.RawQuery = url.Values{"connect": {"v1"}, "encoding": {"json"}, "message": {`"x"`}}.Encode()
			}
			if response, err := c.Do(r); err == nil {
				response.Body.Close()
			}
			return served.Load() > before
		}
	})
}
