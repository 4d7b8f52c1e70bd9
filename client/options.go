package client

import (
	"errors"
	"fmt"
	"math"
	"net/http"
	"time"

	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
)

// Pace says how requests are spread over what a server says is left.
type Pace uint8

const (
	// WhenLow sends without delay until a tenth of the limit is left, or two requests.
	// It then spreads the rest over the time for which they have to last. The requests that
	// have waited for a limit to renew are spread in the same way. It spreads neither if
	// the limit renews all at once and nobody else uses it.
	WhenLow Pace = iota
	// Evenly spreads requests from the first.
	Evenly
	// Off does not look at what is left. It waits only after a denial.
	Off
)

// Dialect says whose answers a Transport understands.
type Dialect uint8

const (
	// Standard is what RFC 9110, RFC 6585 and the drafts of the RateLimit fields say, with
	// the X-RateLimit fields.
	Standard Dialect = iota
	// GitHub has limits for each resource, such as core and search, and secondary limits for all
	// requests of an account together. A denial may be a 403. Requests that change something are 80
	// in a minute and 500 in an hour at most; in the hour after a secondary limit has denied one
	// they start a second apart. A denial that says nothing asks for a minute.
	GitHub
	// Discord has a limit for each bucket, which answers name, and a global one for each
	// account. No more than 9,500 requests in ten minutes may be answered 401, 403 or 429:
	// at 10,000 Discord shuts the address out.
	Discord
)

// Options are the options of [New]. The zero value is ready to use.
type Options struct {
	// Base sends the requests. nil: [http.DefaultTransport].
	Base http.RoundTripper

	// Bucket names the limit that counts a request. All requests of one bucket wait
	// together. It is called for every request and must be safe for concurrent use. Name
	// the path too if a server limits its paths apart. GitHub and Discord divide a bucket
	// further. nil: scheme, host, and a digest of the field Authorization; and the path if its
	// requests are denied without a wait, and those of other paths are not.
	Bucket func(*http.Request) string

	// Limit is a cap of your own on each bucket, kept in addition to what the server says.
	// It is for servers that say nothing, and for processes that share a limit. Zero: none.
	Limit limits.Limit

	// Backend keeps Limit. Processes with one Backend share the cap of a bucket. While it
	// fails, each process keeps the whole cap by itself. nil: the memory of this process.
	Backend backends.Backend

	// Account is how many requests all buckets of an account may send together, in any period.
	// It is kept in this process. Only dialects have accounts. Zero: 50 a second for Discord,
	// and none for GitHub.
	Account limits.Rate

	// Denials are statuses that deny without saying for how long, as 429 does. nginx answers
	// so with 503 if limit_req_status is not set. Nothing says that nothing was done: requests
	// are repeated as for a 503 that has Retry-After. nil: none.
	Denials []int

	// MaxInFlight is how many requests of one bucket are under way at once, until their
	// answers are read or closed. 0: no cap.
	MaxInFlight int

	// MaxWait is how long one request waits at most, all its waits together. Without a denial, nothing
	// holds all requests of a bucket back for longer than twice that: one is let through, to see. 0: 30 seconds.
	MaxWait time.Duration

	// Attempts is how often one request is sent at most. 0: 3. 1: none is repeated.
	Attempts int

	// Pace spreads requests. Zero: WhenLow.
	Pace Pace

	// Dialect is whose answers are understood. Zero: Standard.
	Dialect Dialect

	// Observe is told what happens: see [EventKind]. It is called on the goroutine of the request,
	// while nothing is locked. It must be quick and safe for concurrent use. nil: nothing.
	Observe func(Event)
}

const (
	defaultMaxWait  = 30 * time.Second
	mostMaxWait     = math.MaxInt64 / 4 // 73 years: instants are computed from it
	defaultAttempts = 3
)

// validate returns an error that reports every mistake in o.
func (o *Options) validate() error {
	var errs []error
	if o.Limit != (limits.Limit{}) {
		if err := o.Limit.Validate(); err != nil {
			errs = append(errs, fmt.Errorf("client: limit: %w", err))
		} else if _, err := newLimiter(o.Limit, o.Backend); err != nil {
			errs = append(errs, fmt.Errorf("client: backend: cannot keep Limit: %w", err))
		}
	} else if o.Backend != nil {
		errs = append(errs, errors.New("client: backend: keeps Limit, which is not set: set it or remove Backend"))
	}
	if o.Account != (limits.Rate{}) {
		switch {
		case o.Dialect == Standard:
			errs = append(errs, errors.New("client: account: Standard has no accounts: use Limit"))
		case o.Account.Units < 1 || o.Account.Units > maxAccountUnits || o.Account.Period <= 0:
			errs = append(errs, fmt.Errorf("client: account: must be 1 to %d units in a positive period (got %d in %v)", maxAccountUnits, o.Account.Units, o.Account.Period))
		}
	}
	for _, status := range o.Denials {
		if status < 400 || status > 599 || status == http.StatusTooManyRequests {
			errs = append(errs, fmt.Errorf("client: denials: must be 400 to 599, and not 429, which always denies (got %d)", status))
		}
	}
	if o.MaxInFlight < 0 {
		errs = append(errs,
			fmt.Errorf("client: max in flight: must be positive, or 0 for any number (got %d)", o.MaxInFlight))
	}
	if o.MaxWait < 0 {
		errs = append(errs, fmt.Errorf("client: max wait: must be positive, or 0 for %v (got %v)", defaultMaxWait, o.MaxWait))
	}
	if o.Attempts < 0 {
		errs = append(errs,
			fmt.Errorf("client: attempts: must be positive, or 0 for %d (got %d)", defaultAttempts, o.Attempts))
	}
	if o.Pace > Off {
		errs = append(errs, fmt.Errorf("client: pace: must be WhenLow, Evenly or Off (got %d)", o.Pace))
	}
	if o.Dialect > Discord {
		errs = append(errs, fmt.Errorf("client: dialect: must be Standard, GitHub or Discord (got %d)", o.Dialect))
	}
	return errors.Join(errs...)
}
