// Package lab sends one stream of requests to several limiters at once, on a clock of its
// own. It is what the page of "weir playground" runs: there it is compiled to WebAssembly,
// and the page draws what it says.
//
// Every decision is one of package core, by the algorithms and the memory that programs
// use. All requests are decided at exact instants: the length of a frame, and whether the
// clock stops between two of them, changes nothing.
package lab
