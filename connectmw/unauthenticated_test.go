package connectmw_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/weir-go/weir/connectmw"
	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/limits"
)

var errNoToken = errors.New("the token is missing or wrong")

// Unavailable means "again in a second", so clients repeat what can never succeed.
func TestACallWithoutATokenIsNotToldToWait(t *testing.T) {
	for name, c := range map[string]struct {
		denied func(*connectmw.Call, core.Outcome, *connect.Error) error
		code   connect.Code
		waits  bool
	}{
		"by default": {nil, connect.CodeUnavailable, true},
		"unauthenticated": {func(_ *connectmw.Call, o core.Outcome, _ *connect.Error) error {
			if errors.Is(o.Err(), errNoToken) {
				return connect.NewError(connect.CodeUnauthenticated, errNoToken)
			}
			return nil
		}, connect.CodeUnauthenticated, false},
		"Unavailable of the program's own": {func(*connectmw.Call, core.Outcome, *connect.Error) error {
			return connect.NewError(connect.CodeUnavailable, errors.New("soon"))
		}, connect.CodeUnavailable, true},
	} {
		t.Run(name, func(t *testing.T) {
			l := connectmw.MustNew(connectmw.Config{
				Rules: []connectmw.Rule{{Name: "user", Limit: limits.FixedWindow(limits.PerMinute(100)),
					Key: func(*connectmw.Call) (string, error) {
						return "", errNoToken
					}}},
				Denied: c.denied,
			})
			const path = "/shop.v1.Orders/Place"
			mux := http.NewServeMux()
			mux.Handle(path,
				connect.NewUnaryHandler(path,
					func(context.Context, *connect.Request[message]) (*connect.Response[message], error) {
						return connect.NewResponse(wrapperspb.String("served")), nil
					}, connect.WithInterceptors(l.Interceptor())))
			server := httptest.NewServer(mux)
			defer server.Close()
			_, err := connect.NewClient[message, message](server.Client(), server.URL+path).CallUnary(t.Context(),
				connect.NewRequest(wrapperspb.String("order")))
			failed := new(connect.Error)
			if !errors.As(err, &failed) || failed.Code() != c.code ||
				(failed.Meta().Get("Retry-After") != "") != c.waits {
				t.Errorf("%v, fields %v; want %v, waits %t", err, failed.Meta(), c.code, c.waits)
			}
		})
	}
}
