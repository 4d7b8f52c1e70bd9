package client

import (
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
)

// Pace says how requests are spread over the rest of a limit.
type Pace uint8

const (
	// WhenLow sends without delay until a tenth of the limit is left, or two requests. Then it
	// spreads the rest over the time until the limit renews. Requests that have waited for a limit
	// to renew are spread in the same way. It spreads neither if the limit renews all at once and
	// no other client uses it.
	WhenLow Pace = iota
	// Evenly spreads requests from the first.
	Evenly
	// Off ignores how much is left. It waits only after a denial.
	Off
)

// Dialect says whose answers a Transport understands.
type Dialect uint8

const (
	// Standard is RFC 9110, RFC 6585, the drafts of the RateLimit fields, and the X-RateLimit
	// fields.
	Standard Dialect = iota
	// GitHub has limits for each resource, such as core and search, and secondary limits for all
	// requests of an account together. A denial may be a 403. Requests that change something are
	// limited to 80 a minute and 500 an hour; in the hour after a secondary limit has denied one
	// they start a second apart. A denial without a wait asks for a minute.
	GitHub
	// Discord has a limit for each bucket, which answers name, and a global one for each account.
	// At most 9,500 requests in ten minutes may be answered 401, 403 or 429: at 10,000 Discord
	// blocks the address.
	Discord
	// OpenAI has limits of requests and of tokens, in the fields of
	// https://platform.openai.com/docs/guides/rate-limits: x-ratelimit-remaining-tokens and its
	// sisters. A limit refills evenly until its reset. [Options.Tokens] says what a request costs.
	OpenAI
	// Anthropic has limits of requests, of all tokens, of input tokens and of output tokens, in the
	// fields of https://platform.claude.com/docs/en/api/rate-limits:
	// anthropic-ratelimit-tokens-remaining and its sisters. Limits refill as those of OpenAI. The
	// default Bucket tells API keys apart by the field X-Api-Key.
	Anthropic
)

// countsTokens reports whether answers tell how many tokens are left.
func (d Dialect) countsTokens() bool { return d == OpenAI || d == Anthropic }

// hasAccounts reports whether buckets belong to accounts.
func (d Dialect) hasAccounts() bool { return d == GitHub || d == Discord }

// Options are the options of [New]. The zero value is ready to use.
type Options struct {
	// Base sends the requests. nil: [http.DefaultTransport].
	Base http.RoundTripper

	// Bucket names the limit that counts a request. All requests of one bucket wait together. It is
	// called for every request and must be safe for concurrent use. Put the path into the name if a
	// server limits its paths apart. GitHub and Discord divide a bucket further. OpenAI and
	// Anthropic limit each model apart: put it into the name. nil: scheme, host, and a digest of the
	// field Authorization; and the path if its requests are denied without a
	// wait, and those of other paths are not.
	Bucket func(*http.Request) string

	// Limit is a cap of your own on each bucket, in addition to the limits of the server. Use it
	// for servers that tell nothing, and for processes that share a limit. Zero: no cap.
	Limit limits.Limit

	// Backend keeps Limit. Processes with one Backend share the cap of a bucket. While it fails,
	// each process keeps the whole cap by itself. nil: the memory of this process.
	Backend backends.Backend

	// Account limits the requests of all buckets of an account together, in any period. It is kept
	// in this process. Only dialects have accounts. Zero: 50 a second for Discord, and no limit for
	// GitHub.
	Account limits.Rate

	// Denials are statuses that deny without a wait, as 429 does. nginx denies with 503 unless
	// limit_req_status is set. Such a status does not say that nothing was done, so requests are
	// repeated under the same conditions as after a 503 with Retry-After. nil: no other status.
	Denials []int

	// MaxInFlight limits the requests of one bucket in flight. A request is in flight until its
	// answer is read or closed. 0: no limit.
	MaxInFlight int

	// MaxWait limits how long one request waits, all its waits together. Without a denial, nothing
	// holds back all requests of a bucket for longer than twice that: one request is let through to
	// test the claim. 0: 30 seconds.
	MaxWait time.Duration

	// Attempts limits how often one request is sent. 0: 3. 1: no request is repeated.
	Attempts int

	// Pace spreads requests. Zero: WhenLow.
	Pace Pace

	// Dialect says whose answers are understood. Zero: Standard.
	Dialect Dialect

	// Tokens returns how many tokens a request may cost: those of the prompt, and the most that the
	// answer may have, such as max_tokens. Requests then wait until so many are left. It is called
	// once for each request, and must be safe for concurrent use. It must not read r.Body; r.GetBody
	// returns a copy of it. Only OpenAI and Anthropic count tokens. nil: a request waits only if no
	// token is left, until all are.
	Tokens func(r *http.Request) (input, output int64)

	// Observe receives events: see [EventKind]. It is called on the goroutine of the request,
	// without a lock. It must be quick and safe for concurrent use. nil: no events.
	Observe func(Event)
}

