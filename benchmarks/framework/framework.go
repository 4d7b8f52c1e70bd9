// Package framework sets up weir's adapters and the limiters that users of chi, gin and echo
// usually choose, as their documentation shows: by client address, each with its own header fields
// and its own denial.
package framework

import (
	"net/http"

	"github.com/weir-go/weir/benchmarks/store"
)

type Contestant struct {
	Framework string
	Name      string
	Kind      Kind
	// Serve returns a server of the framework with GET /v1/items, which answers 204, behind the
	// limiter set to q.
	Serve func(q store.Quota) http.Handler
}

// Kind is the category of a contestant.
type Kind uint8

const (
	Bare           Kind = iota // the framework without a limiter
	WithoutHeaders             // limits without header fields
	WithHeaders                // sends the limit to clients, as weir does
	Weir
)

// Frameworks returns the names of the frameworks. The first is the yardstick of weir.
func Frameworks() []string { return []string{"net/http", "chi", "gin", "echo v4", "echo v5"} }

// Contestants returns all of them, for each framework the bare one first and weir last.
func Contestants() []Contestant {
	return []Contestant{
		{"net/http", "net/http", Bare, serveMux(nil)},
		{"net/http", "net/http, weir", Weir, serveMux(limitMux)},
		{"chi", "chi", Bare, serveChi(nil)},
		{"chi", "chi, httprate", WithHeaders, serveChi(limitHTTPRate)},
		{"chi", "chi, weir", Weir, serveChi(limitChi)},
		{"gin", "gin", Bare, serveGin(nil)},
		{"gin", "gin, ulule", WithHeaders, serveGin(limitUlule)},
		{"gin", "gin, gin-rate-limit", WithHeaders, serveGin(limitGinRateLimit)},
		{"gin", "gin, weir", Weir, serveGin(limitGin)},
		{"echo v4", "echo v4", Bare, serveEcho4(nil)},
		{"echo v4", "echo v4, its own", WithoutHeaders, serveEcho4(limitEcho4Own)},
		{"echo v4", "echo v4, weir", Weir, serveEcho4(limitEcho4)},
		{"echo v5", "echo v5", Bare, serveEcho5(nil)},
		{"echo v5", "echo v5, its own", WithHeaders, serveEcho5(limitEcho5Own)},
		{"echo v5", "echo v5, weir", Weir, serveEcho5(limitEcho5)},
	}
}
