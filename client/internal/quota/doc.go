// Package quota reads from the fields of an answer what is left of a limit, and how long to wait.
//
// [Of] returns what is left, and [WaitOf] how long a denial asks to wait. Both read whatever form a
// server chose: see the list of services in docs/outgoing.md. [FromCache] finds answers of caches,
// which tell this client nothing. They keep no state. Whatever a server sends, numbers are between
// 0 and [MaxCount], and no time is longer than [Longest].
//
//	fields.go      which fields tell a limit together, and which of them are believed first
//	ratelimit.go   RateLimit and RateLimit-Policy
//	cache.go       marks of caches
//	moment.go      when a wait or a limit ends: seconds, durations, instants and dates
//	number.go      decimal numbers
package quota