const (
	defaultMaxWait  = 30 * time.Second
	mostMaxWait     = math.MaxInt64 / 4 // 73 years: sums of instants must not overflow
	defaultAttempts = 3

	discordAccount  = 50     // requests a second, by "Rate Limits" in Discord's documentation
	maxAccountUnits = 10_000 // of Account: an instant is remembered for each
)

// compile returns o with its defaults and the limiter of Limit, nil without one. The error reports
// every mistake.
func (o Options) compile() (Options, *core.Limiter[string], error) {
	var errs []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf("client: "+format, args...))
		}
	}
	var limiter *core.Limiter[string]
	if o.Limit == (limits.Limit{}) {
		check(o.Backend == nil, "backend: keeps Limit, which is not set: set it")
	} else if err := o.Limit.Validate(); err != nil {
		check(false, "limit: %w", err)
	} else {
		limiter, err = newLimiter(o.Limit, o.Backend)
		check(err == nil, "backend: cannot keep Limit: %w", err)
	}
	if a := o.Account; a != (limits.Rate{}) {
		check(o.Dialect.hasAccounts(), "account: only GitHub and Discord have accounts: use Limit")
		check(!o.Dialect.hasAccounts() || a.Units >= 1 && a.Units <= maxAccountUnits && a.Period > 0,
			"account: must be 1 to %d units in a positive period (got %d in %v)",
			maxAccountUnits, a.Units, a.Period)
	}
	for _, status := range o.Denials {
		check(status >= 400 && status <= 599 && status != http.StatusTooManyRequests,
			"denials: must be 400 to 599, and not 429, which always denies (got %d)", status)
	}
	check(o.MaxInFlight >= 0,
		"max in flight: must be positive, or 0 for no limit (got %d)", o.MaxInFlight)
	check(o.MaxWait >= 0,
		"max wait: must be positive, or 0 for %v (got %v)", defaultMaxWait, o.MaxWait)
	check(o.Attempts >= 0,
		"attempts: must be positive, or 0 for %d (got %d)", defaultAttempts, o.Attempts)
	check(o.Pace <= Off, "pace: must be WhenLow, Evenly or Off (got %d)", o.Pace)
	check(o.Dialect <= Anthropic,
		"dialect: must be Standard, GitHub, Discord, OpenAI or Anthropic (got %d)", o.Dialect)
	check(o.Tokens == nil || o.Dialect.countsTokens(),
		"tokens: only OpenAI and Anthropic count tokens: set Dialect")

	o.Denials = slices.Clone(o.Denials)
	if o.MaxWait = min(o.MaxWait, mostMaxWait); o.MaxWait == 0 {
		o.MaxWait = defaultMaxWait
	}
	if o.Attempts == 0 {
		o.Attempts = defaultAttempts
	}
	if o.Dialect == Discord && o.Account == (limits.Rate{}) {
		o.Account = limits.PerSecond(discordAccount)
	}
	return o, limiter, errors.Join(errs...)
}
