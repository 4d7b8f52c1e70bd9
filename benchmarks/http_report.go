package main

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"

	"github.com/weir-go/weir/benchmarks/middleware"
	"github.com/weir-go/weir/benchmarks/table"
)

// The maximal time of weir relative to the fastest peer that also sends header fields, and the
// maximal number of allocations of an allowed request.
const (
	allowedTarget = 0.6
	deniedTarget  = 0.8
	allocsTarget  = 6
)

// reportHTTP prints the cost of a middleware around a handler, and compares weir with the others.
func reportHTTP(rounds int) error {
	answers := make(map[string]httpAnswers)
	names := middlewares(middleware.Bare, middleware.Floor, middleware.WithoutHeaders, middleware.WithHeaders,
		middleware.Weir)
	all, err := readWorkers("http", names, httpColumns, rounds,
		func(name string, hello json.RawMessage) error {
			var a httpAnswers
			err := json.Unmarshal(hello, &a)
			answers[name] = a
			return err
		})
	if err != nil {
		return err
	}

	fmt.Printf("## http: net/http middleware, whole handler, one client, ns and allocations\n\n")
	t := table.Table{
		Heads: []string{"", "allowed", "allocs", "fields", "denied", "allocs", "body of a denial"},
	}
	for _, name := range names {
		r, a := all[name], answers[name]
		row := []string{
			name, table.Number(r.nanos(httpAllowed)), table.Number(r.allocs(httpAllowed)),
			fmt.Sprint(a.Fields),
		}
		if a.DeniedType != "" {
			mediaType, _, _ := strings.Cut(a.DeniedType, ";")
			row = append(row, table.Number(r.nanos(httpDenied)), table.Number(r.allocs(httpDenied)),
				fmt.Sprintf("%d B %s", a.DeniedBytes, mediaType))
		}
		t.Add(row...)
	}
	t.Print(os.Stdout)
	printWrong(names[1:], []string{"allowed", "denied"}, all) // the first denies no request
	printSpread(all)
	printHTTPRatios(all)
	return nil
}

// middlewares returns the names of the middleware of the given kinds.
func middlewares(kinds ...middleware.Kind) []string {
	var names []string
	for _, kind := range kinds {
		for _, c := range middleware.Contestants() {
			if c.Kind == kind {
				names = append(names, c.Name)
			}
		}
	}
	return names
}

func printHTTPRatios(readingsOf map[string]readings) {
	peers := middlewares(middleware.WithHeaders)
	allowed, denied := fastestOf(peers, httpAllowed, readingsOf), fastestOf(peers, httpDenied, readingsOf)
	fmt.Printf("## http: weir's time as a share of the fastest peer's that also sends headers, " +
		"and whether that is on target\n\n")
	t := table.Table{Heads: []string{"", "allowed", "denied", "allocs, allowed"}}
	t.Add("fastest peer with headers", allowed, denied)
	t.Add("*target*", fmt.Sprintf("*≤ %.2f*", allowedTarget), fmt.Sprintf("*≤ %.2f*", deniedTarget),
		fmt.Sprintf("*≤ %d*", allocsTarget))
	for _, name := range middlewares(middleware.Weir) {
		r := readingsOf[name]
		a := r.nanos(httpAllowed) / readingsOf[allowed].nanos(httpAllowed)
		d := r.nanos(httpDenied) / readingsOf[denied].nanos(httpDenied)
		allocs := r.allocs(httpAllowed)
		t.Add(name, fmt.Sprintf("%.2f %s", a, table.Mark(a <= allowedTarget)),
			fmt.Sprintf("%.2f %s", d, table.Mark(d <= deniedTarget)),
			fmt.Sprintf("%.0f %s", allocs, table.Mark(allocs < allocsTarget+0.5)))
	}
	t.Print(os.Stdout)
}
