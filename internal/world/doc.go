// Package world runs whole systems in virtual time: servers, the network, and the processes
// with their clients and limiters, all in one testing/synctest bubble. Faults, arrivals and
// latencies come from one seed. Laws say what has to hold, whatever happens, and are checked
// all the time.
//
// What real servers show in minutes and by luck, a world shows in seconds and again: an order
// of events is a matter of the seed. What a world cannot show, such as real sockets, memory
// limits and persistence, is in internal/faults.
//
// A failure prints the seed and the faults that were needed. Repeat it by
//
//	go test ./internal/world -run TestSeeds -weir.seed 123
//
// What the laws leave out: limits on a server whose clock has stepped back or that a replica has
// replaced, and on a Ring with faults, which moves keys to servers that it can reach. Anchored
// windows are held to twice their units in a period where nobody outside knows when they opened.
//
// The seed does not decide in which order goroutines run that are ready at one instant, so a
// failure may need a few tries.
package world
