// Package construct tests the rule of all constructors: what can be wrong is reported as an error,
// every mistake at once, and nothing but a Must twin panics.
package construct

import (
	"math"
	"net/http"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/labstack/echo/v4"
	"github.com/redis/go-redis/v9"

	"github.com/weir-go/weir/admin"
	"github.com/weir-go/weir/chimw"
	"github.com/weir-go/weir/client"
	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/echomw"
	"github.com/weir-go/weir/ginmw"
	"github.com/weir-go/weir/headers"
	"github.com/weir-go/weir/keyfuncs"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
	"github.com/weir-go/weir/memory"
	"github.com/weir-go/weir/nethttp"
	"github.com/weir-go/weir/plans"
	"github.com/weir-go/weir/policy"
	"github.com/weir-go/weir/redisbackend"
	"github.com/weir-go/weir/remote"
	"github.com/weir-go/weir/shed"
	"github.com/weir-go/weir/stats"
	"github.com/weir-go/weir/tokens"
)

// constructor is one that can fail, with arguments that are wrong.
type constructor struct {
	name  string
	make  func() (any, error)
	must  func() // the Must twin, with the same arguments; nil: it reads text of others and has none
	wrong []string
}

// of returns a constructor whose arguments have the mistakes of the lines that begin with wrong.
func of[T any](name string, make func() (T, error), must func() T, wrong ...string) constructor {
	c := constructor{name: name, wrong: wrong, make: func() (any, error) { return make() }}
	if must != nil {
		c.must = func() { must() }
	}
	return c
}

// nowhere is a client whose server does not exist.
var nowhere = redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"})

// hidden is a client that says nothing of how it spreads keys.
type hidden struct{ redis.Scripter }

func wrongRule[R any]() core.Rule[R] {
	return core.Rule[R]{Name: "login", Limit: limits.FixedWindow(limits.Per(5, -time.Minute)), OnFailure: 9, Unit: 9}
}

