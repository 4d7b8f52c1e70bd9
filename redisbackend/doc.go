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
// A server that is slow or gone makes [Backend.Take] return an error, when its
// context ends at the latest. Put package breaker in front: it ends the context in
// time, and stops asking a server that keeps failing.
//
// # Calls
//
// Each server has a queue of its own. A call is one script, which decides the
// requests that waited, one after the other at one instant. It charges up to 128
// keys. On a Cluster it is for the keys of one slot, and calls for several slots are
// sent in one pipeline. Equal requests, which take the same units from the same
// keys, are decided up to the first denial, which the rest get too. So the
// connections of one client, however many, take little of the server.
//
// A request waits only while calls are under way. A server that is near has few at
// once, about one for every 100 microseconds of its round trip, and one more after 2
// ms without an answer. Requests that fill a call do not wait for that. At most 16
// calls are under way at once, or as many as the client's PoolSize, if that is less,
// and 128 where the client does not tell, as an auto-pipeliner.
//
// A call does not end with its caller. It has a second, so that a connection that
// takes longer to make than the caller may wait is there for the next one. A
// request whose caller leaves before it is sent takes nothing; one that is under
// way may still take its units. The second holds where the client has
// ContextTimeoutEnabled; otherwise the client's own timeouts end a call. Calls run
// on goroutines that end when there is nothing to do, or on the caller's where that
// makes no difference to it. There is nothing to close. A panic in a hook of the
// client is an error of the decision.
//
// # Several servers
//
// A server of a Cluster or Ring that leaves calls without any answer for 100 ms, or
// fails three in a row over that time, is given up: its requests fail at once,
// but for one at a time, which probes. One that is far away has eight of its round
// trips. The first answer ends that. The beginning and the end are logged, see
// [Options].Logger, and so is a server that answers with errors alone. Errors of a
// server, while others decide, say that they spare the backend: package breaker
// does not count them.
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
// With a hash tag, "{" tag "}:" follows the prefix; and "{}:", which makes no hash
// tag of them, where scope or key have a "{". docs/redis.md describes the
// strings; a version stands first in each, and a version that is not known is
// an error and is left alone.
package redisbackend
