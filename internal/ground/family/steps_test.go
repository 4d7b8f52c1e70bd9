package family

import (
	"testing"

	"github.com/weir-go/weir/internal/ground/steps"
)

func TestSteps(t *testing.T) {
	tables, err := steps.All()
	if err != nil {
		t.Fatal(err)
	}
	for _, table := range tables {
		if table.StepsBack() {
			continue // what a clock that steps back does to a state is for stores
		}
		t.Run(table.Name, func(t *testing.T) {
			for i := range table.Phases[0].Under {
				specifyTable(t, table, i)
			}
		})
	}
}

// specifyTable makes the steps of a table with a new key under its i-th limits. A limit that does
// not carry over ends them: stores convert a state.
func specifyTable(t *testing.T, table steps.Table, i int) {
	t.Helper()
	k := newKey(table.Phases[0].Under[i])
	k.begin = table.Start.UnixMicro()
	if k.Drains {
		k.lasts = table.Lasts.Microseconds()
	}
	writer := k.limit // of the state
	for _, phase := range table.Phases {
		before, begins := k.Numbers, k.begin+phase.Steps[0].At.Microseconds()
		if writer.FreshAt(k.used) <= begins && !k.Held {
			k.used = Used{} // as a store may do
		}
		k.limit, k.Numbers = Compile(phase.Under[i])
		if !k.Carries(&before) || k.Values && k.Period != before.Period {
			return
		}
		if k.Given.Algorithm() != writer.numbers().Given.Algorithm() { // of the same kind
			k.used = k.limit.Adopt(writer.Plain(k.used, begins))
			writer = k.limit
		}
		for _, s := range phase.Steps {
			found := k.used
			if k.makes(t, s); k.used != found {
				writer = k.limit
			}
		}
	}
}
