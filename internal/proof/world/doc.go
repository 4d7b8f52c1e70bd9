// Package world runs whole systems in virtual time: servers, the network, and the processes
// with their clients and limiters, all in one testing/synctest bubble. Faults, arrivals and
// latencies come from one seed. Laws say what has to hold, whatever happens, and are checked
// all the time.
//
// What real servers show in minutes and by luck, a world shows in seconds and again: an order
// of events is a matter of the seed. What a world cannot show, such as real sockets, memory
// limits and persistence, is in internal/proof/faults.
//
// A failure prints the seed and the faults that were needed. Repeat it by
//
//	go test ./internal/proof/world -run TestSeeds -weir.seed 123
//
// at the same commit: a new kind of fault or of client changes all worlds. It then lives through that
// world twenty times, with all its faults. The tests run on one processor, so that the order of
// goroutines is nearly always that of the first time.
//
// What the laws leave out: anchored windows are held to twice their units in a period where nobody
// outside knows when they opened; what blocks of leases have spent after a fault, since a block may be
// lost; admissions that were under way while a server lost its data; keys of healthy servers while the breaker of a
// process may be open, since all servers that it has heard of had a fault at once. A clock that steps back begins
// a new limit. Processes have one clock.
//
// Tests of one kind of fault are in this package, too: begin with inWorld in ends_test.go.
//
// A world in which a lock is held while a server is asked hangs for ever: time stands still. After a minute of real
// time in which no server has read anything the program ends, and prints the seed and who waits for the lock.
//
// A bubble wants its timers for itself. So a client has more connections than it needs, since go-redis
// keeps timers of those who wait for one, and a Cluster's client is warmed up, since it asks for
// something under a lock, and time stands still while a lock is waited for.
package world
