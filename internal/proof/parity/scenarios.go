package parity

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/headers"
	"github.com/weir-go/weir/keyfuncs"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
	"github.com/weir-go/weir/nethttp"
)

// Key functions of *http.Request, which adapters lift.
var (
	clientSource = keyfuncs.MustSingleHeader("X-Client", "127.0.0.1", "::1")

	client = keyfuncs.Address(clientSource)
	tenant = keyfuncs.Header("X-Tenant")
	apiKey = keyfuncs.Known(keyfuncs.APIKey("X-API-Key"), keyfuncs.DigestSet("k1", "k2"))
)

// isProbe is a condition of *http.Request, which adapters lift.
var isProbe = nethttp.MustProbes("/hello")

// savedPeer returns the peer that outer middleware saved.
func savedPeer(r *http.Request) string { return r.Header.Get("X-Saved") }

// quota writes a header field of the application.
func quota(h http.Header, o core.Outcome) {
	if i := o.BindingRule(); i >= 0 {
		d := o.At(i)
		h.Set("X-Quota", d.Rule()+" "+strconv.FormatInt(d.Remaining, 10)+" "+strconv.Itoa(o.Status()))
	}
}

// plan returns the limit that the request asks for.
func plan(r *http.Request) (limits.Limit, error) {
	n, err := strconv.ParseInt(r.Header.Get("X-Plan"), 10, 64)
	return limits.FixedWindow(limits.PerMinute(n)), err
}

// cost returns the cost that the request asks for.
func cost(r *http.Request) int64 {
	n, err := strconv.ParseInt(r.Header.Get("X-Cost"), 10, 64)
	if err != nil {
		return 1
	}
	return n
}

// down is a backend that always fails.
type down struct{}

func (down) Take(context.Context, []backends.Charge, []limits.Decision) error {
	return errors.New("dial redis://:hunter2@10.0.0.1: refused")
}

