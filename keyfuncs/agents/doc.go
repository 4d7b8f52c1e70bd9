// Package agents identifies automated clients that sign their requests: crawlers, and agents that
// work for people. It verifies signatures for Web Bot Auth, which are HTTP Message Signatures (RFC
// 9421) by keys that a directory on the signer's domain has. Its key function says which agent a
// request is from, so that each has a limit of its own and strangers share a small one:
//
//	verifier := agents.MustNew(agents.Config{
//		Authorities: []string{"shop.example"},
//		Directories: []agents.Directory{{URL: "https://bot.example"}},
//	})
//	limiter := nethttp.MustNew(nethttp.Config{
//		Rules: []nethttp.Rule{
//			{Name: "agents", Limit: plan, Key: core.When(verifier.Signed, verifier.Key)},
//			{Name: "replay", Limit: verifier.Once(), Key: verifier.Nonce, OnFailure: core.FailClosed, Hidden: true},
//			{Name: "strangers", Limit: small, Key: core.Unless(verifier.Signed, prefix)},
//		},
//		Denied: verifier.Challenge(nil),
//	})
//
// Adapters for frameworks with a request of their own have a function Lift that adapts Key and Nonce.
// docs/agents.md has a whole site: people, a limit of all strangers together, and agents that are not
// listed.
//
// # What a signature says
//
// A good signature says that a holder of a key of the directory has signed the components that it
// covers. It does not say who the agent is, whether it behaves, or that its request is new. So limits
// follow the directory's name, not the key: more keys, or another key, are the same agent. A
// signature that covers @authority alone is good for any path and method until it expires: see
// Components of the [Config], and [Verifier.Once] for copies.
//
// Requests without a good signature are strangers, whatever their signature claims. A false one
// gains nothing and costs a verification.
//
// # What is accepted
//
// The package follows draft-ietf-webbotauth-httpsig-protocol-01 of 2026-10-29, and accepts what
// agents of older drafts send:
//
//	                     -01                               accepted, too
//	tag                  web-bot-auth
//	Signature-Agent      a Dictionary with a String        one String (architecture-00 to -03)
//	                     for the label of each signature
//	covered              the member of its label           another member, if it is the only one that
//	                     ("signature-agent";key="sig1")    is covered; the whole field
//	value                the URL of a JSON Web Key Set     an origin: the directory at its well-known
//	                                                       path (architecture-00 to protocol-00)
//	authority            @authority or @target-uri
//	parameters           created, expires, keyid, tag      alg, if it is ed25519; nonce
//	keyid                the thumbprint of the key
//	algorithm            of the key: Ed25519
//	directory            status 200, no redirect; at the   application/json elsewhere
//	                     well-known path the type
//	                     application/http-message-
//	                     signatures-directory+json
//
// A signature without Signature-Agent, which drafts before protocol-02 allowed, is invalid: by the
// draft it would count by its key, so an agent could have a limit for each key. Members with
// parameters, as protocol-00 had, are ignored, as -01 says. Signatures by RSA and ECDSA are not
// verified. The signature of a directory's answer is not read: the draft leaves it to verifiers that
// get directories from others.
//
// # What it costs
//
// The unit is a decision by one rule in memory, as BenchmarkVerify measures it in one run. A request
// without a signature costs a tenth. A signature that is for another site, has expired or names an
// unknown directory costs 14 to 18, one that was seen before 24, and one that must be verified 540,
// good or forged. A rule asks once for its condition and once for its key, so a request is verified
// once and seen several times. Give strangers a limit that a processor can bear: a flood of forged
// signatures costs it some 60 microseconds each.
//
// # Why no library
//
// The package verifies by crypto/ed25519, and reads fields by weir's own parser of structured fields.
// Of the libraries for RFC 9421 in Go, none rebuilt all components of these drafts when they were
// tried on 2026-11-29. docs/contracts.md has the reasons.
//
// # Directories
//
// The keys of a directory are given, or fetched from its URL when a request first needs them. Fetches
// are bounded: 64 KiB, 64 keys, 10 seconds, one at a time for a directory, no redirect, no address
// that is not public. Keys are used for as long as the answer is fresh, at least a minute and at most
// an hour, and renewed in the background before that. If a fetch fails, the last known keys stay, and
// the next one begins 5 seconds to 5 minutes later. A request waits half a second at most. A key that
// is not known causes no fetch, so an agent should publish a key an hour before it signs by it.
package agents
