package main

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"strings"

	"github.com/weir-go/weir/benchmarks/framework"
	"github.com/weir-go/weir/benchmarks/table"
)

// moreAllocsTarget is the maximal number of allocations that weir adds to a framework beyond those
// it adds to net/http.
const moreAllocsTarget = 2

// reportFrameworks prints the cost of limiters in frameworks, and compares weir with the others.
func reportFrameworks(rounds int) error {
	answers := make(map[string]httpAnswers)
	var names, limited []string
	for _, c := range framework.Contestants() {
		names = append(names, c.Name)
		if c.Kind != framework.Bare {
			limited = append(limited, c.Name)
		}
	}
	all, err := readWorkers("frameworks", names, httpColumns, rounds,
		func(name string, hello json.RawMessage) error {
			var a httpAnswers
			err := json.Unmarshal(hello, &a)
			answers[name] = a
			return err
		})
	if err != nil {
		return err
	}

	fmt.Printf("## frameworks: what a limiter adds to a request, one client, ns and " +
		"allocations; the framework alone in the first row of each\n\n")
	t := table.Table{
		Heads: []string{"", "allowed", "allocs", "fields", "denied", "allocs", "body of a denial"},
	}
	for _, c := range framework.Contestants() {
		a := answers[c.Name]
		cost := added(c, all)
		row := []string{c.Name, "+" + table.Number(cost[httpAllowed].nanos),
			"+" + table.Number(cost[httpAllowed].allocs), fmt.Sprint(a.Fields),
			"+" + table.Number(cost[httpDenied].nanos), "+" + table.Number(cost[httpDenied].allocs),
			""}
		if c.Kind == framework.Bare {
			row = []string{
				c.Name, table.Number(all[c.Name].nanos(httpAllowed)),
				table.Number(all[c.Name].allocs(httpAllowed)),
			}
		} else if mediaType, _, _ := strings.Cut(a.DeniedType, ";"); mediaType != "" {
			row[6] = fmt.Sprintf("%d B %s", a.DeniedBytes, mediaType)
		}
		t.Add(row...)
	}
	t.Print(os.Stdout)
	printWrong(limited, []string{"allowed", "denied"}, all)
	printSpread(all)
	printFrameworkRatios(all)
	return nil
}

// cost is the cost that a limiter adds to a request.
type cost struct{ nanos, allocs float64 }

// added returns the cost that the limiter of c adds to the bare framework, whose answers are those
// of allowed requests.
func added(c framework.Contestant, readingsOf map[string]readings) (costs [httpColumns]cost) {
	for _, bare := range framework.Contestants() {
		if bare.Framework == c.Framework && bare.Kind == framework.Bare {
			for column := range costs {
				costs[column] = cost{
					readingsOf[c.Name].nanos(column) - readingsOf[bare.Name].nanos(httpAllowed),
					readingsOf[c.Name].allocs(column) - readingsOf[bare.Name].allocs(httpAllowed),
				}
			}
		}
	}
	return costs
}

func printFrameworkRatios(readingsOf map[string]readings) {
	fmt.Printf("## frameworks: what weir adds as a share of what each peer adds, and whether " +
		"that is on target\n\n")
	t := table.Table{Heads: []string{"", "allowed", "denied", "allocs more than net/http"}}
	t.Add("*target, peers that send fields*", "*< 1.00*", "*< 1.00*",
		fmt.Sprintf("*≤ %d*", moreAllocsTarget))
	var yardstick [httpColumns]cost
	for _, name := range framework.Frameworks() {
		var weir [httpColumns]cost
		for _, c := range framework.Contestants() {
			if c.Framework == name && c.Kind == framework.Weir {
				weir = added(c, readingsOf)
			}
		}
		if name == framework.Frameworks()[0] {
			yardstick = weir
			continue
		}
		// avoid -0
		more := math.Round(
			max(weir[httpAllowed].allocs-yardstick[httpAllowed].allocs,
				weir[httpDenied].allocs-yardstick[httpDenied].allocs)) + 0
		allocs := fmt.Sprintf("%.0f %s", more, table.Mark(more <= moreAllocsTarget))
		for _, c := range framework.Contestants() {
			if c.Framework != name ||
				c.Kind != framework.WithHeaders && c.Kind != framework.WithoutHeaders {
				continue
			}
			peer := added(c, readingsOf)
			ratio := func(column int) string {
				share := weir[column].nanos / peer[column].nanos
				if c.Kind == framework.WithoutHeaders {
					return fmt.Sprintf("%.2f", share)
				}
				return fmt.Sprintf("%.2f %s", share, table.Mark(share < 1))
			}
			of := c.Name
			if c.Kind == framework.WithoutHeaders {
				of += " (no fields)"
			}
			t.Add(of, ratio(httpAllowed), ratio(httpDenied), allocs)
		}
	}
	t.Print(os.Stdout)
}
