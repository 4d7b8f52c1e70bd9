package headers

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/internal/ground/turns"
)

// Options are the options of [New]. The zero value is ready to use.
type Options struct {
	// Formats are the fields to write. IETF and Draft7 exclude each other, and so do
	// GitHub, DeltaSeconds, Discord and EpochSeconds. Draft6 beside IETF omits its
	// RateLimit-Policy. OpenAI and Anthropic go with any. nil: IETF. Empty but not nil: none; Custom
	// must be set then.
	Formats []Format

	// Show selects the answers that get the fields. Zero: Always.
	Show Show

	// Custom adds fields of your own, or changes those that the formats wrote. It is called after
	// the formats, for the same answers: see Show. It is not called if the status is 503, and never
	// if Show is Omit.
	//
	// The outcome has all rules, whatever Show is. With OnDenial, publish only the rules that
	// denied. Never publish a key, or a rule that is [core.RuleDecision.Hidden]. The numbers of a
	// decision are valid only if [limits.Source.Counted] is true for it.
	//
	// Custom must be quick and safe for concurrent use. It must not keep the header. It must not
	// shorten Retry-After: a client would come back too early and be denied. nil: nothing.
	Custom func(http.Header, core.Outcome)

	// ShadowField names a field, such as "X-Shadow-Denied", that lists the shadow rules that would
	// have denied the request, hidden ones too. Use it to test a limit before it is enforced. Clients
	// should not see it. "": none.
	ShadowField string

	// RetryAfter selects the value of Retry-After on a denial. Zero: LeastWait.
	RetryAfter RetryAfter

	// MaxRetryAfter is the longest wait that Retry-After tells, at least a second. Above it the answer
	// has neither Retry-After nor the member retry_after: many clients sleep through any wait they are
	// told, and lose a worker for it, or ignore it and come back at once. t and reset of the formats
	// keep the true wait, and so do the text of the answer and the details of a remote call. A shorter
	// number than the true one is not written, since the client would be denied again. It does not go
	// with Discord, whose libraries need the wait. 0: no bound.
	MaxRetryAfter time.Duration

	// PartitionKey returns the parameter pk of IETF for the key of a decision. It serves clients
	// that use several keys at once. The parameter must not reveal the key: [Digest] is a
	// ready-made function. Only the members of RateLimit have pk, so RateLimit-Policy is the same
	// on all answers. It is omitted if the result is empty or the request had no key. nil: no pk.
	PartitionKey func(key string) []byte

	// BurstParameter names a parameter of RateLimit-Policy of IETF that shows the burst of a bucket or
	// the capacity of a queue. q and w are then the rate: 100 per minute with a burst of 1000 reads
	// q=100;w=60;burst=1000, and r may exceed q. If the units of the rate exceed the burst, or its
	// period has a part of a second, q is the burst as without this option: a client may ignore
	// parameters that it does not know. The draft recommends a prefix for such parameters, as in
	// "acme-burst" (draft -11, section 3.1); its FAQ writes "burst". "": none.
	BurstParameter string

	// CostParameter names a parameter of RateLimit of IETF that shows how many units this request
	// takes: "c" in a pending change of the draft (pull request 166), or a name with a prefix. With
	// "c", RateLimit reads "tokens";r=8500;t=51;c=1500. On a denial it is what the request would
	// have taken. It is an estimate if the rule has a FinalCost. "": none.
	CostParameter string

	// CapPace raises t of IETF so that r per t seconds is never a faster pace than q per w seconds
	// (draft -11, section 8.5). It matters near the end of a fixed or anchored window, when all its
	// units may be left for one second. If a request was denied because its cost exceeds a positive
	// remaining, Retry-After rises with t.
	CapPace bool

	// NotOnRedirects deletes the fields of all formats from an answer with a status of 300 to 399
	// other than 304. A client that reads a low r there may wait before it follows Location (draft
	// -11, section 6). The adapters apply it: each passes on a ResponseWriter that waits for the
	// status. With a [Writer] alone, call [Delete] before the redirect. It has no effect on gRPC and
	// Connect.
	NotOnRedirects bool

	// NotOnStorable deletes the fields of all formats from an answer that shared caches may store:
	// Cache-Control says public, max-age or s-maxage, or Expires is to come, and Cache-Control says
	// neither no-store nor private; or it has an X-Accel-Expires. A cache would send the fields of one
	// client to all others. The adapters apply it as NotOnRedirects.
	NotOnStorable bool

	// Body selects the members of problem documents. Zero: SDKs.
	Body Body

	// Jitter spreads clients that were denied together, so that they do not come back
	// together. A random time from 0 to Jitter is added to Retry-After, and the same
	// time to t of the rules that did not allow the request. At most 24h. 0: none.
	Jitter time.Duration

	// MaxPromise gives each of the clients that wait under one key a turn of its own, up to so far
	// ahead: 2s to 24h. Retry-After is then the shortest wait for a client that is alone, and for
	// those who wait together as many are told to come back in each second as the limit then admits.
	// t and the other fields say the same, as with Jitter. The adapters set [core.Config].MaxPromise
	// to it, which says more; a program with a [Writer] of its own sets both. It does not go with
	// Jitter, which would move clients out of their turns, and is at most MaxRetryAfter, if that is
	// set. 0: every client is told the least wait.
	MaxPromise time.Duration

	// DiscordScopes maps names of rules to the X-RateLimit-Scope of their denials: see
	// [DiscordScope]. nil: none.
	DiscordScopes map[string]DiscordScope
}

