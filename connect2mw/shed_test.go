package connect2mw_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"connectrpc.com/connect/v2"

	"github.com/weir-go/weir/connect2mw"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/shed"
)

// The handler calls a service that sheds, and returns an error of its code. A transport hides the code
// of an error that came from behind.
func TestCallsThatServicesBehindShedAreShedAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, c := range []struct {
			err  *connect.Error
			want bool
		}{
			{connect.NewError(connect.CodeUnavailable, "behind"), true},
			{connect.NewError(connect.CodeUnavailable, "behind").WithRemote(), false},
			{connect.NewError(connect.CodeInternal, "behind"), false},
		} {
			s := shed.MustNew(shed.Options[*connect2mw.Call]{Needs: func(*connect2mw.Call) string { return "all" }})
			calls := 0
			client := way{inProcess: true}.open(t, serving(connect2mw.Shed(s),
				unary(greet, func(context.Context, string) (string, error) {
					calls++
					return "", c.err
				})))
			for range 100 {
				if _, err := ask(t.Context(), client, greet, ""); err == nil {
					t.Fatal("a call without an error")
				}
			}
			if got := calls < 50; got != c.want {
				t.Errorf("%v: %d of 100 calls reach the handler", c.err, calls)
			}
		}
	})
}

// A client causes CodeUnavailable by calls that the limiter denies or cannot decide.
func TestWhatALimiterInsideAnswersShedsNoCallAhead(t *testing.T) {
	full := everybody(limits.TokenBucket(limits.PerDay(1), 1))
	full[0].DenyAs503 = true
	undecided := everybody(limits.TokenBucket(limits.PerDay(1), 1))
	undecided[0].Key = func(*connect2mw.Call) (string, error) { return "", errors.New("no key") }
	for what, rules := range map[string][]connect2mw.Rule{"denied": full, "undecided": undecided} {
		s := shed.MustNew(shed.Options[*connect2mw.Call]{
			Limit: 100, Needs: func(*connect2mw.Call) string { return "all" },
		})
		server := connect.NewServer(connect2mw.Shed(s), newLimiter(t, connect2mw.Config{Rules: rules}).Interceptor())
		server.Register(unary(greet, greeter))
		client := way{inProcess: true}.open(t, server)
		for i := range 60 {
			_, err := ask(t.Context(), client, greet, "")
			if i > 0 && connect.CodeOf(err) != connect.CodeUnavailable {
				t.Fatalf("%s: %v, want CodeUnavailable", what, err)
			}
		}
		if c := s.State().Classes[0]; c.Ahead > 0 || c.Admitted != 60 {
			t.Errorf("%s: %d of 60 calls are shed ahead, want none", what, c.Ahead)
		}
	}
}
