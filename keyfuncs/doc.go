// Package keyfuncs finds out who sent an HTTP request: it has the key functions
// that a rule's Key field takes, and combinators that make new ones of those.
//
//	Key: keyfuncs.Address(keyfuncs.Peer)
//	Key: keyfuncs.Address(keyfuncs.MustTrustedProxies("10.0.0.0/8"))
//	Key: keyfuncs.First(keyfuncs.FromContext(user), keyfuncs.Address(keyfuncs.Peer))
//
// # Client addresses
//
// A client can write whatever it likes into X-Forwarded-For and its kin, and a
// limiter that believes it has no limit. Which part of a header is true depends
// on what stands in front of the server, and only you know that. So there is no
// default and no guessing between headers; choose the one [AddrSource] that
// describes your network:
//
//	nothing in front, clients connect directly    Peer
//	proxies whose addresses are known             TrustedProxies, Forwarded
//	a fixed number of proxies, addresses unknown  ProxyCount
//	a proxy that overwrites a header of its own   SingleHeader
//	any of these, with the true peer elsewhere    WithPeer
//
// Sources fail closed. Where the header contradicts the description (a trusted
// proxy that sent none, a hop that is no address, too few hops) they return an
// error, never another address in its place. Their work and memory are bounded
// whatever a client sends. [OrPeer] and [OrTogether] count such requests instead,
// each at a cost that it states.
//
// No source asks the DNS. All but [ProxyCount] and a [SingleHeader] without
// ranges go by [http.Request.RemoteAddr], so no middleware may have rewritten it
// before: without its port it is refused, as [Peer] says. Middleware that keeps the
// true peer elsewhere is for [WithPeer].
//
// # Keys
//
// A key has a bounded length, at most 253 bytes: longer texts from a client are
// represented by their digest. (Patterns and constants are as long as you make
// them, and [Join], [First] and [FirstNamed] add a few bytes to their parts.) Credentials are
// always represented by their digest; see [Digest].
//
// Key functions do not read the body. They keep no state and are safe for
// concurrent use. Those that take a name or a function return nil if it cannot
// work (an empty header name, a nil function), and so do combinators of a nil
// function; the limiter's constructor reports a nil key function. Mistakes in
// data that may come from a configuration file are reported as errors instead.
//
// Each function says what it costs a client to have another key. A limit is
// worth no more than that.
//
// # Other types of request
//
// [First], [FirstNamed], [Join], [Known], [OrTogether], [Constant], [Value] and
// [Address] are for any type of request. The other functions are for [http.Request]; the adapters for frameworks
// that have a type of their own lift them to it.
package keyfuncs
