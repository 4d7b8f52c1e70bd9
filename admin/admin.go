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

	"github.com/weir-go/weir/internal/http/hostname"
	"github.com/weir-go/weir/stats"
)

// Person is the sender of a request for the page.
type Person struct {
	Name      string // for audit records, logs and overrides; "": access is denied
	MayChange bool   // takes effect only with Options.Changes
}

// Sources are the data of the page.
type Sources struct {
	// Stats has the counters of the limiters. Required.
	Stats *stats.Stats

	// Limiters are the limiters that the page explains and changes, by their names in Stats.
	// Without any, the page shows everything in Stats, such as shedders, and explains nothing.
	Limiters map[string]Limiter

	// Policy is the source of the rules. nil: the program.
	Policy Policy
}

// Options are the options of [New]. The zero value is ready to use: a read-only page with masked
// keys for the local host.
type Options struct {
	// Instance is the name of this process within the service. "": the page says "this instance".
	Instance string

	// Changes allows changes by people whose MayChange is true.
	Changes bool

	// Hosts are the host names and addresses of the page, without a port, such as
	// "ops.example.com". Requests for other hosts are refused. nil: localhost, 127.0.0.1 and ::1.
	Hosts []string

	// Keys selects how keys are shown. Zero: Masked.
	Keys KeyDisplay

	// Audit is called once for every attempted change, before the answer. Its context does not end
	// when the client leaves. It must be safe for concurrent use. nil: no calls.
	Audit func(context.Context, Change)

	// Logger gets a line for every attempted or refused change, without its key, and for every
	// failure to identify a sender. nil: slog.Default().
	Logger *slog.Logger
}

// New returns the handler of the page. who identifies the sender of a request: by its session, its
// certificate, or a header of a proxy that authenticates. It must be safe for concurrent use. If
// who returns an error or no name, or panics, the request is answered 403. The error reports every
// mistake in the arguments.
func New(
	who func(*http.Request) (Person, error), sources Sources, o Options,
) (http.Handler, error) {
	var errs []error
	if who == nil {
		errs = append(errs,
			errors.New("admin: who: is nil: pass a function that says who sent a request"))
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
		if host == "" || strings.ContainsAny(host, "/ ") || hostname.Of(host) != host {
			errs = append(errs,
				fmt.Errorf("admin: hosts: must be names or addresses without scheme and port "+
					"(got %q)", host))
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
	return newPage(who, sources, o), nil
}

// MustNew is [New] for arguments that the program sets. It panics if they have a mistake.
func MustNew(who func(*http.Request) (Person, error), sources Sources, o Options) http.Handler {
	h, err := New(who, sources, o)
	if err != nil {
		panic(err)
	}
	return h
}
