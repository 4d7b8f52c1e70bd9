// Package backends is the contract between a limiter and the store that counts: a [Backend] takes
// each [Charge] and answers with a [limits.Decision]. Only a program that writes a backend, wraps
// one, or asks one directly needs it.
//
// One method is required. The others are optional interfaces: [Peeker], [Resetter], [Counter],
// [Settler], [Supporter], [Divided], [InProcess]. A wrapper forwards them and has a method
// Unwrap() Backend. Package limitstest has the suite that every backend passes.
package backends
