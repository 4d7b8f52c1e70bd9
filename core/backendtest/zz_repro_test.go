package backendtest_test

import (
	"context"
	"testing"
	"time"

	"github.com/weir-go/weir/core"
)

func TestRepro(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	m := core.NewMemory(core.MemoryOptions{MaxKeys: 1, Clock: func() time.Time { return now }})
	take := func(key string, l core.Limit, n int64) core.Decision {
		out := make([]core.Decision, 1)
		if err := m.Take(context.Background(), []core.Charge{{Scope: "s", Key: key, Limit: l, Cost: n}}, out); err != nil {
			t.Fatal(err)
		}
		t.Logf("%s %d %v %v: %+v", key, n, l.Algorithm(), now.Format("15:04:05"), out[0])
		return out[0]
	}
	slow := core.TokenBucket(core.Per(1, 100*time.Second), 10)
	fast := core.FixedWindow(core.Per(10, time.Second))
	take("victim", slow, 5)
	for i := range 40 {
		take(string(rune('a'+i)), slow, 1)
	}
	now = now.Add(-100 * time.Second)
	take("victim", fast, 1) // decided at 00:00:00, 6 of 10 are in use until 00:00:01
	now = now.Add(time.Second)
	d := take("victim", fast, 5) // still held at 00:00:00: 4 of 10 remain
	if d.Allowed {
		t.Error("allowed 5 more")
	}
}