const maxJitter = 24 * time.Hour

// Validate returns an error that reports every mistake in options for a limiter with these rules.
// [New] calls it and also reports mistakes in the rules. Call Validate alone if those were reported
// elsewhere.
func Validate[R any](options Options, rules []core.Rule[R]) error {
	return options.validate(policiesOf(rules))
}

func (o *Options) validate(policies []policy) error {
	errs := validateFormats(o.Formats)
	if o.Formats != nil && len(o.Formats) == 0 && o.Custom == nil {
		errs = append(errs, errors.New("headers: formats: is empty: use nil for IETF"))
	}
	if o.Show > Omit {
		errs = append(errs,
			fmt.Errorf("headers: show: must be Always, OnDenial or Omit (got %d)", o.Show))
	}
	if o.RetryAfter > Window {
		errs = append(errs,
			fmt.Errorf("headers: retry after: must be LeastWait or Window (got %d)", o.RetryAfter))
	}
	if o.Body > Bots {
		errs = append(errs, fmt.Errorf("headers: body: must be SDKs or Bots (got %d)", o.Body))
	}
	if o.MaxRetryAfter < 0 || o.MaxRetryAfter > 0 && o.MaxRetryAfter < time.Second {
		errs = append(errs, fmt.Errorf(
			"headers: max retry after: must be at least a second, or 0 for no bound (got %v)",
			o.MaxRetryAfter))
	}
	if o.MaxRetryAfter > 0 && slices.Contains(o.Formats, Discord) {
		errs = append(errs, errors.New("headers: max retry after: libraries for Discord ask without "+
			"an end, or fail, if retry_after is missing: set none, or leave Discord out of formats"))
	}
	if o.Jitter < 0 || o.Jitter > maxJitter {
		errs = append(errs, fmt.Errorf("headers: jitter: must be 0 to 24h (got %v)", o.Jitter))
	}
	if err := turns.Validate(o.MaxPromise); err != nil {
		errs = append(errs, fmt.Errorf("headers: max promise: %w", err))
	} else if o.MaxPromise > 0 && o.Jitter > 0 {
		errs = append(errs, errors.New(
			"headers: max promise: jitter would move clients out of their turns: remove one of them"))
	}
	if o.MaxRetryAfter >= time.Second && o.MaxPromise > o.MaxRetryAfter {
		errs = append(errs, fmt.Errorf(
			"headers: max promise: must be at most max retry after, %v: no longer wait is told (got %v)",
			o.MaxRetryAfter, o.MaxPromise))
	}
	if ietf := o.Formats == nil || slices.Contains(o.Formats, IETF); !ietf {
		if o.PartitionKey != nil {
			errs = append(errs,
				errors.New("headers: partition key: only IETF has one: add IETF to formats"))
		}
		if o.CapPace {
			errs = append(errs,
				errors.New("headers: cap pace: only IETF has a pace: add IETF to formats"))
		}
		if o.BurstParameter != "" {
			errs = append(errs,
				errors.New("headers: burst parameter: only IETF has one: add IETF to formats"))
		}
		if o.CostParameter != "" {
			errs = append(errs,
				errors.New("headers: cost parameter: only IETF has one: add IETF to formats"))
		}
	}
	if err := validateParameter(o.BurstParameter); err != nil {
		errs = append(errs, fmt.Errorf("headers: burst parameter: %w", err))
	}
	if o.CostParameter != costParameter {
		if err := validateParameter(o.CostParameter); err != nil {
			errs = append(errs, fmt.Errorf("headers: cost parameter: %w", err))
		}
	}
	if err := validateShadowField(o.ShadowField); err != nil {
		errs = append(errs, err)
	}
	return errors.Join(append(errs, o.validateNames(policies)...)...)
}

