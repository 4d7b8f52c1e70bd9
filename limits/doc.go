// Package limits is the vocabulary of a program that limits: a [Limit] and its [Rate], their text
// ([Parse]), the [Decision] on one charge, and the [Settlement] at its end.
//
// Limits are comparable values. The package keeps no state and imports only the standard library.
// Package core applies limits to requests by rules. A backend implements package backends.
package limits
