// Package world runs whole systems in virtual time: servers, the network, and processes with their
// clients and limiters, all in one testing/synctest bubble. Faults, arrivals and latencies come
// from one seed. Laws, which must always hold, are checked all the time.
//
// A failure that real servers show after minutes and by luck, a world shows within seconds and
// repeatably: the seed determines the order of events. Tests of real sockets, memory limits and
// persistence, which a world lacks, are in internal/proof/faults.
//
// A failure prints the seed and the faults that cause it. Repeat it by
//
//	go test ./internal/proof/world -run TestSeeds -weir.seed 123
//
// at the same commit: a new kind of fault or client changes all worlds. The test then runs that
// world twenty times, with all its faults. Tests run on one processor, so the order of goroutines
// is almost always that of the first run.
//
// The laws leave out some things. An anchored window may admit twice its units in a period if its
// opening is not known from outside. After a fault, blocks of leases may be lost, so their spending
// is not checked. Admissions in flight while a server loses its data are not checked. Nor are keys
// of healthy servers while the breaker of a process may be open, because all servers that it heard
// of had a fault at once. A clock that steps back begins a new limit. All processes share one
// clock. What a fallback denies counts as a change of its share (DESIGN 8).
//
// Tests of one kind of fault are in this package too: begin with inWorld in ends_test.go.
//
// If a goroutine holds a lock while it asks a server, and another waits for the lock, time stands
// still and the world hangs for ever. After a minute of real time in which no server has read
// anything, the program ends and prints the seed and the stacks.
//
// Timers of one bubble do not work in another, and go-redis reuses the timers of callers that wait
// for a connection. So a client has more connections than it needs. The client of a Cluster is
// warmed up: its first command asks a server while it holds a lock, and time stands still while
// another goroutine waits for a lock.
package world