// validateParameter returns an error if name is not the key of a parameter (RFC 9651, section
// 3.1.2), or if a draft uses it for something else. "" is no parameter.
func validateParameter(name string) error {
	if name == "" {
		return nil
	}
	for i := range len(name) {
		if c := name[i]; (c < 'a' || c > 'z') && (i == 0 || strings.IndexByte("0123456789_-.*", c) < 0) {
			return fmt.Errorf("must be lower-case letters, digits, and _-.*, and begin with a "+
				"letter (got %.30q)", name)
		}
	}
	for _, p := range []*parameters{&draft11, &draft12} {
		if name == p.quota || name == p.unit || name == p.window || name == p.available ||
			name == p.effective || name == p.partition || name == costParameter {
			return fmt.Errorf("%q is a parameter of the draft: choose another name", name)
		}
	}
	return nil
}

func validateFormats(formats []Format) (errs []error) {
	for i, f := range formats {
		if !f.known() {
			errs = append(errs,
				fmt.Errorf("headers: formats: must be IETF, Draft7, Draft6, GitHub, "+
					"DeltaSeconds, Discord, EpochSeconds, OpenAI or Anthropic (got %d)", uint8(f)))
		} else if first := slices.Index(formats, f); first < i &&
			!slices.Contains(formats[first+1:i], f) {
			errs = append(errs, fmt.Errorf("headers: formats: %v is listed more than once", f))
		}
	}
	for _, c := range conflicts {
		if slices.Contains(formats, c.a) && slices.Contains(formats, c.b) {
			errs = append(errs,
				fmt.Errorf("headers: formats: %v and %v %s: choose one", c.a, c.b, c.why))
		}
	}
	return errs
}

func (o *Options) validateNames(policies []policy) (errs []error) {
	if len(o.DiscordScopes) > 0 && !slices.Contains(o.Formats, Discord) {
		errs = append(errs,
			errors.New("headers: discord scopes: only Discord has a scope: add Discord to formats"))
	}
	for _, name := range slices.Sorted(maps.Keys(o.DiscordScopes)) {
		if !named(policies, name) {
			errs = append(errs, fmt.Errorf("headers: discord scopes: there is no rule %q", name))
		}
		if scope := o.DiscordScopes[name]; scope != DiscordShared && scope != DiscordGlobal {
			errs = append(errs,
				fmt.Errorf("headers: discord scopes: rule %q: must be DiscordShared or "+
					"DiscordGlobal (got %q)", name, scope))
		}
	}
	return errs
}

// named reports whether a policy has the name.
func named(policies []policy, name string) bool {
	return slices.ContainsFunc(policies, func(p policy) bool { return p.name == name })
}

// RetryAfter selects the value of Retry-After on a denial. In each case the value is at least the
// shortest wait that works, and Retry-After is omitted if no wait helps.
type RetryAfter uint8

const (
	// LeastWait is the longest wait among the rules that denied. A client that comes
	// back after it is allowed, unless it has sent other requests meanwhile.
	LeastWait RetryAfter = iota
	// Window is the longest window of the rules that denied (w of their policies), or LeastWait if
	// that is longer. A concurrency limit has no window. Window suits clients that expect the same
	// number in all denials, as httprate sends it. They wait longer than necessary. The parameter t
	// of IETF stays the least wait. The reset of Draft6 and Draft7 equals Retry-After on denials,
	// as always.
	Window
)

// validateShadowField returns an error if name is not a field name, or if denials have that field
// anyway.
func validateShadowField(name string) error {
	if name == "" {
		return nil
	}
	for i := range len(name) {
		if c := name[i]; c <= ' ' || c > '~' || strings.IndexByte("\"(),/:;<=>?@[\\]{}", c) >= 0 {
			return fmt.Errorf("headers: shadow field: %.30q is not the name of a field", name)
		}
	}
	if key := http.CanonicalHeaderKey(name); key == "Retry-After" ||
		strings.Contains(key, "Ratelimit") {
		return errors.New(
			"headers: shadow field: must not be a field that clients read limits from")
	}
	return nil
}
