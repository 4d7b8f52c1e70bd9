// Package limits has what all of weir speaks: a [Limit] and the [Rate] in it, their form in text
// ([Parse]), and the contract between callers, who decide by limits, and the backends that count: a
// [Backend] takes each [Charge] and answers with a [Decision].
//
// Limits are comparable values. The package keeps no state, and imports the standard library alone.
// Package core applies limits to requests by rules.
package limits
