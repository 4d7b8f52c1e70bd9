package agents

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"hash/maphash"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/internal/http/gate"
	"github.com/weir-go/weir/keyfuncs"
	"github.com/weir-go/weir/keyfuncs/agents/internal/directory"
	"github.com/weir-go/weir/keyfuncs/agents/internal/httpsig"
	"github.com/weir-go/weir/limits"
)

// tag is the tag of the signatures of agents.
const tag = "web-bot-auth"

const algorithm = "ed25519"

// agentComponent is the component that each signature must cover anyhow, whole or its member.
const agentComponent = "signature-agent"

// maxTried is how many signatures of a request are verified.
const maxTried = 3

// Verifier verifies the signatures of agents. It is safe for concurrent use. It keeps the keys of
// directories, and which signatures it has seen to be good, in bounded memory. Make one with [New].
type Verifier struct {
	config      Config
	authorities authorities
	known       map[string]*source // by the usual spellings of their URL
	unlisted    *unlisted
	memo        memo
	settled     settled
	asks        string // the value of Accept-Signature, up to a nonce
}

// New returns a verifier. The error reports every mistake in config. New fetches nothing.
func New(config Config) (*Verifier, error) {
	config = config.clone()
	known, err := config.compile()
	if err != nil {
		return nil, err
	}
	config.Previous = nil // which would keep those before it
	return &Verifier{
		config: config, authorities: newAuthorities(config.Authorities), known: known,
		unlisted: newUnlisted(config.Unlisted, config.Transport, config.OnFetch), asks: asks(config.Components),
		settled: settled{seed: maphash.MakeSeed()},
	}, nil
}

// MustNew is [New] for package variables. It panics if config has a mistake.
func MustNew(config Config) *Verifier { return gate.Must(New(config)) }

// Agent is the signer of a request.
type Agent struct {
	// Name is who is counted: the Name of its [Directory]. For a directory that is not listed it is
	// "unlisted:" and the registered domain, such as "unlisted:bot.example" for https://a.bot.example, so
	// that no number of subdomains has more than one budget. A domain that gives names away is one, too:
	// https://a.github.io is "unlisted:github.io".
	Name string

	// Directory is the URL of the agent's directory, without a query.
	Directory string

	// Listed reports whether it is among the Directories of the Config.
	Listed bool

	// Thumbprint is that of the key: see [Thumbprint].
	Thumbprint string

	// Nonce is the nonce of the signature, or "".
	Nonce string

	// Created and Expires are when the signature was made, and until when it is good.
	Created, Expires time.Time
}

// Verify returns the agent that has signed r. Without a signature for [Web Bot Auth] the error is
// [core.ErrAbsent]. If there is one, and it is not good or cannot be judged, the error wraps
// [ErrInvalid] or [ErrUnverified]. If there are several, the first good one counts, of three.
//
// Verify may wait half a second for the first fetch of a directory, and for one whose keys have
// expired. It does not read the body. If it says ErrUnverified of a request, or that its signature is
// of the future, it says so for five seconds, so that all rules count the same request.
//
// [Web Bot Auth]: https://datatracker.ietf.org/doc/draft-ietf-webbotauth-httpsig-protocol/
func (v *Verifier) Verify(r *http.Request) (Agent, error) {
	if !httpsig.Signed(r.Header) {
		return Agent{}, core.ErrAbsent
	}
	signatures, err := httpsig.Find(r.Header, tag)
	if err != nil {
		return Agent{}, errMalformed
	}
	if err := v.settled.find(r); err != nil {
		return Agent{}, err
	}
	err, settle := core.ErrAbsent, false
	for i := range min(len(signatures), maxTried) {
		agent, why := v.verify(r, &signatures[i])
		if why == nil {
			return agent, nil
		}
		if i == 0 {
			err = why
		}
		settle = settle || mayPass(why)
	}
	if settle {
		v.settled.add(r, err)
	}
	return Agent{}, err
}