func constructors() []constructor {
	var (
		bought      = plans.Options{TTL: -1, MaxKeys: -1, MaxLookups: -1}
		far         = memory.MustNew(memory.Options{MaxKeys: 1})
		nilMemory   *memory.Memory
		nilAnnounce *redisbackend.Announcer

		inMemory = memory.Options{MaxKeys: -1, MaxLogEntries: math.MaxInt32}
		breaker  = remote.BreakerOptions{Budget: 2 * time.Hour, OpenFor: -1}
		denials  = remote.DenialCacheOptions{MaxEntries: -1, MaxAge: -1, Announcer: nilAnnounce}
		leases   = remote.LeaseOptions{Term: time.Minute, MaxKeys: -1}
		stack    = remote.StackOptions{Budget: -1, OpenFor: -1, Lease: time.Millisecond, Announcer: nilAnnounce}
		redises  = redisbackend.Options{
			Prefix: "{a}", HashTag: "}", Together: []string{"s"}, HoldTime: time.Second,
			Budget: -1, OpenFor: -1, Lease: time.Minute,
		}
		announcing = redisbackend.Options{HashTag: "a", Announce: true}
		wrapping   = redisbackend.Options{Wrap: func(backends.Backend) backends.Backend { return nilMemory }}
		bare       = redisbackend.BareOptions{
			Prefix:   "shop:a=1",
			HashTag:  "}",
			Together: []string{"s"},
			HoldTime: time.Second,
		}
		announcer = redisbackend.AnnouncerOptions{Prefix: "{a}", PerSecond: -1}
		outgoing  = client.Options{
			Limit: limits.Concurrent(-1), MaxInFlight: -1, MaxWait: -1, Attempts: -1, Pace: 9, Dialect: 9, Denials: []int{200},
		}
		shedding = shed.Options[*http.Request]{
			SLO: -1, Limit: -1, MaxInFlight: -1, MaxWait: time.Hour, MaxWaiting: -1, Mode: 99,
			Classes: []shed.Class{{Share: 101}},
		}
		engine = core.Config[string]{Rules: []core.Rule[string]{wrongRule[string]()}, Instances: -1, Backend: nilMemory,
			Fallback: nilMemory, MaxPromise: -1}
		onHTTP = nethttp.Config{Rules: []nethttp.Rule{wrongRule[*http.Request]()}, Instances: -1, Backend: nilMemory}
		onGin  = ginmw.Config{Rules: []ginmw.Rule{wrongRule[*gin.Context]()}, Instances: -1, Backend: nilMemory}
		onEcho = echomw.Config{Rules: []echomw.Rule{wrongRule[echo.Context]()}, Instances: -1, Backend: nilMemory}
		fields = headers.Options{
			Formats:    []headers.Format{99},
			Show:       9,
			RetryAfter: 9,
			Jitter:     -1,
			MaxPromise: -1,
		}
		sources  = admin.Sources{Limiters: map[string]admin.Limiter{"api": nil}}
		models   = tokens.Config{Prices: map[string]tokens.Price{"m": {Cached: -1}}, Output: -1, MaxBody: -1}
		page     = admin.Options{Hosts: []string{"https://x"}, Keys: 9}
		address  func(*http.Request) (netip.Addr, error)
		engineIs = []string{
			`core: rule "login": key: `,
			`core: rule "login": limit: `,
			`core: rule "login": on failure: `,
			`core: rule "login": unit: `,
			"core: instances: ",
			"core: backend: ",
		}
	)
	return []constructor{
		of("memory.New", func() (*memory.Memory, error) { return memory.New(inMemory) },
			func() *memory.Memory { return memory.MustNew(inMemory) },
			"memory: max keys: ", "memory: max log entries: "),
		of("plans.New", func() (*plans.Cache[limits.Limit], error) { return plans.New(nil, limits.Limit{}, bought) },
			func() *plans.Cache[limits.Limit] { return plans.MustNew(nil, limits.Limit{}, bought) },
			"plans: lookup: ", "plans: default plan: ", "plans: TTL: ", "plans: max keys: ", "plans: max lookups: "),
		of("remote.NewBreaker", func() (*remote.Breaker, error) { return remote.NewBreaker(nilMemory, breaker) },
			func() *remote.Breaker { return remote.MustNewBreaker(nilMemory, breaker) },
			"remote: inner: ", "remote: budget: ", "remote: open for: "),
		of("remote.NewDenialCache", func() (*remote.DenialCache, error) { return remote.NewDenialCache(nil, denials) },
			func() *remote.DenialCache { return remote.MustNewDenialCache(nil, denials) },
			"remote: inner: ", "remote: max entries: ", "remote: max age: ", "remote: announcer: "),
		of("remote.NewLeaseCache", func() (*remote.LeaseCache, error) { return remote.NewLeaseCache(nil, leases) },
			func() *remote.LeaseCache { return remote.MustNewLeaseCache(nil, leases) },
			"remote: inner: ", "remote: term: ", "remote: max keys: "),
		of("remote.NewStack", func() (*remote.Stack, error) { return remote.NewStack(nil, stack) },
			func() *remote.Stack { return remote.MustNewStack(nil, stack) },
			"remote: inner: ", "remote: budget: ", "remote: open for: ", "remote: lease: ", "remote: announcer: "),
		of("redisbackend.New",
			func() (*redisbackend.Backend, error) { return redisbackend.New((*redis.Client)(nil), redises) },
			func() *redisbackend.Backend { return redisbackend.MustNew((*redis.Client)(nil), redises) },
			"redisbackend: client: ", "redisbackend: prefix: ", "redisbackend: hash tag: ", "redisbackend: together: ",
			"redisbackend: hold time: ", "redisbackend: budget: ", "redisbackend: open for: ", "redisbackend: lease: "),
		of("redisbackend.New with a client that cannot subscribe",
			func() (*redisbackend.Backend, error) { return redisbackend.New(hidden{nowhere}, announcing) },
			func() *redisbackend.Backend { return redisbackend.MustNew(hidden{nowhere}, announcing) },
			"redisbackend: announce: "),
		of("redisbackend.New with a Wrap that returns nothing",
			func() (*redisbackend.Backend, error) { return redisbackend.New(nowhere, wrapping) },
			func() *redisbackend.Backend { return redisbackend.MustNew(nowhere, wrapping) },
			"redisbackend: wrap: "),
		of("redisbackend.Open",
			func() (*redisbackend.Backend, error) { return redisbackend.Open("localhost", redises) }, nil,
			"redisbackend: url: ", "redisbackend: prefix: ", "redisbackend: hash tag: ", "redisbackend: together: ",
			"redisbackend: hold time: ", "redisbackend: budget: ", "redisbackend: open for: ", "redisbackend: lease: "),
		of("redisbackend.NewBare", func() (*redisbackend.Bare, error) { return redisbackend.NewBare(nil, bare) },
			func() *redisbackend.Bare { return redisbackend.MustNewBare(nil, bare) },
			"redisbackend: client: ", "redisbackend: prefix: ", "redisbackend: hash tag: ", "redisbackend: together: ",
			"redisbackend: hold time: "),
		of("redisbackend.NewAnnouncer",
			func() (*redisbackend.Announcer, error) { return redisbackend.NewAnnouncer(nil, announcer) },
			func() *redisbackend.Announcer { return redisbackend.MustNewAnnouncer(nil, announcer) },
			"redisbackend: client: ", "redisbackend: per second: ", "redisbackend: prefix: "),
		of("redisbackend.OpenAnnouncer",
			func() (*redisbackend.Announcer, error) { return redisbackend.OpenAnnouncer("localhost", announcer) }, nil,
			"redisbackend: url: ", "redisbackend: per second: ", "redisbackend: prefix: "),
		of("client.New", func() (*client.Transport, error) { return client.New(outgoing) },
			func() *client.Transport { return client.MustNew(outgoing) },
			"client: limit: ", "client: denials: ", "client: max in flight: ", "client: max wait: ", "client: attempts: ",
			"client: pace: ", "client: dialect: "),
		of("shed.New", func() (*shed.Shedder[*http.Request], error) { return shed.New(shedding) },
			func() *shed.Shedder[*http.Request] { return shed.MustNew(shedding) },
			"shed: slo: ", "shed: limit: ", "shed: max in flight: ", "shed: max wait: ", "shed: max waiting: ",
			"shed: mode: ", "shed: class 0: name: ", "shed: class 0: share: "),
		of("core.New", func() (*core.Limiter[string], error) { return core.New(engine) },
			func() *core.Limiter[string] { return core.MustNew(engine) }, append(engineIs, "core: fallback: ",
				"core: max promise: ")...),
		of("nethttp.New", func() (*nethttp.Limiter, error) { return nethttp.New(onHTTP) },
			func() *nethttp.Limiter { return nethttp.MustNew(onHTTP) }, engineIs...),
		of("nethttp.PerAddress",
			func() (*nethttp.Limiter, error) { return nethttp.PerAddress(limits.PerMinute(0), address, nilMemory) },
			func() *nethttp.Limiter { return nethttp.MustPerAddress(limits.PerMinute(0), address, nilMemory) },
			"nethttp: PerAddress: source: ", `core: rule "per-address": limit: `, "core: backend: "),
		of("nethttp.PerAddress with two backends",
			func() (*nethttp.Limiter, error) { return nethttp.PerAddress(limits.PerMinute(0), address, far, far) },
			func() *nethttp.Limiter { return nethttp.MustPerAddress(limits.PerMinute(0), address, far, far) },
			"nethttp: PerAddress: source: ", `core: rule "per-address": limit: `, "nethttp: PerAddress: backend: "),
		of("chimw.PerAddress",
			func() (*chimw.Limiter, error) { return chimw.PerAddress(limits.PerMinute(0), address, nilMemory) },
			func() *chimw.Limiter { return chimw.MustPerAddress(limits.PerMinute(0), address, nilMemory) },
			"nethttp: PerAddress: source: ", `core: rule "per-address": limit: `, "core: backend: "),
		of("ginmw.PerAddress",
			func() (*ginmw.Limiter, error) {
				return ginmw.PerAddress(limits.PerMinute(0), ginmw.Lift(address), nilMemory)
			},
			func() *ginmw.Limiter {
				return ginmw.MustPerAddress(limits.PerMinute(0), ginmw.Lift(address), nilMemory)
			},
			"nethttp: PerAddress: source: ", `core: rule "per-address": limit: `, "core: backend: "),
		of("echomw.PerAddress",
			func() (*echomw.Limiter, error) {
				return echomw.PerAddress(limits.PerMinute(0), echomw.Lift(address), nilMemory)
			},
			func() *echomw.Limiter {
				return echomw.MustPerAddress(limits.PerMinute(0), echomw.Lift(address), nilMemory)
			},
			"nethttp: PerAddress: source: ", `core: rule "per-address": limit: `, "core: backend: "),
		of("nethttp.Probes", func() (func(*http.Request) bool, error) { return nethttp.Probes("x", "/{y...}") },
			func() func(*http.Request) bool { return nethttp.MustProbes("x", "/{y...}") },
			"nethttp: Probes: must be a path ", "nethttp: Probes: only HEAD "),
		of("tokens.New", func() (*tokens.Meter, error) { return tokens.New(models) },
			func() *tokens.Meter { return tokens.MustNew(models) },
			`tokens: price of "m": cached: `, "tokens: output: ", "tokens: max body: "),
		of("chimw.New", func() (*chimw.Limiter, error) { return chimw.New(onHTTP) },
			func() *chimw.Limiter { return chimw.MustNew(onHTTP) }, engineIs...),
		of("ginmw.New", func() (*ginmw.Limiter, error) { return ginmw.New(onGin) },
			func() *ginmw.Limiter { return ginmw.MustNew(onGin) }, engineIs...),
		of("echomw.New", func() (*echomw.Limiter, error) { return echomw.New(onEcho) },
			func() *echomw.Limiter { return echomw.MustNew(onEcho) }, engineIs...),
		of("headers.New", func() (*headers.Writer, error) { return headers.New[int](fields, nil) },
			func() *headers.Writer { return headers.MustNew[int](fields, nil) },
			"headers: formats: ", "headers: show: ", "headers: retry after: ", "headers: jitter: ",
			"headers: max promise: "),
		of("admin.New", func() (http.Handler, error) { return admin.New(nil, sources, page) },
			func() http.Handler { return admin.MustNew(nil, sources, page) },
			"admin: who: ", "admin: stats: ", `admin: limiter "api": `, "admin: hosts: ", "admin: keys: "),
		of("keyfuncs.AddressPrefix",
			func() (func(*http.Request) (string, error), error) { return keyfuncs.AddressPrefix(address, 7) },
			func() func(*http.Request) (string, error) { return keyfuncs.MustAddressPrefix(address, 7) },
			"keyfuncs: AddressPrefix: source ", "keyfuncs: AddressPrefix: IPv6 bits "),
		of("keyfuncs.TrustedProxies", func() (keyfuncs.AddrSource, error) { return keyfuncs.TrustedProxies("x", "y") },
			func() keyfuncs.AddrSource { return keyfuncs.MustTrustedProxies("x", "y") },
			"keyfuncs: TrustedProxies: ", "keyfuncs: TrustedProxies: "),
		of("keyfuncs.Forwarded", func() (keyfuncs.AddrSource, error) { return keyfuncs.Forwarded("x", "y") },
			func() keyfuncs.AddrSource { return keyfuncs.MustForwarded("x", "y") },
			"keyfuncs: Forwarded: ", "keyfuncs: Forwarded: "),
		of("keyfuncs.SingleHeader", func() (keyfuncs.AddrSource, error) { return keyfuncs.SingleHeader("a b", "x") },
			func() keyfuncs.AddrSource { return keyfuncs.MustSingleHeader("a b", "x") },
			"keyfuncs: SingleHeader: ", "keyfuncs: SingleHeader: "),
		of("keyfuncs.ProxyCount", func() (keyfuncs.AddrSource, error) { return keyfuncs.ProxyCount(-1) },
			func() keyfuncs.AddrSource { return keyfuncs.MustProxyCount(-1) },
			"keyfuncs: ProxyCount: "),
		of("limits.Parse", func() (limits.Limit, error) { return limits.Parse("fixed-window 0/-1s") }, nil, "limits: ",
			"period "),
		of("policy.Parse", func() (*policy.Policy[*http.Request], error) {
			return policy.Parse("weir.yaml", []byte("rules: 5\nversion: 6\n"), policy.Names[*http.Request]{})
		}, nil, "weir.yaml", "weir.yaml"),
		of("policy.Load", func() (*policy.Policy[*http.Request], error) {
			return policy.Load("nowhere.yaml", policy.Names[*http.Request]{})
		}, nil, ""),
		of("a stack that inner completes", func() (*remote.Stack, error) { return remote.NewStack(far, stack) }, nil,
			"remote: budget: ", "remote: open for: ", "remote: lease: ", "remote: announcer: "),
	}
}

