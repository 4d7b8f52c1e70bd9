package shed

import (
	"context"
	"time"

	"github.com/weir-go/weir/internal/proof/overload"
)

// simulated is a Shedder in front of a simulated service.
type simulated struct{ *Shedder[overload.Request] }

func (s simulated) Enter(r overload.Request) (func(bool), bool) {
	permit, _ := s.Acquire(context.Background(), r)
	if permit == nil {
		return nil, false
	}
	return func(failed bool) { permit.End(Result{Route: r.Route, Failed: failed}) }, true
}

const msec = time.Millisecond

func part(n, of int) float64 { return float64(n) / float64(max(1, of)) }
