package main

import (
	"cmp"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"math"
	"net/http"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/weir-go/weir/benchmarks/measure"
	"github.com/weir-go/weir/benchmarks/middleware"
	"github.com/weir-go/weir/benchmarks/store"
	"github.com/weir-go/weir/benchmarks/workload"
	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/limits"
)

// costs holds the latest known cost of a request, in the form that reportCost prints.
//
//go:embed cost.txt
var costs string

// mostCost is the maximal cost of a request, relative to costs.
const mostCost = 1.15

// reportCost prints how long a request with one rule and all defaults takes, as a multiple of a
// loop without weir. It fails if the multiple has grown. So the cost of a new feature to programs
// that do not use it is visible when the feature is made. A ratio to a loop in the same process is
// about the same on any machine.
func reportCost(int) error {
	var errs []error
	before := parseCosts(costs)
	reference := measure.Loop(doReference)
	for _, c := range []struct {
		name string
		loop measure.Loop
	}{
		{"nethttp-allowed", serveWeir(store.Ample, http.StatusNoContent)},
		{"nethttp-denied", serveWeir(store.Scarce, http.StatusTooManyRequests)},
		{"decide", decideWeir()},
	} {
		var ratios []float64
		for range 9 {
			ratios = append(ratios, ratio(c.loop, reference))
		}
		got := measure.Median(ratios)
		fmt.Printf("%s %.2f\n", c.name, got)
		if most := before[c.name] * mostCost; got > most {
			errs = append(errs,
				fmt.Errorf("%s: takes %.2f times as long as the reference, and may take %.2f: "+
					"make it faster, or say in cost.txt that it is worth it", c.name, got, most))
		}
	}
	return errors.Join(errs...)
}

func parseCosts(text string) map[string]float64 {
	parsed := make(map[string]float64)
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		n, err := strconv.ParseFloat(value, 64)
		if err != nil {
			panic(fmt.Sprintf("cost.txt: %q: want a name and a number", line))
		}
		parsed[name] = n
	}
	return parsed
}

// serveWeir returns a loop that serves requests through weir's middleware.
func serveWeir(q store.Quota, status int) measure.Loop {
	var h http.Handler
	for _, c := range middleware.Contestants() {
		if c.Kind == middleware.Weir {
			h = c.Wrap(q,
				http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
					w.WriteHeader(http.StatusNoContent)
				}))
			break
		}
	}
	w := newDiscard()
	serve(h, w, 1, status)
	return func(_, n int) int { return serve(h, w, n, status) }
}

// decideWeir returns a loop that decides requests of one key.
func decideWeir() measure.Loop {
	limiter := core.MustNew(core.Config[string]{Rules: []core.Rule[string]{{
		Name:  "per-client",
		Limit: limits.TokenBucket(limits.Per(1, store.Ample.Refill), store.Ample.Burst),
		Key:   func(client string) (string, error) { return client, nil },
	}}})
	key := workload.NewKey(0)
	return func(_, n int) (right int) {
		for range n {
			if limiter.Decide(context.Background(), key).Allowed() {
				right++
			}
		}
		return right
	}
}

// doReference does the work of any limiter in the plainest way: it reads a clock, looks up a key,
// counts, and formats the count.
func doReference(at, n int) (right int) {
	for range n {
		seen := referenceCounts[referenceKeys[at%len(referenceKeys)]]
		*seen += int64(time.Since(referenceStart)) & 1023
		referenceText = string(strconv.AppendInt(nil, *seen, 10))
		if referenceText != "" {
			right++
		}
		at++
	}
	return right
}

var (
	referenceStart  = time.Now()
	referenceKeys   = make([]string, 1024)
	referenceCounts = make(map[string]*int64)
	referenceText   string
)

func init() {
	for i := range referenceKeys {
		referenceKeys[i] = workload.NewKey(i)
		referenceCounts[referenceKeys[i]] = new(int64)
	}
}

// ratio returns the time of loop as a multiple of the time of reference. Pieces of both alternate,
// and the fastest piece of each counts.
func ratio(loop, reference measure.Loop) float64 {
	const turns, pieceTime = 60, 2 * time.Millisecond
	runtime.GC()
	fastest := [2]float64{math.Inf(1), math.Inf(1)}
	for range turns {
		for i, loop := range [...]measure.Loop{loop, reference} {
			n, start := 0, time.Now()
			for time.Since(start) < pieceTime {
				n += loop(n, 512)
			}
			fastest[i] = min(fastest[i], float64(time.Since(start))/float64(n))
		}
	}
	return fastest[0] / cmp.Or(fastest[1], 1)
}
