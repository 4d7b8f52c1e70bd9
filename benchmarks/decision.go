package main

import (
	"fmt"
	"os"
	"runtime"

	"github.com/weir-go/weir/benchmarks/measure"
	"github.com/weir-go/weir/benchmarks/store"
	"github.com/weir-go/weir/benchmarks/workload"
)

// The columns of the group decision. A parallel column runs on as many goroutines as there are
// processors.
var decisionHeads = []string{
	"hot key", "hot parallel", "hot denied",
	"2,000 keys", "2,000 parallel",
	"1M uniform", "uniform parallel", "1M Zipf", "Zipf parallel",
}

// workDecision is a worker that measures one contestant.
func workDecision(name string) {
	c := contestant(name)
	one, uniform, zipf := workload.One(), workload.Uniform(million), workload.Zipf(million)
	few := workload.Uniform(fewKeys)

	hot, spent := ready(c, store.Ample, 1), ready(c, store.Scarce, 1)
	some := ready(c, store.Lasting, fewKeys)
	many := ready(c, store.Lasting, million)
	runtime.GC()
	work(nil, []*measure.Meter{
		serial(hot, one, true),
		parallel(hot, one, true),
		serial(spent, one, false),
		serial(some, few, true),
		parallel(some, few, true),
		serial(many, uniform, true),
		parallel(many, uniform, true),
		serial(many, zipf, true),
		parallel(many, zipf, true),
	})
	mustHold(many, million) // still: no key has run out or been displaced
}

// ready returns a store in its steady state with n live keys that have each taken one unit. For few
// keys it uses the contestant's own defaults.
func ready(c store.Contestant, q store.Quota, n int) store.Store {
	room := 0
	if n > fewKeys {
		room = n
	}
	s := c.Open(q, room)
	d := s.Decider()
	for i := range n {
		if !d.Allow(workload.NewKey(i)) && c.Kind != store.Harness {
			fail("%s: the first request of key %d is denied", c.Name, i)
		}
	}
	if settler, ok := s.(store.Settler); ok {
		settler.Settle()
	}
	mustHold(s, n)
	return s
}

// mustHold fails if s counts its live keys and the number is not n.
func mustHold(s store.Store, n int) {
	if counter, ok := s.(store.Counter); ok && counter.Live() != n {
		fail("%d keys are live instead of %d", counter.Live(), n)
	}
}

// fail ends a child whose reading would not measure what it should.
func fail(format string, args ...any) {
	fmt.Fprintf(os.Stderr, format+"\n", args...)
	os.Exit(1)
}

func serial(s store.Store, seq *workload.Sequence, allowed bool) *measure.Meter {
	return measure.NewMeter(decide(s.Decider(), seq, allowed))
}

func parallel(s store.Store, seq *workload.Sequence, allowed bool) *measure.Meter {
	loops := make([]measure.Loop, runtime.GOMAXPROCS(0))
	for i := range loops {
		loops[i] = decide(s.Decider(), seq, allowed)
	}
	return measure.NewParallelMeter(loops, seq.Len()/len(loops))
}

// decide returns the timed loop: it decides the keys of seq one after the other.
func decide(d store.Decider, seq *workload.Sequence, allowed bool) measure.Loop {
	return func(at, n int) (right int) {
		at %= seq.Len()
		for range n {
			if d.Allow(seq.Key(at)) == allowed {
				right++
			}
			if at++; at == seq.Len() {
				at = 0
			}
		}
		return right
	}
}