// longest is how long the text of one mistake may be, so that it is read.
const longest = 125

func TestAConstructorReportsEveryMistakeAtOnceAndNeverPanics(t *testing.T) {
	for _, c := range constructors() {
		t.Run(c.name, func(t *testing.T) {
			made, err := c.make()
			if v := reflect.ValueOf(made); err == nil || v.IsValid() && !v.IsZero() {
				t.Fatalf("got %v and %v, want the zero value and an error", made, err)
			}
			lines := strings.Split(err.Error(), "\n")
			for _, line := range lines {
				if len(line) > longest {
					t.Errorf("%d characters, want at most %d: %s", len(line), longest, line)
				}
			}
			for _, want := range c.wrong {
				i := slices.IndexFunc(lines, func(line string) bool { return strings.HasPrefix(line, want) })
				if i < 0 {
					t.Errorf("no line begins with %q in:\n%v", want, err)
					continue
				}
				lines = slices.Delete(lines, i, i+1)
			}
			if len(lines) > 0 {
				t.Errorf("more than the mistakes that were made: %q", lines)
			}
		})
	}
}

func TestAMustTwinPanicsWithTheError(t *testing.T) {
	for _, c := range constructors() {
		if c.must == nil {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			_, want := c.make()
			defer func() {
				if got, _ := recover().(error); got == nil || got.Error() != want.Error() {
					t.Errorf("panicked with %v, want %v", got, want)
				}
			}()
			c.must()
		})
	}
}

