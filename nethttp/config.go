package nethttp

import (
	"log/slog"
	"net/http"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/headers"
	"github.com/weir-go/weir/internal/http/gate"
	"github.com/weir-go/weir/limits/backends"
)

// Config configures a [Limiter]. [ConfigOf] describes its fields.
type Config = ConfigOf[*http.Request, func(http.ResponseWriter, *http.Request, core.Outcome)]

// ConfigOf configures the limiter of a framework whose requests are of type R. Each adapter calls
// it Config, and says what its Denied, of type D, has to do. Only Rules is required.
type ConfigOf[R, D any] struct {
	// Rules are decided together for every request, in one atomic step. Required.
	Rules []core.Rule[R]

	// Backend keeps the state. nil: in-process memory, see [memory.New].
	Backend backends.Backend

	// Fallback decides while Backend fails, for the rules that fall back. nil: in-process memory,
	// created at its first use and shared by all limiters on one Backend. See [core.Config].
	Fallback backends.Backend

	// Instances is how many processes share Backend at least. While Backend fails, each falls
	// back to its share of every limit. A Backend may count them: see [core.Config]. 0: each falls
	// back to the whole limit, unless Backend counts.
	Instances int

	// Observer observes decisions, ends and changes: counters of package stats, or
	// [core.ObserverFuncs]. nil: none.
	Observer core.Observer

	// Logger gets a line when a rule cannot decide, which explains a 503. Further lines follow once
	// a minute for each rule and cause, with the number of requests. Lines contain no key. For an
	// error of the program's own functions they contain only its type, unless it is a
	// [slog.LogValuer]. nil: slog.Default at the time of the line. To log nothing, use a
	// slog.DiscardHandler.
	Logger *slog.Logger

	// Headers chooses the response header fields. Zero: RateLimit and RateLimit-Policy
	// of the current IETF draft on every answer, and Retry-After on the answer to every
	// request that is not allowed.
	Headers headers.Options

	// Denied answers a request that is denied or could not be decided. The status is that of
	// [core.Outcome.Status]: 429, or 503 if the request could not be decided or only rules with
	// DenyAs503 denied it. [PlainText] is a ready-made Denied. The header fields are already set,
	// including Cache-Control: no-store. The outcome has all rules, whatever Headers shows: tell
	// clients only about the rules that denied, and about no rule in a 503.
	//
	// Denied must write the status, otherwise net/http sends 200.
	//
	// A request whose context has ended gets a bare 503, and Denied is not called. nil: a problem
	// document or plain text, whichever the client prefers. A call of gRPC over HTTP/2 then gets the
	// status 200 with the code RESOURCE_EXHAUSTED, or UNAVAILABLE instead of 503, a message, and
	// grpc-retry-pushback-ms: its client reads nothing else. A Denied of your own answers such calls,
	// too. It may pass them to PlainText.
	Denied D

	// SkipPreflight lets requests pass all rules, even during a ban, if they look like a CORS
	// preflight: OPTIONS with the fields Origin and Access-Control-Request-Method. Any client can
	// send such a request. It is for CORS middleware inside the limiter, which answers preflights
	// itself. If another handler does work for them, that work is not limited. Other OPTIONS
	// requests count. It is better to put the CORS middleware outside the limiter and leave
	// SkipPreflight unset: browsers report a denied preflight as a broken page.
	SkipPreflight bool

	// MaxWaiting is the number of requests that may wait at once, if a limit is a leaky queue. Each
	// one holds a goroutine and its connection. A further request is answered with 503 and
	// Retry-After. Its outcome becomes [core.Unavailable] with the error [core.ErrQueueFull], after
	// the Observer has seen it allowed, and its slot stays spent. 0: 10,000.
	MaxWaiting int

	// OutcomeInContext makes [OutcomeFrom] return the outcome in later handlers and in Denied. It
	// costs a shallow copy of the request. A mux inside the limiter sets the values of PathValue on
	// the copy, so handlers outside the limiter do not see them. They see Pattern after next, which
	// the limiter copies.
	OutcomeInContext bool

	// DrainLimit is the most bytes of the body of a denied request that the limiter reads and drops
	// before it answers, or of what is left of the body after a Denied of the program. Clients that
	// send all of an upload before they read the answer see the denial then, instead of a broken pipe
	// over HTTP/1.1 or their own time-out over HTTP/2. It reads for two seconds at most, for half a
	// second without a byte, and for 256 requests at a time. It leaves alone a Content-Length above
	// the limit, and what Go's server takes anyway, and over HTTP/1.1 what the client has not begun
	// to send (Expect: 100-continue). fasthttp has read bodies before, unless they stream. A Denied
	// that hijacks the connection and reads from it needs a negative one. 0: 8 MiB. Negative: none.
	DrainLimit int64
}

// CallConfigOf is [ConfigOf] for a framework for remote procedure calls, which have no preflights, and whose messages
// the framework reads.
type CallConfigOf[R, D any] struct {
	Rules            []core.Rule[R]
	Backend          backends.Backend
	Fallback         backends.Backend
	Instances        int
	Observer         core.Observer
	Logger           *slog.Logger
	Headers          headers.Options
	Denied           D
	MaxWaiting       int
	OutcomeInContext bool

	// CountProbes lets rules count the calls by which a client finds out whether a server works, and
	// what it speaks: /grpc.health.v1.Health/Check and Watch, and server/discover of MCP. A client
	// whose probe is denied takes the server for a dead or an old one, so by default they pass, and no
	// rule counts them. A stream of Watch lasts as long as its connection, so do not count it by a
	// concurrency limit.
	CountProbes bool
}

// Gate is for the adapters of weir. It returns the gate of a framework, and what its limiter
// embeds.
func (c *ConfigOf[R, D]) Gate(f gate.Framework[R]) (Controls[R], *gate.Gate[R], error) {
	g, err := gate.New(c.with(f))
	return Controls[R]{g}, g, err
}

func (c *ConfigOf[R, D]) with(f gate.Framework[R]) gate.Config[R] {
	return gate.Config[R]{
		Config: core.Config[R]{
			Rules:      c.Rules,
			Backend:    c.Backend,
			Fallback:   c.Fallback,
			Instances:  c.Instances,
			Observer:   c.Observer,
			MaxWaiting: c.MaxWaiting,
		},
		Framework:        f,
		Headers:          c.Headers,
		Logger:           c.Logger,
		SkipPreflight:    c.SkipPreflight,
		OutcomeInContext: c.OutcomeInContext,
		DrainLimit:       c.DrainLimit,
	}
}

// Gate is [ConfigOf.Gate] for calls.
func (c *CallConfigOf[R, D]) Gate(f gate.Framework[R]) (Controls[R], *gate.Gate[R], error) {
	g, err := gate.New(c.with(f))
	return Controls[R]{g}, g, err
}

func (c *CallConfigOf[R, D]) with(f gate.Framework[R]) gate.Config[R] {
	all := ConfigOf[R, D]{
		Rules:            c.Rules,
		Backend:          c.Backend,
		Fallback:         c.Fallback,
		Instances:        c.Instances,
		Observer:         c.Observer,
		Logger:           c.Logger,
		Headers:          c.Headers,
		MaxWaiting:       c.MaxWaiting,
		OutcomeInContext: c.OutcomeInContext,
	}
	return all.with(f)
}