// verify verifies a signature of r. What costs least comes first.
func (v *Verifier) verify(r *http.Request, s *httpsig.Signature) (Agent, error) {
	now := time.Now()
	if err := v.checkTimes(s, now); err != nil {
		return Agent{}, err
	}
	m := httpsig.Message{Request: r, Scheme: v.config.Scheme}
	if err := v.checkCovered(s, &m); err != nil {
		return Agent{}, err
	}
	url, ok := signatureAgent(r.Header["Signature-Agent"], s)
	if !ok {
		return Agent{}, errAgent
	}
	from, err := v.source(url)
	if err != nil {
		return Agent{}, err
	}
	key, err := from.find(r.Context(), s.KeyID, now)
	if err != nil {
		return Agent{}, err
	}
	var room [1024]byte
	base, err := s.AppendBase(room[:0], m)
	if err != nil {
		return Agent{}, errMissing
	}
	if !v.memo.verify(s, key.Public, base) {
		return Agent{}, errForged
	}
	return Agent{
		Name: from.name, Directory: from.id, Listed: from.listed, Thumbprint: s.KeyID, Nonce: s.Nonce,
		Created: time.Unix(s.Created, 0), Expires: time.Unix(s.Expires, 0),
	}, nil
}

// checkTimes checks the parameters of a signature.
func (v *Verifier) checkTimes(s *httpsig.Signature, now time.Time) error {
	at := now.Unix()
	switch {
	case s.Created == 0 || s.Expires <= s.Created || s.KeyID == "" ||
		s.Algorithm != "" && s.Algorithm != algorithm:
		return errParameters
	case s.Created > at+seconds(v.config.MaxSkew):
		return errFuture
	case s.Expires <= at:
		return errExpired
	case s.Expires-s.Created > seconds(v.config.MaxLifetime):
		return errLifetime
	case s.Nonce == "" && v.config.RequireNonce:
		return errNonce
	}
	return nil
}

// seconds returns d in whole seconds, rounded down.
func seconds(d time.Duration) int64 { return int64(d / time.Second) }

// checkCovered checks what a signature covers, and that it is for this site.
func (v *Verifier) checkCovered(s *httpsig.Signature, m *httpsig.Message) error {
	if !s.Covers("@authority") && !s.Covers("@target-uri") {
		return errComponents
	}
	for _, name := range v.config.Components {
		if name != agentComponent && !s.Covers(name) {
			return errComponents
		}
	}
	if !v.authorities.contains(m.Authority()) {
		return errAuthority
	}
	return nil
}

// fetched returns the directory that v fetches from a place, or nil.
func (v *Verifier) fetched(place directory.Place) *directory.Directory {
	if v == nil {
		return nil
	}
	if s := v.known[place.URL]; s != nil && s.id == place.ID {
		return s.remote
	}
	return nil
}

// source returns the directory with a URL.
func (v *Verifier) source(url string) (*source, error) {
	if s := v.known[url]; s != nil {
		return s, nil
	}
	place, err := directory.ParsePlace(url)
	if err != nil {
		return nil, errAgent
	}
	if s := v.known[place.ID]; s != nil {
		return s, nil
	}
	return v.unlisted.find(place)
}

// find returns the key with a thumbprint that is good now.
func (s *source) find(ctx context.Context, thumbprint string, now time.Time) (directory.Key, error) {
	keys := s.keys
	if s.remote != nil {
		var err error
		if keys, err = s.remote.Keys(ctx); err != nil {
			return directory.Key{}, errUnavailable
		}
	}
	key, ok := keys[thumbprint]
	if !ok || !key.IsGood(now) {
		return directory.Key{}, errNoKey
	}
	return key, nil
}

// Key is the key function of the agent that has signed the request: its name, as in [Agent]. It
// returns [core.ErrAbsent] for a request that no agent has signed, or whose signature is not good or
// cannot be judged. So such requests count as those of strangers, and a false signature gains
// nothing:
//
//	Key: keyfuncs.FirstNamed(
//		keyfuncs.Named("agent", verifier.Key),
//		keyfuncs.Named("address", keyfuncs.Address(keyfuncs.Peer)),
//	)
//
// Another key costs a client another directory in the list of the Config. For directories that are
// not listed it costs a registered domain. Another key of a directory does not change the name.
func (v *Verifier) Key(r *http.Request) (string, error) {
	agent, err := v.Verify(r)
	if err != nil {
		return "", core.ErrAbsent
	}
	return agent.Name, nil
}

// Signed reports whether an agent has signed the request, and the signature is good. It is a
// condition for [core.When].
func (v *Verifier) Signed(r *http.Request) bool {
	_, err := v.Verify(r)
	return err == nil
}

// Nonce is the key function of the nonce of a signature: a digest of the nonce and of the key that
// has signed. A rule with this key and the limit [Verifier.Once] does not apply to requests without
// a good signature, or without a nonce.
//
// Another key costs an agent a signature of its own. A copy of a request has the same key.
func (v *Verifier) Nonce(r *http.Request) (string, error) {
	agent, err := v.Verify(r)
	if err != nil || agent.Nonce == "" {
		return "", core.ErrDoesNotApply
	}
	return keyfuncs.Digest(agent.Thumbprint + " " + agent.Nonce), nil
}

