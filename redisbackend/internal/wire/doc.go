// Package wire is what weir and its scripts in Redis say to each other. It writes limits, the names
// of states, requests and endings as the scripts read them, and it reads the reply of take.lua. It
// knows no servers, and does no I/O.
//
// An [Encoder] writes one part each: [Names] the names, [Limits] the limits, and [IDs] the ids of
// held units. [Accounts] are what a request charges, one [Account] for each key. A [Taking] is
// what one run of take.lua is asked about some accounts, and what it replied.
package wire
