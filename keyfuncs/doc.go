// Package keyfuncs identifies the sender of an HTTP request. It has key functions for the field Key
// of a rule, and combinators that build key functions from others.
//
//	Key: keyfuncs.Address(keyfuncs.Peer)
//	Key: keyfuncs.Address(keyfuncs.MustTrustedProxies("10.0.0.0/8"))
//	Key: keyfuncs.First(keyfuncs.FromContext(user), keyfuncs.Address(keyfuncs.Peer))
//
// # Client addresses
//
// A client can write anything into X-Forwarded-For and similar headers, and can evade a limiter
// that believes it. Which part of a header is true depends on the proxies in front of the server,
// and only you know them. There is no default, and no guessing between headers. Choose the
// [AddrSource] that describes your network:
//
//	nothing in front, clients connect directly    Peer
//	proxies whose addresses are known             TrustedProxies, Forwarded
//	a fixed number of proxies, addresses unknown  ProxyCount
//	a proxy that overwrites a header of its own   SingleHeader
//	any of these, with the true peer elsewhere    WithPeer
//	middleware that has believed named proxies    TrustedRemoteAddr
//
// Sources fail closed. If a request contradicts the description, they return an error and never
// another address: a trusted proxy sent no header, a hop is not an address, or there are too few
// hops. [OrPeer] and [OrShared] count such requests instead, and state what that costs. The work
// and memory of a source are bounded, whatever a client sends.
//
// No source queries the DNS. All sources except [ProxyCount] and a [SingleHeader] without ranges
// read [http.Request.RemoteAddr], so no earlier middleware may rewrite it. They refuse an address
// without a port, as [Peer] does. If middleware keeps the true peer elsewhere, use [WithPeer].
// [TrustedRemoteAddr] reads what middleware has written.
//
// # Keys
//
// A key has at most 253 bytes. A longer text from a client is represented by its digest. (Patterns
// and constants are as long as you make them, and [Join], [First] and [FirstNamed] add a few bytes
// to each key they combine.) Credentials are always represented by their digest: see [Digest].
//
// Key functions do not read the body. They keep no state and are safe for concurrent use. A
// constructor returns nil if its name or function cannot work, such as an empty header name or a
// nil function; a combinator returns nil if one of its functions is nil. The constructor of the
// limiter reports a nil key function. Mistakes in data that may come from a configuration file are
// reported as errors instead.
//
// Each function documents what another key costs a client. A limit is worth no more than that.
//
// # Other types of request
//
// [First], [FirstNamed], [Join], [Known], [OrShared], [Inside], [Outside], [Constant], [Value],
// [Address] and [AddressPrefix] take any type of request. The other functions take an
// [http.Request]. Adapters for frameworks with a request type of their own have a function Lift
// that adapts them.
package keyfuncs
