// Package lab sends one stream of requests to several limiters at once, with a clock of its own.
// The page of "weir playground" runs it as WebAssembly and draws the results.
//
// Package core makes every decision, with the algorithms and the memory that programs use. All
// requests have exact times: neither the length of a frame nor a pause of the clock changes a
// result.
package lab
