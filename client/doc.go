// Package client sends HTTP requests at the pace that servers ask for.
//
// A [Transport] is an [http.RoundTripper]. It reads what answers say about a limit, holds
// back requests that would be denied, and repeats those that were denied once the server
// takes them again:
//
//	httpClient := &http.Client{Transport: client.MustNew(client.Options{})}
//
// It reads Retry-After; RateLimit and RateLimit-Policy of
// draft-ietf-httpapi-ratelimit-headers-11 and of draft -07; the RateLimit fields of drafts
// -00 to -06; and the X-RateLimit fields, whatever the unit of their reset. [Dialect] adds
// what GitHub and Discord do otherwise.
//
// # Rules
//
// A request is never sent earlier than the server said, and never waits longer than
// [Options.MaxWait] or its context allows. An answer whose wait is longer goes back at once,
// untouched. A request that was held back without having been sent fails with a [*WaitError].
// The exceptions: a refused connection makes a Transport forget what a server said that restarts;
// and what a server says without denying is doubted. If no request is sent for MaxWait because of
// that, one is let through. A told end of a period is not waited for if earlier ones renewed little.
//
// The limit waits, not the request: after one denial all requests of the same bucket are held
// back. When the wait ends one of them goes first, and its answer says how fast the others
// follow.
//
// What a 403 of GitHub is about stands in its body: it comes back once the first 16 KiB of that have
// arrived, or all of it. The caller reads all of it, as always.
//
// A body is sent again only if it can be rewound: [http.Request.GetBody] is set, or there is
// no body. No body is kept in memory.
//
// A Transport has nothing to close, and starts no goroutine.
package client
