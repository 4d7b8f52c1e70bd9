package shed

import (
	"slices"
	"strconv"

	"github.com/failsafe-go/failsafe-go/adaptivelimiter"

	"github.com/weir-go/weir/internal/proof/overload"
	"github.com/weir-go/weir/shed"
)

// GraphLoads are multiples of the capacity of a graph.
var GraphLoads = []float64{0.8, 1.5, 2, 4}

// GraphContestant makes a limiter for each service of a graph.
type GraphContestant struct {
	Name string
	Make func(*overload.Graph) []overload.Limiter
}

// frontLimits are the fixed limits of a front. The best of them is a contestant.
var frontLimits = []int{7, 10, 14, 20, 28, 40, 56, 80, 112, 160, 224, 320}

// GraphContestants returns all except the best fixed limit, in the order of the report.
func GraphContestants() []GraphContestant {
	type makeAll = func(*overload.Graph) []overload.Limiter
	each := func(limiter func(front bool) overload.Limiter) makeAll {
		return func(g *overload.Graph) (limiters []overload.Limiter) {
			for i := range g.Services {
				limiters = append(limiters, limiter(i == 0))
			}
			return limiters
		}
	}
	rajomonWith := func(p rajomonParameters) makeAll {
		return func(g *overload.Graph) []overload.Limiter { return newRajomon(g, p) }
	}
	lot := func(r overload.Request) string { return strconv.FormatFloat(r.Lot, 'g', -1, 64) }
	needs := func(r overload.Request) string { return r.Route }
	return []GraphContestant{
		{"failsafe-go",
			each(func(bool) overload.Limiter {
				return failsafe{adaptivelimiter.NewWithDefaults[any]()}
			})},
		{"Rajomon, parameters of its tests", rajomonWith(published)},
		{"Rajomon, parameters for these graphs", rajomonWith(tuned)},
		{"weir",
			each(func(bool) overload.Limiter { return Weir(shed.Options[overload.Request]{}) })},
		{"weir, Lot",
			each(func(bool) overload.Limiter {
				return Weir(shed.Options[overload.Request]{Lot: lot})
			})},
		{"weir, Needs", each(func(front bool) overload.Limiter {
			if front {
				return Weir(shed.Options[overload.Request]{Needs: needs, Limit: 1000})
			}
			return Weir(shed.Options[overload.Request]{})
		})},
		{"weir, Lot and Needs, adaptive front", each(func(front bool) overload.Limiter {
			if front {
				return Weir(shed.Options[overload.Request]{Needs: needs})
			}
			return Weir(shed.Options[overload.Request]{Lot: lot})
		})},
		{"weir, Lot and Needs", each(func(front bool) overload.Limiter {
			if front {
				return Weir(shed.Options[overload.Request]{Needs: needs, Limit: 1000})
			}
			return Weir(shed.Options[overload.Request]{Lot: lot})
		})},
	}
}

// GraphRow is the result of a contestant on a graph, by load.
type GraphRow struct {
	Name string
	// Good are the good answers as a share of the possible ones. Vain is the share of the second
	// service's capacity that is spent on other requests. Both are medians over all seeds.
	Good, Vain []float64
}

// JudgeGraph runs a graph with all contestants. The best fixed limit of the front is chosen for
// each load, by the first seed.
func JudgeGraph(g *overload.Graph, seeds []uint64, bubble Bubble) []GraphRow {
	measure := func(name string, loads []float64, seeds []uint64,
		limiters func(*overload.Graph) []overload.Limiter) GraphRow {
		row := GraphRow{Name: name}
		for _, load := range loads {
			var good, vain []float64
			for _, seed := range seeds {
				bubble(func() {
					x := g.Run(limiters(g), load, seed)
					good, vain = append(good, x.Goodput()/g.Most(load)), append(vain, x.Wasted[1])
				})
			}
			slices.Sort(good)
			slices.Sort(vain)
			row.Good, row.Vain = append(row.Good, good[len(good)/2]),
				append(row.Vain, vain[len(vain)/2])
		}
		return row
	}
	fixed := func(limit int) func(*overload.Graph) []overload.Limiter {
		return func(g *overload.Graph) []overload.Limiter {
			limiters := []overload.Limiter{&overload.Fixed{Limit: limit}}
			for range g.Services[1:] {
				limiters = append(limiters, overload.Nothing{})
			}
			return limiters
		}
	}
	best := GraphRow{Name: "best fixed limit of the front"}
	for _, load := range GraphLoads {
		limit, most := 0, -1.0
		for _, l := range frontLimits {
			if x := measure("", []float64{load}, seeds[:1], fixed(l)).Good[0]; x > most {
				limit, most = l, x
			}
		}
		row := measure("", []float64{load}, seeds, fixed(limit))
		best.Good, best.Vain = append(best.Good, row.Good[0]), append(best.Vain, row.Vain[0])
	}
	rows := []GraphRow{best}
	for _, c := range GraphContestants() {
		rows = append(rows, measure(c.Name, GraphLoads, seeds, c.Make))
	}
	return rows
}
