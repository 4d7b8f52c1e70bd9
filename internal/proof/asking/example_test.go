package asking_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/weir-go/weir/internal/proof/asking"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
	"github.com/weir-go/weir/memory"
)

// A unit is taken by a charge that has an end, and comes back with it.
func ExampleEndingOf() {
	ctx, store := context.Background(), memory.MustNew(memory.Options{})
	day := limits.FixedWindow(limits.PerDay(10))
	decisions := make([]limits.Decision, 1)
	fmt.Println(store.Take(ctx, []backends.Charge{{Scope: "s", Key: "ann", Limit: day, Cost: 3}}, decisions))

	settlements := make([]limits.Settlement, 1)
	end := asking.EndingOf(decisions[0], "ann", day, 3, 1)
	fmt.Println(store.Settle(ctx, []backends.Ending{end}, settlements), settlements[0].Returned)
	// Output:
	// <nil>
	// <nil> 2
}

func ExampleBroken() {
	backend := &asking.Broken{Err: errors.New("connection refused")}
	fmt.Println(backend.Take(context.Background(), nil, nil), backend.Asked)
	// Output: connection refused 1
}
