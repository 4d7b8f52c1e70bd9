package stats_test

import (
	"testing"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/memory"
	"github.com/weir-go/weir/stats"
)

// fleet is a backend that knows how many processes share it.
type fleet struct {
	*memory.Memory
	instances int
}

func (f *fleet) Instances() int { return f.instances }

func TestTheNumberOfInstancesIsThatOfTheFallback(t *testing.T) {
	backend := &fleet{Memory: memory.MustNew(memory.Options{})}
	counts := stats.New(stats.Options{})
	core.MustNew(core.Config[string]{
		Backend: backend, Observer: counts.Limiter("api"),
		Rules: []core.Rule[string]{{
			Name: "user", Limit: limits.FixedWindow(limits.PerMinute(60)),
			Key: func(user string) (string, error) { return user, nil },
		}},
	})
	for _, n := range []int{0, 1, 7} {
		backend.instances = n
		shot := counts.Snapshot()
		if got := shot.Limiters[0].Instances; got != n {
			t.Errorf("the snapshot has %d instances, want %d", got, n)
		}
		for _, m := range shot.Metrics() {
			if m.Name != "weir_instances" {
				continue
			}
			if known := n > 0; known != (len(m.Series) == 1) || known && m.Series[0].Value != float64(n) {
				t.Errorf("of %d instances the series are %+v", n, m.Series)
			}
		}
	}
}
