package shed

import (
	"slices"

	"github.com/weir-go/weir/internal/proof/overload"
)

// Loads are multiples of the capacity.
var Loads = []float64{0.5, 0.8, 1, 1.5, 2, 3, 5}

// RetriedLoad is the load in Judgement.Retried, without retries.
const RetriedLoad = 1.5

// Limits are the fixed limits of the sweep.
var Limits = []int{3, 5, 7, 10, 14, 20, 28, 40, 56, 80, 112, 160, 224, 320}

// Cell is the mean over the runs of one limiter under one load.
type Cell struct {
	Goodput   float64 // answers within the SLO per second
	False     float64 // share of requests that were shed without need
	P50, P99  float64 // ms
	Shed      float64 // share of all requests
	FirstShed float64 // seconds from the step to the first shed request; -1: never
	AfterEnd  float64 // seconds from the end to the last shed request; -1: none
}

// Row has a Cell for each load.
type Row []Cell

// Judgement is the result of a scenario.
type Judgement struct {
	Scenario *overload.Scenario `json:"-"`
	Best     int                // the best fixed limit
	Fixed    Row
	Rows     map[string]Row
	// Retried is the result with clients that retry once after a shed, a failure or a timeout, at
	// RetriedLoad. The best fixed limit has the name "".
	Retried map[string]Cell
	// Critical is the share of critical requests that weir answered within the SLO at 3 times the
	// capacity. All is that share of all requests.
	Critical, All float64
}

// Bubble runs f in a bubble of testing/synctest.
type Bubble func(f func())

// Judge runs a scenario: the sweep of fixed limits with the first seed, everything else with all
// seeds.
func Judge(s *overload.Scenario, seeds []uint64, bubble Bubble) *Judgement {
	j := &Judgement{Scenario: s, Rows: make(map[string]Row), Retried: make(map[string]Cell)}
	row := func(seeds []uint64, limiter func() overload.Limiter) (row Row) {
		for _, load := range Loads {
			row = append(row, measure(s, overload.Options{Load: load}, seeds, limiter, bubble))
		}
		return row
	}
	sweep := make([]Row, len(Limits))
	for i, limit := range Limits {
		sweep[i] = row(seeds[:1], func() overload.Limiter { return &overload.Fixed{Limit: limit} })
	}
	j.Best = Limits[best(sweep)]
	j.Fixed = row(seeds, func() overload.Limiter { return &overload.Fixed{Limit: j.Best} })
	again := overload.Options{Load: RetriedLoad, Retries: 1}
	j.Retried[""] = measure(s, again, seeds,
		func() overload.Limiter { return &overload.Fixed{Limit: j.Best} }, bubble)
	for _, c := range Contestants() {
		limiter := func() overload.Limiter { return c.Make(s) }
		j.Rows[c.Name] = row(seeds, limiter)
		j.Retried[c.Name] = measure(s, again, seeds, limiter, bubble)
	}
	for _, seed := range seeds {
		bubble(func() {
			x := s.Run(WithClasses(),
				overload.Options{Load: 3, Seed: seed, Classes: [2]float64{0.2, 0.5}})
			j.Critical += x.Available(0) / float64(len(seeds))
			j.All += float64(x.Good) / float64(x.Offered) / float64(len(seeds))
		})
	}
	return j
}

// best returns the row whose goodput, over all loads, is closest to the highest of all rows.
func best(sweep []Row) int {
	score := make([]float64, len(sweep))
	for load := range Loads {
		highest := 0.0
		for _, row := range sweep {
			highest = max(highest, row[load].Goodput)
		}
		for i, row := range sweep {
			score[i] += row[load].Goodput / highest
		}
	}
	return slices.Index(score, slices.Max(score))
}

func measure(
	s *overload.Scenario, o overload.Options, seeds []uint64, limiter func() overload.Limiter,
	bubble Bubble,
) Cell {
	c := Cell{FirstShed: -1, AfterEnd: -1}
	n := float64(len(seeds))
	for _, seed := range seeds {
		bubble(func() {
			o.Seed = seed
			x := s.Run(limiter(), o)
			c.Goodput += x.Goodput() / n
			c.False += float64(x.FalseSheds) / float64(max(1, x.Calm)) / n
			c.Shed += float64(x.Shed) / float64(max(1, x.Tries)) / n
			c.P50 += float64(x.Quantile(0.5).Microseconds()) / 1000 / n
			c.P99 += float64(x.Quantile(0.99).Microseconds()) / 1000 / n
			if x.FirstShed >= 0 {
				c.FirstShed = max(c.FirstShed, x.FirstShed.Seconds())
			}
			if x.LastShed >= 0 {
				c.AfterEnd = max(c.AfterEnd, x.LastShed.Seconds())
			}
		})
	}
	return c
}
