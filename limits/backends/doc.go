// Package backends is the contract between a limiter and the store that counts: a [Backend] answers
// each [Charge] with a [limits.Decision]. Only a program that implements, wraps or calls a backend
// needs it.
//
// Only [Backend.Take] is required. The optional interfaces are [Peeker], [Resetter], [Counter],
// [Settler], [Lender], [Supporter], [Divided], [InProcess], [Digester] and [InstanceCounter]. A wrapper
// forwards them and has a method Unwrap() Backend. Package limitstest has the suite that every
// backend passes.
package backends
