// Package middleware sets up every contestant to limit net/http requests by
// client address, each the way its documentation shows: with its own key
// function for the peer's address, its own headers and its own denial.
package middleware

import (
	"net/http"

	"github.com/weir-go/weir/benchmarks/store"
)

type Contestant struct {
	Name string
	// Wrap puts the middleware, set to q, in front of next.
	Wrap func(q store.Quota, next http.Handler) http.Handler
	Kind Kind
}

// Kind is the category of a contestant.
type Kind uint8

const (
	Bare           Kind = iota // no middleware at all
	Floor                      // no limiter: it only writes what weir writes
	WithoutHeaders             // limits without header fields
	WithHeaders                // sends the limit to clients, as weir does
	Weir
)

// Contestants returns all of them, weir last.
func Contestants() []Contestant {
	peers := []Contestant{
		{"bare handler", func(_ store.Quota, next http.Handler) http.Handler { return next }, Bare},
		{"weir's fields by hand, no limiter", writeByHand, Floor},
		{"x/time by hand, no headers", wrapByHand, WithoutHeaders},
		{"httprate", wrapHTTPRate, WithHeaders},
		{"go-limiter httplimit", wrapGoLimiter, WithHeaders},
		{"throttled LRU", wrapThrottled, WithHeaders},
		{"ulule stdlib", wrapUlule, WithHeaders},
		{"tollbooth", wrapTollbooth, WithHeaders},
	}
	return append(peers, weir()...)
}