// scenarios returns the applications of the table by name. A limiter without a backend gets the
// test's ledger.
func scenarios[R any](a Adapter[R]) map[string]App[R] {
	one := func(name string, limit limits.Limit, key func(R) (string, error)) *Config[R] {
		return &Config[R]{Config: core.Config[R]{
			Rules: []core.Rule[R]{{Name: name, Limit: limit, Key: key}}}}
	}
	perMinute := func(name string, n int64) *Config[R] {
		return one(name, limits.FixedWindow(limits.PerMinute(n)), a.Lift(client))
	}
	with := func(c *Config[R], change func(*Config[R])) *Config[R] {
		change(c)
		return c
	}
	formats := func(formats ...headers.Format) App[R] {
		return App[R]{Site: with(perMinute("per-client", 2),
			func(c *Config[R]) { c.Headers.Formats = formats })}
	}
	fails := func(failure core.FailurePolicy) App[R] {
		return App[R]{Site: with(perMinute("per-client", 1), func(c *Config[R]) {
			c.Backend = down{}
			c.Rules[0].OnFailure = failure
		})}
	}
	return map[string]App[R]{
		"a client is denied, told when to come back, and may": {
			Site: one("per-client", limits.TokenBucket(limits.PerMinute(2), 2), a.Lift(client))},
		"a client chooses the form of a denial": {Site: perMinute("per-client", 1)},
		"a cost that never fits": {
			Site: with(perMinute("per-client", 3),
				func(c *Config[R]) { c.Rules[0].Cost = func(r R) int64 { return cost(a.Request(r)) } })},
		"bytes are counted": {Site: with(perMinute("upload", 1000), func(c *Config[R]) {
			c.Rules[0].Unit, c.Rules[0].Cost = core.ContentBytes, func(r R) int64 {
				return cost(a.Request(r))
			}
		})},
		"a client without an identity": {Site: perMinute("per-client", 1)},
		"a client without an identity, failing open": {
			Site: with(perMinute("per-client", 1),
				func(c *Config[R]) { c.Rules[0].OnFailure = core.FailOpen })},
		"a client without an identity, by its peer": {
			Site: one("per-client", limits.FixedWindow(limits.PerMinute(1)),
				a.Lift(keyfuncs.Address(keyfuncs.OrPeer(clientSource))))},
		"clients without an identity, together": {
			Site: one("per-client", limits.FixedWindow(limits.PerMinute(1)),
				keyfuncs.OrShared(a.Lift(client)))},
		"the peer is kept elsewhere": {
			Site: one("per-client", limits.FixedWindow(limits.PerMinute(1)),
				a.Lift(keyfuncs.Address(keyfuncs.WithPeer(savedPeer, clientSource))))},
		"the backend fails: fall back": fails(core.FallBack),
		"the backend fails: fall back to a share": {
			Site: with(perMinute("per-client", 5),
				func(c *Config[R]) { c.Backend, c.Instances = down{}, 2 })},
		"the backend fails: open":   fails(core.FailOpen),
		"the backend fails: closed": fails(core.FailClosed),
		"what all share is hidden": {Site: &Config[R]{Config: core.Config[R]{Rules: []core.Rule[R]{
			{Name: "per-client", Limit: limits.FixedWindow(limits.PerMinute(2)), Key: a.Lift(client)},
			{Name: "service", Limit: limits.FixedWindow(limits.PerMinute(3)), Key: keyfuncs.Constant[R]("all"),
				Hidden: true},
		}}}},
		"a preflight is exempt": {
			Site: with(perMinute("per-client", 1),
				func(c *Config[R]) { c.SkipPreflight, c.OutcomeInContext = true, true })},
		"a preflight is not exempt": {Site: perMinute("per-client", 1)},
		"a denial of the application's own": {
			Site: with(perMinute("per-client", 1), func(c *Config[R]) { c.Sorry = true })},
		"a denial in plain text": {
			Site: with(perMinute("per-client", 1), func(c *Config[R]) { c.PlainText = true })},
		"the outcome in the context": {
			Site: with(perMinute("per-client", 2), func(c *Config[R]) { c.OutcomeInContext = true })},
		"no outcome in the context": {Site: perMinute("per-client", 2)},
		"the server's own deadline": {Site: perMinute("per-client", 1)},
		"a queue lets requests through one by one": {
			Site: one("queue", limits.LeakyQueue(limits.PerSecond(1000), 2), a.Lift(client))},
		"stacked limiters are one list": {Site: perMinute("site", 4),
			Group: perMinute("group", 3), Route: perMinute("route", 2)},
		"one limiter on two routes":      {Route: perMinute("route", 2)},
		"a group has a limit of its own": {Group: perMinute("group", 1)},
		"several rules, all or nothing": {Site: &Config[R]{Config: core.Config[R]{Rules: []core.Rule[R]{
			{Name: "wide", Limit: limits.FixedWindow(limits.PerMinute(3)), Key: keyfuncs.Constant[R]("all")},
			{Name: "narrow", Limit: limits.FixedWindow(limits.PerMinute(1)), Key: a.Lift(client)},
			{Name: "posts", Limit: limits.SlidingLog(limits.PerHour(1)),
				Key: core.When(func(r R) bool { return a.Request(r).Method == "POST" }, a.Lift(client))},
		}}}},
		"probes count apart, and no flood of them passes": {
			Site: &Config[R]{Config: core.Config[R]{Rules: []core.Rule[R]{
				{Name: "requests", Limit: limits.FixedWindow(limits.PerMinute(1)),
					Key: core.Unless(a.LiftCondition(isProbe), a.Lift(client))},
				{Name: "probes", Limit: limits.FixedWindow(limits.PerMinute(3)),
					Key: core.When(a.LiftCondition(isProbe), a.Lift(client))},
			}}}},
		"routes count apart, pages that do not exist together": {
			Site: one("route", limits.FixedWindow(limits.PerMinute(2)), a.RoutePattern)},
		"each client on each route": {
			Site: one("route", limits.FixedWindow(limits.PerMinute(1)),
				keyfuncs.Join(a.RoutePattern, a.Lift(client)))},
		"routes of a group are told apart before it": {
			Group: one("route", limits.FixedWindow(limits.PerMinute(1)), a.RoutePattern)},
		"a parameter of the path": {
			Route: one("user", limits.FixedWindow(limits.PerMinute(1)), a.PathParam("id"))},
		"a parameter of the path, however it is escaped": {
			Route: one("user", limits.FixedWindow(limits.PerMinute(1)), a.PathParam("id"))},
		"what no route takes is counted": {Site: perMinute("per-client", 4)},
		"a user, else an API key, else an address": {
			Site: one("caller", limits.FixedWindow(limits.PerMinute(1)),
				keyfuncs.First(a.ContextValue("user"), a.Lift(apiKey), a.Lift(client)))},
		"a header that may be left out": {
			Site: one("tenant", limits.FixedWindow(limits.PerMinute(1)), a.Lift(tenant))},
		"limits by plan": {Site: with(perMinute("plan", 1), func(c *Config[R]) {
			c.Rules[0].Limit, c.Rules[0].LimitFor = limits.Limit{}, withoutKey(a.LiftLimit(plan))
		})},
		"the fields of draft 7": formats(headers.Draft7),
		"the fields of draft 6": formats(headers.Draft6),
		"the fields of GitHub":  formats(headers.IETF, headers.GitHub),
		"the fields of Envoy":   formats(headers.DeltaSeconds),
		"the fields of Discord": formats(headers.Discord),
		"the fields of httprate": {Site: with(perMinute("per-client", 1), func(c *Config[R]) {
			c.Headers = headers.Options{Formats: []headers.Format{headers.EpochSeconds},
				RetryAfter: headers.Window}
		})},
		"fields of the application's own": {
			Site: with(perMinute("per-client", 1), func(c *Config[R]) { c.Headers.Custom = quota })},
		"fields of the application's own, alone and on denials only": {
			Site: with(perMinute("per-client", 1), func(c *Config[R]) {
				c.Headers = headers.Options{Formats: []headers.Format{}, Show: headers.OnDenial, Custom: quota}
			})},
		"fields on denials only": {
			Site: with(perMinute("per-client", 1),
				func(c *Config[R]) { c.Headers.Show = headers.OnDenial })},
		"no fields but Retry-After": {
			Site: with(perMinute("per-client", 1), func(c *Config[R]) { c.Headers.Show = headers.Omit })},
		"a wait too long for Retry-After": {
			Site: with(perMinute("per-client", 1),
				func(c *Config[R]) { c.Headers.MaxRetryAfter = 59 * time.Second })},
		"those who wait together are told a turn each": {
			Site: with(one("all", limits.TokenBucket(limits.PerMinute(2), 1), keyfuncs.Constant[R]("all")),
				func(c *Config[R]) {
					c.Headers.Formats = []headers.Format{headers.IETF, headers.DeltaSeconds}
					c.Headers.MaxPromise = 70 * time.Second
				})},
		"a document that libraries of bots read": {
			Site: with(perMinute("per-client", 1),
				func(c *Config[R]) { c.Headers.Body = headers.Bots })},
		"the burst beside the rate": {
			Site: with(one("per-client", limits.TokenBucket(limits.PerMinute(2), 9), a.Lift(client)),
				func(c *Config[R]) { c.Headers.BurstParameter = "acme-burst" })},
		"a redirect without fields": {
			Site:  with(perMinute("site", 4), func(c *Config[R]) { c.Headers.NotOnRedirects = true }),
			Extra: statuses,
		},
		"a redirect without fields, and a final cost": {
			Site: with(perMinute("site", 4), func(c *Config[R]) {
				c.Headers.NotOnRedirects = true
				c.Rules[0].FinalCost = func(core.Result) int64 { return 1 }
			}),
			Extra: statuses,
		},
		"an answer that caches may store, without fields": {
			Site:  with(perMinute("site", 3), func(c *Config[R]) { c.Headers.NotOnStorable = true }),
			Extra: storable,
		},
		"a denial shows only what was denied": {Site: &Config[R]{
			Config: core.Config[R]{Rules: []core.Rule[R]{
				{Name: "user", Limit: limits.FixedWindow(limits.PerHour(3)), Key: a.ContextValue("user")},
				{Name: "address", Limit: limits.FixedWindow(limits.PerMinute(2)), Key: a.Lift(client)},
			}},
			Headers: headers.Options{Formats: []headers.Format{headers.IETF, headers.GitHub},
				Show: headers.OnDenial},
		}},
		"a denial shows nothing of limiters outside that keep theirs": {
			Site:  with(perMinute("site", 4), func(c *Config[R]) { c.Headers.Show = headers.OnDenial }),
			Group: with(perMinute("group", 3), func(c *Config[R]) { c.Headers.Show = headers.Omit }),
			Route: perMinute("route", 1),
		},
		"an anchored window": {
			Site: one("per-client", limits.AnchoredWindow(limits.PerMinute(2)), a.Lift(client))},
		"a sliding window": {
			Site: one("per-client", limits.SlidingWindow(limits.PerMinute(2)), a.Lift(client))},
		"different values of a client": {
			Site: with(one("tenants", limits.Distinct(limits.PerMinute(2)), a.Lift(client)),
				func(c *Config[R]) { c.Rules[0].Value = a.Lift(tenant) })},
		"the name of a rule is escaped": {Site: perMinute(`say "hi" \ bye`, 1)},
	}
}

// statuses are handlers that answer with statuses of 3xx.
var statuses = map[string]http.Handler{
	"/moved": http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Location", "/hello")
		w.WriteHeader(http.StatusFound)
	}),
	"/same": http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotModified) }),
}

// storable are handlers that answer with a Cache-Control.
var storable = map[string]http.Handler{
	"/public":  cacheControl("public, max-age=60"),
	"/private": cacheControl("private, max-age=60"),
	"/shared":  cacheControl("s-maxage=60"),
}

func cacheControl(text string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Cache-Control", text)
		io.WriteString(w, text)
	})
}

// start is the instant at which every scenario starts: the beginning of a day.
var start = time.Date(2026, time.November, 21, 0, 0, 0, 0, time.UTC)

// withoutKey turns f into a LimitFor, which ignores the key.
func withoutKey[R any](f func(R) (limits.Limit, error)) func(R, string) (limits.Limit, error) {
	return func(r R, _ string) (limits.Limit, error) { return f(r) }
}
