// Package redisbackend keeps the state of weir's limits in Redis, so that any
// number of processes share them exactly. It runs on Redis 6.2 or later and on
// Valkey, alone, with Sentinel, as a Cluster,
// or behind a [redis.Ring].
//
// A decision is one script and one round trip, however many rules a request
// has. The server's clock decides, so that the clocks of the processes do not
// matter. Timeouts, retries and connections are those of the client that is
// passed in; [New] does no I/O, and [Backend.Check] says whether a server will do.
//
// A server that is slow or gone makes [Backend.Take] return an error, at the
// client's own pace. Put package breaker in front, so that no request waits for
// it.
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
// tag of them, where scope or key have a "{". docs/REDIS.md describes the
// strings; a version stands first in each, and a version that is not known is
// an error and is left alone.
package redisbackend
