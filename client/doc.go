// Package client sends HTTP requests at the pace that servers ask for.
//
// A [Transport] is an [http.RoundTripper]. It reads what answers tell about a limit, holds back
// requests that would be denied, and repeats denied requests once the server takes them again:
//
//	httpClient := &http.Client{Transport: client.MustNew(client.Options{})}
//
// It reads Retry-After; RateLimit and RateLimit-Policy of
// draft-ietf-httpapi-ratelimit-headers-11 and of draft -07; the RateLimit fields of drafts -00 to
// -06; and the X-RateLimit fields, whatever the unit of their reset. [Dialect] adds the rules of
// GitHub and Discord, and limits of tokens of OpenAI and Anthropic.
//
// # Rules
//
// A request is never sent earlier than the server said, and never waits longer than
// [Options.MaxWait] or its context allows. A denial with a longer wait goes back at once,
// untouched. A request that was held back and not sent fails with a [*WaitError]. There are three
// exceptions. After a refused connection, a Transport forgets what the server said before it
// restarted. A wait that was told without a denial is doubted: after MaxWait without any request,
// one is let through. A told end of a period is ignored if earlier ends renewed little.
//
// The limit waits, not the request: after one denial all requests of the same bucket are held back.
// When the wait ends one of them goes first. Its answer tells how fast the others follow.
//
// A body is sent again only if it can be rewound: [http.Request.GetBody] is set, or there is no
// body. No body is kept in memory.
//
// A 403 of GitHub may say in its body whether it denies. The Transport returns it once the first 16
// KiB of the body have arrived, or all of it. The caller can read all of the body, as always.
//
// A Transport starts no goroutine, and there is nothing to close.
package client