// What cannot be wrong has no error, whatever it gets.
func TestWhatCannotBeWrongNeverPanics(t *testing.T) {
	counts := stats.New(stats.Options{})
	for name, f := range map[string]func(){
		"stats.WatchMemory":  func() { counts.WatchMemory("", nil) },
		"stats.WatchBreaker": func() { counts.WatchBreaker("", nil) },
		"stats.WatchLeases":  func() { counts.WatchLeases("", nil) },
		"stats.WatchShedder": func() { counts.WatchShedder("", nil) },
		"stats.WatchPolicy":  func() { counts.WatchPolicy("", nil) },
		"stats.Counters":     func() { counts.Limiter("").ObserveLimiter(nil) },
		"stats.Backend":      func() { counts.Backend("", nil) },
		"limits":             func() { _ = limits.TokenBucket(limits.Rate{}, -1).Validate() },
	} {
		t.Run(name, func(*testing.T) { f() })
	}
	if _, err := core.New(core.Config[string]{Backend: counts.Backend("", nil)}); err == nil {
		t.Error("a limiter takes a backend that is nil")
	}
}

func TestZeroOptionsAreRight(t *testing.T) {
	far := memory.MustNew(memory.Options{})
	for name, f := range map[string]func() error{
		"remote.NewBreaker":     func() error { return second(remote.NewBreaker(far, remote.BreakerOptions{})) },
		"remote.NewDenialCache": func() error { return second(remote.NewDenialCache(far, remote.DenialCacheOptions{})) },
		"remote.NewLeaseCache":  func() error { return second(remote.NewLeaseCache(far, remote.LeaseOptions{})) },
		"remote.NewStack":       func() error { return second(remote.NewStack(far, remote.StackOptions{})) },
		"redisbackend.New":      func() error { return second(redisbackend.New(nowhere, redisbackend.Options{})) },
		"redisbackend.NewBare": func() error {
			return second(redisbackend.NewBare(nowhere, redisbackend.BareOptions{}))
		},
		"redisbackend.NewAnnouncer": func() error {
			return second(redisbackend.NewAnnouncer(nowhere, redisbackend.AnnouncerOptions{}))
		},
		"client.New":  func() error { return second(client.New(client.Options{})) },
		"shed.New":    func() error { return second(shed.New(shed.Options[int]{})) },
		"tokens.New":  func() error { return second(tokens.New(tokens.Config{})) },
		"headers.New": func() error { return second(headers.New[int](headers.Options{}, nil)) },
	} {
		if err := f(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func second[T any](_ T, err error) error { return err }
