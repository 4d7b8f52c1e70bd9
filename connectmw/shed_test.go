package connectmw_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/weir-go/weir/connectmw"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/shed"
)

// The handler calls a service that sheds, and returns its error.
func TestCallsThatServicesBehindShedAreShedAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for code, want := range map[connect.Code]bool{connect.CodeUnavailable: true, connect.CodeInternal: false} {
			s := shed.MustNew(shed.Options[*connectmw.Call]{Needs: func(*connectmw.Call) string { return "all" }})
			calls := 0
			call := connectmw.Shed(s).WrapUnary(func(context.Context, connect.AnyRequest) (connect.AnyResponse, error) {
				calls++
				return nil, connect.NewError(code, errors.New("behind"))
			})
			for range 100 {
				if _, err := call(t.Context(), connect.NewRequest(wrapperspb.String(""))); err == nil {
					t.Fatal("a call without an error")
				}
			}
			if got := calls < 50; got != want {
				t.Errorf("%v: %d of 100 calls reach the handler", code, calls)
			}
		}
	})
}

// A client causes CodeUnavailable by calls that the limiter denies or cannot decide.
func TestWhatALimiterInsideAnswersShedsNoCallAhead(t *testing.T) {
	full := everybody(limits.TokenBucket(limits.PerDay(1), 1))
	full[0].DenyAs503 = true
	undecided := everybody(limits.TokenBucket(limits.PerDay(1), 1))
	undecided[0].Key = func(*connectmw.Call) (string, error) { return "", errors.New("no key") }
	for what, rules := range map[string][]connectmw.Rule{"denied": full, "undecided": undecided} {
		s := shed.MustNew(shed.Options[*connectmw.Call]{
			Limit: 100, Needs: func(*connectmw.Call) string { return "all" },
		})
		inner := newLimiter(t, connectmw.Config{Rules: rules}).Interceptor()
		call := connectmw.Shed(s).WrapUnary(inner.WrapUnary(
			func(context.Context, connect.AnyRequest) (connect.AnyResponse, error) {
				return connect.NewResponse(wrapperspb.String("")), nil
			}))
		for i := range 60 {
			_, err := call(t.Context(), connect.NewRequest(wrapperspb.String("")))
			if i > 0 && connect.CodeOf(err) != connect.CodeUnavailable {
				t.Fatalf("%s: %v, want CodeUnavailable", what, err)
			}
		}
		if c := s.State().Classes[0]; c.Ahead > 0 || c.Admitted != 60 {
			t.Errorf("%s: %d of 60 calls are shed ahead, want none", what, c.Ahead)
		}
	}
}
