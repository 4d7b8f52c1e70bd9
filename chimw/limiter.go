package chimw

import (
	"context"
	"net/http"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/keyfuncs"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
	"github.com/weir-go/weir/nethttp"
)

// Rule is a rule for HTTP requests: see [core.Rule].
type Rule = nethttp.Rule

// Config configures a [Limiter]: see [nethttp.ConfigOf].
type Config = nethttp.Config

// Limiter limits the requests of chi routers. It is a [nethttp.Limiter]: pass its
// method Handler to Use and With. It is safe for concurrent use.
type Limiter = nethttp.Limiter

// New returns a limiter. The error reports every mistake in config.
func New(config Config) (*Limiter, error) { return nethttp.New(config) }

// MustNew is [New] for package variables. It panics if config has a mistake.
func MustNew(config Config) *Limiter { return nethttp.MustNew(config) }

// PerAddress is [nethttp.PerAddress]. source may be [ClientIP].
func PerAddress(
	rate limits.Rate, source keyfuncs.AddrSource, backend ...backends.Backend,
) (*Limiter, error) {
	return nethttp.PerAddress(rate, source, backend...)
}

// MustPerAddress is [PerAddress] for package variables. It panics on a mistake.
func MustPerAddress(
	rate limits.Rate, source keyfuncs.AddrSource, backend ...backends.Backend,
) *Limiter {
	return nethttp.MustPerAddress(rate, source, backend...)
}

// OutcomeFrom returns the outcome of the request with context ctx, and whether there is
// one. With several limiters, it is the outcome of the innermost one that has
// [Config].OutcomeInContext set.
func OutcomeFrom(ctx context.Context) (core.Outcome, bool) { return nethttp.OutcomeFrom(ctx) }

// Detach is [nethttp.Detach].
func Detach(ctx context.Context) (end func(core.Result), ok bool) { return nethttp.Detach(ctx) }

// Spend is [nethttp.Spend].
func Spend(ctx context.Context, rule string, n int64) bool { return nethttp.Spend(ctx, rule, n) }

// PlainText is [nethttp.PlainText], for [Config].Denied.
func PlainText(w http.ResponseWriter, r *http.Request, o core.Outcome) {
	nethttp.PlainText(w, r, o)
}
