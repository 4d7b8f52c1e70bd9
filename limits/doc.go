// Package limits has what a program writes and reads about a limit: a [Limit] and the [Rate] in it,
// their form in text ([Parse]), the [Decision] on one charge, and the [Settlement] at its end.
//
// Limits are comparable values. The package keeps no state and imports the standard library alone.
// Package core applies limits to requests by rules; package backends is what a backend implements.
package limits
