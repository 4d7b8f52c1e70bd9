package connectmw_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/weir-go/weir/connectmw"
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
