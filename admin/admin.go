package admin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/stats"
)

// Person is who sent a request for the page.
type Person struct {
	Name      string // in audit records, logs and overrides. "": nobody, who sees nothing
	MayChange bool   // if Options.Changes allows it at all
}

// Sources is what the page shows.
type Sources struct {
	// Stats counts what the limiters do. Required.
	Stats *stats.Stats

	// Limiters are those that the page explains and changes, by the names they have in
	// Stats. None: the page shows what Stats has, such as shedders, and explains nothing.
	Limiters map[string]Limiter

	// Policy is where the rules come from. nil: the program.
	Policy Policy
}

// Limiter is a limiter of any framework: those of nethttp, chimw, ginmw, echomw, echo5mw
// and core have these methods. One that is a [RequestExplainer], too, explains requests.
type Limiter interface {
	State() core.State
	Override(rule string, o core.Override) error
	ExplainKey(ctx context.Context, rule, key string, limit limits.Limit) (limits.Decision, error)
	ResetKey(ctx context.Context, rule, key string) error
}

// RequestExplainer is a limiter whose requests the page can make up: those of nethttp and
// chimw.
type RequestExplainer interface {
	Explain(r *http.Request) core.Outcome
}

// Options configures [New]. The zero value is ready to use: a read-only page with masked
// keys for the local host.
type Options struct {
	// Instance is the name of this process among those of the service. "": the page says
	// "this instance".
	Instance string

	// Changes allows changes to people who may make them.
	Changes bool

	// Hosts are the names and addresses, without a port, by which the page may be asked
	// for, such as "ops.example.com". Nil: localhost, 127.0.0.1 and ::1.
	Hosts []string

	// Keys says how keys are shown. Zero: Masked.
	Keys KeyDisplay

	// Audit is called once for every change that was tried, before it is answered. Its
	// context does not end when the client leaves. It must be safe for concurrent use.
	// nil: nothing is called.
	Audit func(context.Context, Change)

	// Logger gets a line for every change that was tried or refused, without its key, and
	// for every failure to tell who asks. nil: slog.Default().
	Logger *slog.Logger
}

// New returns the handler of the page. who says who sent a request: by the session, the
// certificate or the header of a proxy that authenticates. It must be safe for concurrent
// use. A request for which it returns an error, no name, or panics is answered 403. The
// error reports every mistake in the arguments.
func New(who func(*http.Request) (Person, error), sources Sources, o Options) (http.Handler, error) {
	var errs []error
	if who == nil {
		errs = append(errs, errors.New("admin: who: is nil: pass a function that says who sent a request"))
	}
	if sources.Stats == nil {
		errs = append(errs, errors.New("admin: stats: is nil: make one with stats.New"))
	}
	for _, name := range slices.Sorted(maps.Keys(sources.Limiters)) {
		if sources.Limiters[name] == nil {
			errs = append(errs, fmt.Errorf("admin: limiter %q: is nil", name))
		}
	}
	for _, host := range o.Hosts {
		if host == "" || strings.ContainsAny(host, "/ ") || hostOf(host) != host {
			errs = append(errs, fmt.Errorf("admin: hosts: must be names or addresses without scheme and port (got %q)", host))
		}
	}
	if o.Keys > Shown {
		errs = append(errs, fmt.Errorf("admin: keys: must be Masked or Shown (got %d)", o.Keys))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	if o.Hosts == nil {
		o.Hosts = []string{"localhost", "127.0.0.1", "::1"}
	}
	o.Hosts = slices.Clone(o.Hosts)
	o.Instance = cmp.Or(o.Instance, "this instance")
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	sources.Limiters = maps.Clone(sources.Limiters)
	mask := newMasker(o.Keys)
	p := &page{
		who: who, sources: sources, options: o, names: slices.Sorted(maps.Keys(sources.Limiters)),
		mask: mask, rows: newRows(mask), sameOrigin: http.NewCrossOriginProtection(),
	}
	p.snapshot.make, p.earlier.make, p.past.make, p.denials.make = p.viewSnapshot, p.viewEarlier, p.viewHistory, p.viewDenials
	p.follow()
	return p, nil
}

// MustNew is [New] for arguments that the program sets. It panics if they have a mistake.
func MustNew(who func(*http.Request) (Person, error), sources Sources, o Options) http.Handler {
	h, err := New(who, sources, o)
	if err != nil {
		panic(err)
	}
	return h
}
