package client

import (
	"context"
	"errors"
	"net/http"
	"net/url"

	"github.com/weir-go/weir/internal/http/pacing"
)

func init() {
	pacing.New = func(options any) (func(context.Context, pacing.Call) pacing.Turn, error) {
		o := options.(Options)
		p, err := newPacer(o)
		if o.Base != nil {
			err = errors.Join(err, errBase)
		}
		if err != nil {
			return nil, err
		}
		return func(ctx context.Context, c pacing.Call) pacing.Turn { return newTurn(ctx, p, c) }, nil
	}
}

var errBase = errors.New("client: base: is for HTTP: calls are sent by their own client: remove it")

// turn is a remote procedure call and its pacer.
type turn struct {
	*pacer
	call
}

// newTurn begins a remote procedure call. It describes the call as an HTTP request only for functions
// of options.
func newTurn(ctx context.Context, p *pacer, c pacing.Call) *turn {
	describe := func() *http.Request {
		r := &http.Request{
			Method: http.MethodPost, Host: c.Target, Header: c.Header,
			URL: &url.URL{Scheme: c.Scheme, Host: c.Target, Path: c.Method},
		}
		if c.Idempotent {
			r.Method = http.MethodGet
		}
		return r.WithContext(ctx)
	}
	t := &turn{p, call{
		describe: describe, header: c.Header, path: c.Method, cost: anyCost, rewinds: !c.Once,
		harmless: c.Idempotent || hasIdempotencyKey(c.Header), attempt: 1,
	}}
	if p.o.Bucket == nil && p.o.Dialect == Standard {
		t.id.origin = p.namer.originOf(c.Scheme, c.Target, c.Header)
	} else {
		t.id = p.namer.identify(t.asked())
	}
	if p.o.Tokens != nil {
		t.cost = p.costOf(t.asked())
	}
	return t
}

// Wait implements [pacing.Turn].
func (t *turn) Wait(ctx context.Context) error {
	err := t.wait(ctx, &t.call)
	if _, held := err.(*WaitError); err == nil || held || ctx.Err() == nil {
		return err
	}
	return ctx.Err() // has a code of gRPC, which its cause may not have
}

// Observe implements [pacing.Turn].
func (t *turn) Observe(ctx context.Context, a pacing.Answer) (again bool) {
	var read answer
	t.reader.read(&read, a.Status, a.Fields, a.Wait)
	return t.observe(ctx, &t.call, &read)
}

// End implements [pacing.Turn].
func (t *turn) End() {
	if t.stage != idle {
		t.end(&t.call)
	}
}