// Once returns the limit by which a nonce counts once, as long as its signature can be good. It is
// for a rule whose key is Nonce:
//
//	{Name: "replay", Limit: verifier.Once(), Key: verifier.Nonce, OnFailure: core.FailClosed, Hidden: true}
//
// The rule denies a request whose signature was used for an allowed one. It is hidden, since a
// client cannot wait for its units.
//
// A store in memory that is full forgets no nonce: it denies new ones until old ones end. A Redis
// that is full, or does not answer, is a failure: by FailClosed agents get a 503 meanwhile, since a
// fallback does not know which nonces were used. Strangers notice neither, as the rule does not apply
// to them. Redis must not evict keys.
func (v *Verifier) Once() limits.Limit {
	// A signature is good from MaxSkew before created, by our clock, to its end. A bucket of one unit
	// counts as a sliding log of one does, and costs Redis less than half: see BenchmarkNonceInRedis.
	return limits.TokenBucket(limits.Per(1, v.config.MaxLifetime+v.config.MaxSkew+time.Second), 1)
}

// Invalid reports whether the request has a signature for Web Bot Auth that is not valid:
// [ErrInvalid]. It is a condition for [core.When], to give such requests a small limit, or none.
// Without such a rule they count as strangers.
func (v *Verifier) Invalid(r *http.Request) bool {
	_, err := v.Verify(r)
	return isInvalid(err)
}

// Challenge returns a Denied for a limiter of package nethttp, which asks for a signature: it adds
// the field Accept-Signature to a 429 for a request that no agent has signed, or whose signature is
// not good or was used before. A client that can sign repeats such a request signed, and gets the
// limit of an agent. It then calls denied to answer. Agents that have used up their limit get no such
// field.
//
// Use it for limiters of routes that agents may use. It costs what [Verifier.Verify] does, and
// verifies nothing for a request without a signature. Of a signature that was used before, it says
// so, and deletes Retry-After: the next one needs no wait.
//
// nil: it answers as a limiter without a Denied does, with one more sentence. The document names no
// rule.
func (v *Verifier) Challenge(denied func(http.ResponseWriter, *http.Request, core.Outcome),
) func(http.ResponseWriter, *http.Request, core.Outcome) {
	return func(w http.ResponseWriter, r *http.Request, o core.Outcome) {
		said := ""
		if o.Verdict() == core.Denied && o.Status() == http.StatusTooManyRequests {
			said = v.challenge(w.Header(), r, &o)
		}
		if denied != nil {
			denied(w, r, o)
			return
		}
		answerDenied(w, r, &o, said)
	}
}

// challenge sets Accept-Signature if the request needs it, and returns what to say then.
func (v *Verifier) challenge(h http.Header, r *http.Request, o *core.Outcome) (said string) {
	agent, err := v.Verify(r)
	switch {
	case err != nil:
		said = signToGet
	case v.replayed(r, agent, o):
		h.Del("Retry-After")
		said = signAnew
	default:
		return ""
	}
	value := v.asks
	if v.config.RequireNonce {
		var nonce [64]byte // the length that other verifiers want
		rand.Read(nonce[:])
		value += `;nonce="` + base64.StdEncoding.EncodeToString(nonce[:]) + `"`
	}
	h["Accept-Signature"] = []string{value}
	return said
}

// replayed reports whether rules by Nonce alone have denied the request.
func (v *Verifier) replayed(r *http.Request, agent Agent, o *core.Outcome) bool {
	nonce, err := v.Nonce(r)
	if agent.Nonce == "" || err != nil {
		return false
	}
	denials := 0
	for i := range o.Len() {
		d := o.At(i)
		if d.Allowed || d.Mode() != core.Enforce {
			continue
		}
		if d.Key != nonce {
			return false
		}
		denials++
	}
	return denials > 0
}

// asks returns the value of Accept-Signature (RFC 9421, section 5.1) without a nonce.
func asks(components []string) string {
	var b strings.Builder
	b.WriteString(`sig1=("@authority" "signature-agent";key="sig1"`)
	for _, name := range components {
		if name != "@authority" && name != agentComponent {
			b.WriteString(" " + strconv.Quote(name))
		}
	}
	b.WriteString(`);created;expires;alg="` + algorithm + `";tag="` + tag + `"`)
	return b.String()
}
