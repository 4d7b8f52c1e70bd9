// Package parity tests that all adapters behave alike. It has a table of requests and answers, and
// tests of a limiter together with the rest of a server. Each adapter builds the same application
// and must pass.
package parity

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/headers"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/shed"
)

// Adapter is an adapter under test. Its requests are of type R.
type Adapter[R any] struct {
	// Serve builds the application. It fails the test if it cannot.
	Serve func(t *testing.T, app App[R]) http.Handler

	New    func(rules []core.Rule[R]) (Limiter[R], error)
	Panics map[string]func() // MustNew with a mistake, and uses of a nil and of a zero limiter

	Request   func(R) *http.Request
	Lift      func(func(*http.Request) (string, error)) func(R) (string, error)
	LiftLimit func(func(*http.Request) (limits.Limit, error)) func(R) (limits.Limit, error)

	LiftCondition func(func(*http.Request) bool) func(R) bool

	// ErrorsTravel says that the framework answers errors of handlers outside the limiter, and that
	// its writer does not report a hijack.
	ErrorsTravel bool

	// Lacks says why the server of the framework cannot do what some rows need. Run skips these rows.
	Lacks map[Need]string

	RoutePattern func(R) (string, error)
	PathParam    func(name string) func(R) (string, error)
	ContextValue func(name string) func(R) (string, error)
}

// Config configures a limiter under test.
type Config[R any] struct {
	core.Config[R]
	Headers          headers.Options
	SkipPreflight    bool
	MaxWaiting       int
	OutcomeInContext bool
	Sorry            bool // denials are answered by [Sorry]
	PlainText        bool // denials are answered by the adapter's PlainText
	Boom             bool // Denied panics

	Made func(Limiter[R]) // called with the limiter, unless it is nil
}

// Limiter is the methods of the limiters of all adapters.
type Limiter[R any] interface {
	Decide(request R) core.Outcome
	Replace(rules []core.Rule[R]) error
	Override(rule string, o core.Override) error
	OverrideKey(rule, key string, o core.Override) error
	KeyOverrides(rule string) map[string]core.Override
	State() core.State
	Explain(request R) core.Outcome
	ExplainKey(ctx context.Context, rule, key string, limit limits.Limit) (limits.Decision, error)
	ResetKey(ctx context.Context, rule, key string) error
}

// App is the application that an adapter builds. From the outside in, it has the framework's
// recoverer if Recover is Outside; middleware that sets the value "user" to the field X-User, if
// there is one; the framework's time-out if TimeOut is Outside; the limiter Site, unless it is nil;
// the time-out if TimeOut is Inside; and the recoverer if Recover is Inside. A framework without a
// time-out has http.TimeoutHandler outside, and a context with a deadline inside. The routes are
//
//	GET /hello, OPTIONS /hello    Hello
//	GET /left                     Left, with the outcome in the context; behind Route
//	GET /users/{id}               User; behind Route
//	POST /login                   Hello; behind Route, the same limiter
//	other methods of /login       NotAllowed
//	GET /api/items/{id}           User; in a group or sub-router behind Group
//	GET /api/both/{id}            User; in that group, behind Route
//	GET /conflict                 ends with ErrConflict, or its status
//	GET /breaks                   ends with ErrBroken, or status 500
//	GET of each path in Extra     its handler; behind Route
//	everything else               NotFound
type App[R any] struct {
	Shed               *shed.Shedder[R] // outside the limiters; nil: none
	Site, Group, Route *Config[R]
	Extra              map[string]http.Handler
	Recover, TimeOut   Place
	Twice              bool // Route is the limiter Site itself
}

// StatusError is an error with a status, as frameworks look for it.
type StatusError int

func (e StatusError) Error() string   { return http.StatusText(int(e)) }
func (e StatusError) StatusCode() int { return int(e) }

// ErrConflict is an error of a handler with a status.
const ErrConflict = StatusError(http.StatusConflict)

// ErrBroken is an error of a handler without a status.
var ErrBroken = errors.New("broken")

// Place is where middleware of the framework is, seen from the limiter Site.
type Place int

const (
	Nowhere Place = iota
	Outside
	Inside
)

// TimeOut is how long requests may take in an application with a time-out.
const TimeOut = time.Second

// Hello answers an allowed request.
func Hello(w http.ResponseWriter) { answer(w, http.StatusOK, "hello") }

// User answers with a parameter of the path.
func User(w http.ResponseWriter, id string) { answer(w, http.StatusOK, "user "+id) }

// Left answers with the remaining units of the outcome in the context, and with the decisions of
// its shadow rules.
func Left(w http.ResponseWriter, o core.Outcome, ok bool) {
	if !ok {
		answer(w, http.StatusOK, "nobody knows")
		return
	}
	text := fmt.Sprintf("%d left", o.At(0).Remaining)
	for i := range o.Len() {
		if d := o.At(i); d.Mode() == core.Shadow {
			text += fmt.Sprintf("; shadow %s %v, allows %t", d.Rule(), d.Source, d.Allowed)
		}
	}
	answer(w, http.StatusOK, text)
}

// NotFound answers a request for which there is no route.
func NotFound(w http.ResponseWriter) { answer(w, http.StatusNotFound, "no such page") }

// NotAllowed answers a request with a method that the route /login does not accept.
func NotAllowed(w http.ResponseWriter) {
	w.Header().Set("Allow", "POST")
	w.WriteHeader(http.StatusMethodNotAllowed)
}

// Sorry answers a denial with a text of the application.
func Sorry(w http.ResponseWriter, o core.Outcome) {
	answer(w, o.Status(), SorryText(o))
}

// SorryText returns the text of Sorry.
func SorryText(o core.Outcome) string {
	rule := "nobody"
	if i := o.BindingRule(); i >= 0 {
		rule = o.At(i).Rule()
	}
	return fmt.Sprintf("sorry, %v by %s", o.Verdict(), rule)
}

func answer(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain")
	w.Header().Set("Content-Length", fmt.Sprint(len(text)))
	w.WriteHeader(status)
	io.WriteString(w, text)
}
