package nethttp_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/internal/http/gate"
	"github.com/weir-go/weir/keyfuncs"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/nethttp"
)

// page is the request of a framework whose handlers return errors.
type page struct {
	writer  http.ResponseWriter
	request *http.Request
}

func (p *page) context() context.Context { return p.request.Context() }

type pageConfig = nethttp.ConfigOf[*page, func(*page, core.Outcome) error]

type pageLimiter struct {
	nethttp.Controls[*page]
	gate *gate.Gate[*page]
}

func newPageLimiter(config pageConfig) (*pageLimiter, error) {
	f := gate.Framework[*page]{Context: (*page).context}
	if config.Denied != nil {
		f.Denied = func(_ http.ResponseWriter, p *page, o core.Outcome) error {
			return config.Denied(p, o)
		}
	}
	controls, g, err := config.Gate(f)
	return gate.Made(&pageLimiter{controls, g}, err)
}

func (l *pageLimiter) middleware(next func(*page) error) func(*page) error {
	proceed := func(_ http.ResponseWriter, p *page) error { return next(p) }
	return func(p *page) error { return l.gate.Serve(p.writer, p.request, p, proceed) }
}

// daily is one request a day for all clients together, in any framework.
func daily[R any]() []core.Rule[R] {
	return []core.Rule[R]{{
		Name: "daily", Limit: limits.FixedWindow(limits.PerDay(1)),
		Key: keyfuncs.Constant[R]("everybody"),
	}}
}

// An adapter of weir: the types and functions above are all of it.
func ExampleConfigOf_Gate() {
	limiter, err := newPageLimiter(pageConfig{
		Rules: daily[*page](),
		Denied: func(_ *page, o core.Outcome) error {
			return fmt.Errorf("%d, please wait", o.Status())
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	handler := limiter.middleware(func(*page) error { return nil })
	for range 2 {
		fmt.Println(handler(&page{httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil)}))
	}
	// Output:
	// <nil>
	// 429, please wait
}

// One function configures the limiters of several frameworks.
func ExampleConfigOf() {
	site := configOf[*http.Request, func(http.ResponseWriter, *http.Request, core.Outcome)]()
	site.Denied = nethttp.PlainText
	pages := configOf[*page, func(*page, core.Outcome) error]()
	_, siteErr := nethttp.New(site)
	_, pagesErr := newPageLimiter(pages)
	fmt.Println(siteErr, pagesErr)
	// Output: <nil> <nil>
}

func configOf[R, D any]() nethttp.ConfigOf[R, D] {
	return nethttp.ConfigOf[R, D]{Rules: daily[R](), SkipPreflight: true}
}

type call struct{ ctx context.Context }

// The Config of an adapter for remote procedure calls has no SkipPreflight.
func ExampleCallConfigOf() {
	config := nethttp.CallConfigOf[*call, func(*call, core.Outcome) error]{Rules: daily[*call]()}
	fmt.Println(config.Rules[0].Name)
	// Output: daily
}

func ExampleCallConfigOf_Gate() {
	config := nethttp.CallConfigOf[*call, func(*call, core.Outcome) error]{Rules: daily[*call]()}
	controls, _, err := config.Gate(gate.Framework[*call]{
		Context: func(c *call) context.Context { return c.ctx },
	})
	fmt.Println(controls.Decide(&call{context.Background()}).Verdict(), err)
	// Output: allowed <nil>
}

// One function controls the limiters of several frameworks.
func ExampleControls() {
	limiter := nethttp.MustNew(nethttp.Config{Rules: daily[*http.Request]()})
	fmt.Println(watchOnly(limiter.Controls, "daily"))
	fmt.Println(limiter.State().Rules[0].Mode)
	// Output:
	// <nil>
	// shadow
}

// watchOnly has a rule count without denying for an hour.
func watchOnly[R any](c nethttp.Controls[R], rule string) error {
	return c.Override(rule, core.Override{Mode: new(core.Shadow), Until: time.Now().Add(time.Hour)})
}

// A page of an operator shows what a customer has left. Asking costs nothing.
func ExampleControls_ExplainKey() {
	limiter := nethttp.MustNew(nethttp.Config{Rules: daily[*http.Request]()})
	d, err := limiter.ExplainKey(context.Background(), "daily", "everybody", limits.Limit{})
	fmt.Println(d.Allowed, d.Remaining, err)
	// Output: true 1 <nil>
}
