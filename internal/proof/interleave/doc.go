// Package interleave runs goroutines of the real code in every order, and checks each.
//
// [Explore] runs tasks, one at a time. Before each operation of a lock or of an atomic value, the
// task that runs may be suspended for another one. Explore begins again and again, until it has
// tried every order that can make a difference. Orders that differ only in operations which
// commute, such as two loads, count as one. A failure prints each operation of its order, with file
// and line.
//
// The packages in shim replace sync, sync/atomic and hash/maphash. Their types work like those of
// the standard library, and call [Step] before each operation. Their hashes are the same in every
// run. A test builds memory, the lease cache of remote and the ledger of core with go test
// -overlay, from copies of their files that import the shims. So the library itself knows nothing
// of this package.
//
// Explore does not see plain reads and writes: a task does not stop between two of them. That loses
// nothing if locks and atomic operations order them. Whether they do, the race detector says: a
// full run is built with -race, and Explore hides its own switches from the detector. A short run
// tries the orders with few suspensions, too, whether or not they seem to make a difference.
package interleave
