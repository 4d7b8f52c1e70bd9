// Package redisbackend keeps the state of weir's limits in Redis, so that any
// number of processes share them exactly. It runs on Redis 6.2 or later and on
// Valkey, alone, with Sentinel, as a Cluster,
// or behind a [redis.Ring].
//
// A decision is one script and one round trip, however many rules a request
// has. The server's clock decides, so that the clocks of the processes do not
// matter. Retries and connections are those of the client that is passed in; [New]
// does no I/O, and [Backend.Check] says whether a server will do.
//
// A server that is slow or gone makes [Backend.Take] return an error within the time budget of
// [Options]. Then the server is left alone until it answers a probe: see package remote. A [Bare]
// has no budget but the context of its caller.
//
// # Calls
//
// Each server has a queue of its own, for all that is sent to it. Renewals of held units go first, then
// requests, then what ends them: settlements, releases and give-backs, in calls of their own, which take
// turns with the others. A call is one script, which decides the
// requests that waited, one after the other at one instant. It charges up to 128
// keys, reads them all at once, and writes each that has changed once. On a Cluster it is for
// the keys of one slot, and calls for several slots are sent in one pipeline. So the
// connections of one client, however many, take little of the server.
//
// A request waits only while four calls or more are under way, and the latest of them was begun
// less than 500 microseconds ago. Requests that fill a call do not wait for that. At most 16 calls
// are under way at once, or as many as the client's PoolSize, if that is less. Requests go first
// whose keys fewer others wait for. If 32 wait for a key, a denial answers all of them that came before
// its call and charge the key as much.
//
// A reply is believed only if it bears the number of its call, is complete, and has no number that
// the script never computes. Otherwise it is an error, and its connection is closed.
//
// A call does not end with its caller. It may take a second, if the client has
// ContextTimeoutEnabled; otherwise the client's own timeouts end it. So a connection that
// takes longer to make than a caller may wait is ready for the next caller. A request
// whose caller leaves before it is sent takes nothing. One that has been sent may still
// take its units.
//
// Calls run on goroutines that end when there is nothing to do, or on the goroutine of a
// caller if the call ends by its deadline. None of them has to be ended. A panic in a hook of
// the client becomes an error of the decision.
//
// # Several servers
//
// A server of a Cluster or Ring is down if it leaves all calls unanswered for 100 ms, or
// fails three in a row over that time. A distant server has eight of its round trips.
// While it is down its requests fail at once, except for one at a time, which is the
// probe. The first answer ends that. If it has not been asked for a second after a failure,
// it may be back: all requests are sent again, until it is found to be down as at first.
// [Options].Logger logs both changes, and a server that replies only with errors. While
// other servers decide, such errors spare the backend: package remote does not count them.
//
// # In Redis
//
// Every (scope, key) that is not fresh has one string, under the name
//
//	prefix ":" length of scope ":" scope ":" key
//
// such as weir:10:per-client:198.51.100.7, which expires one second after it has
// become fresh. Keys longer than 128 bytes are replaced by "#" and the SHA-256
// of the key in hexadecimal:
//
//	prefix ":" length of scope ":" scope "#" digest
//
// With a hash tag, "{" tag "}:" follows the prefix. If the scope or key contains a "{",
// the empty tag "{}:" precedes the length, so that Redis hashes the whole name.
// Units that a concurrency limit holds are in a sorted set, whose name has an "h" before
// the length of the scope. Their process renews them, on a goroutine that runs only while
// something has been held for long.
//
// docs/redis.md describes the strings. Each starts with a version. A string with an
// unknown version is an error, and stays as it is.
package redisbackend
