// Package redisbackend keeps the state of weir's limits in Redis, so that any number of processes
// share them exactly. It runs on Redis 6.2 or later and on Valkey, alone, with Sentinel, as a
// Cluster, or behind a [redis.Ring].
//
// A decision is one script and one round trip, however many rules a request has. The server's
// clock decides, so the clocks of the processes do not matter. Retries and connections are those
// of the client that is passed in. [New] does no I/O; [Backend.Check] says whether a server is
// fit.
//
// If a server is slow or gone, [Backend.Take] returns an error within the time budget of
// [Options]. The failure policy of the rule then decides. A server that keeps failing is left
// alone, and asked again by one probe a second: [remote.Breaker] has the details. A [Bare] has no
// breaker and no budget; only the context of its caller bounds its time.
//
// # Calls
//
// A call is one round trip to a server. It carries the requests of many callers in one script,
// which decides them one after the other at one instant. The script reads all keys at once, up to
// 128, and writes each that has changed once. On a Cluster a call is a pipeline, with a script for
// each slot. So one client, however many connections it has, takes little of the server.
//
// Each server has a queue. Renewals of held units go first, then requests. What ends requests
// takes turns with both, in calls of its own: settlements, releases and give-backs. Before a
// call starts, the goroutines that are ready to run may add their requests to it. A request waits
// longer only if four calls or more are under way, or two to a server that answered within two
// milliseconds, and the latest began less than 500 microseconds ago; and not at all if the waiting
// requests fill a call. At most 16 calls are under way at once,
// or the client's PoolSize if that is less. Requests for keys that few others wait for go first.
// If 32 wait for a key, one denial answers all of them that came before its call and charge the
// key as much.
//
// A reply is believed only if it bears the number of its script, is complete, and has no number
// that the script never computes. Otherwise it is an error, and its connection is closed.
//
// A call does not end with its caller. It may take a second if the client has
// ContextTimeoutEnabled; otherwise the client's own timeouts end it. So a connection that was too
// slow for one caller is ready for the next. A request whose caller leaves before it is sent takes
// nothing. After that it may still take its units.
//
// Calls run on goroutines that end when there is nothing to do, or on the goroutine of a caller if
// the call ends by its deadline. The program need not stop any of them. A panic in a hook of the
// client becomes an error of the decision.
//
// # Several servers
//
// A server of a Cluster or Ring is down if it leaves all calls unanswered for 100 ms, or fails
// three in a row over that time. A distant server has eight of its round trips. While it is down,
// its requests fail at once, except for one at a time, the probe. The first answer ends that. A
// server that was not asked for a second after a failure may be back: all requests are sent to it
// until it is found to be down as before. [Options].Logger logs both changes, and a server that
// replies only with errors. While other servers decide, such errors do not count against the
// backend: package remote ignores them.
//
// # In Redis
//
// Every (scope, key) that has used something has one string, under the name
//
//	prefix ":" scope mark key
//
// such as weir:per-client=198.51.100.7. The mark is "=" of a rate, "!" of a ban, "~" of distinct
// values and "+" of held units. A name expires one second after all units are back. Of keys longer
// than 128 bytes it has the SHA-256, in base64:
//
//	prefix ":" scope "#" mark digest
//
// In a scope, ":" is written ";", and marks, ";" and "%" as in a URL. With a hash tag, "{" tag "}:"
// follows the prefix. If the scope or key contains a "{", the empty tag "{}:" does, so that Redis
// hashes the whole name. Units that a concurrency limit holds are in a sorted set. Their process
// renews them, on a goroutine that runs only while something is held for long.
//
// docs/redis.md describes the strings. Each starts with a version. A string with an unknown
// version is an error, and stays as it is.
package redisbackend
