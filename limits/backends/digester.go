package backends

// Digester is a Backend whose states several processes share. It makes the numbers of values that
// distinct limits count: all processes must find the same number for a value. A limiter calls it
// once for each charge, and every other part hands the number on.
//
// Equal numbers count as one value. So a client that knows how they are made may look for values
// with one number, unless they depend on a secret. Without a Digester a limiter uses a secret of its
// process: nothing else is needed in this process, and processes that share a backend would each
// count a value once.
type Digester interface {
	Backend

	// Digest returns the number of a value of a key. It does not wait, and is safe for concurrent
	// use.
	Digest(scope, key, value string) uint64
}
