package client

import (
	"io"
	"net/http"
	"sync"
	"time"
)

// Transport is an [http.RoundTripper] that keeps to the limits of servers. [New] returns one; the
// zero value is unusable. It is safe for concurrent use. It starts no goroutine, so there is
// nothing to close. It remembers 1,024 buckets, and those that are in use. When it needs room, it
// forgets the bucket that is free first; of a site with many buckets, its own.
type Transport struct {
	base http.RoundTripper
	*pacer
}

// New returns a Transport, or an error that reports every mistake in o.
func New(o Options) (*Transport, error) {
	p, err := newPacer(o)
	if err != nil {
		return nil, err
	}
	t := &Transport{base: o.Base, pacer: p}
	if t.base == nil {
		t.base = http.DefaultTransport
	}
	return t, nil
}

// MustNew is [New] for options that are constants of the program. It panics if they have a mistake;
// the zero Options have none.
func MustNew(o Options) *Transport {
	t, err := New(o)
	if err != nil {
		panic(err)
	}
	return t
}

// RoundTrip implements [http.RoundTripper]. It sends a request once if its body cannot be rewound.
// It returns a denial that it does not repeat as it came.
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	ctx := r.Context()
	c := call{
		request: r, header: r.Header, id: t.namer.identify(r), cost: anyCost,
		rewinds: rewinds(r), harmless: harmless(r), attempt: 1,
	}
	if r.URL != nil {
		c.path = r.URL.Path
	}
	if t.o.Tokens != nil {
		c.cost = t.costOf(r)
	}
	c.afterRedirect(r.Response)
	defer t.abandon(&c)
	outgoing := r
	for sent := false; ; sent = true {
		if err := t.wait(ctx, &c); err != nil {
			if !sent && r.Body != nil {
				r.Body.Close()
			}
			return nil, err
		}
		if sent {
			var err error
			if outgoing, err = rewound(r); err != nil {
				t.cancel(&c)
				return nil, err
			}
		}
		response, err := t.base.RoundTrip(outgoing)
		if response == nil || err != nil {
			if t.refused(ctx, &c, err) {
				continue
			}
			return response, err
		}
		c.response = response
		a := t.reader.response(response)
		if !t.observe(ctx, &c, &a) {
			if c.stage != idle {
				t.endWithBody(&c, response)
			}
			c.response = nil
			return response, nil
		}
		discard(response.Body)
		c.response = nil
	}
}

// CloseIdleConnections closes those of Options.Base, if it can. [http.Client] calls it.
func (t *Transport) CloseIdleConnections() {
	if c, ok := t.base.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

// rewound returns r as it is sent again: a clone with a new body.
func rewound(r *http.Request) (*http.Request, error) {
	r = r.Clone(r.Context())
	if r.GetBody == nil {
		return r, nil
	}
	body, err := r.GetBody()
	r.Body = body
	return r, err
}

// abandon ends a call that has no answer: it failed, or Options.Base or another function of the
// program panicked.
func (t *Transport) abandon(c *call) {
	if c.response != nil && c.response.Body != nil {
		c.response.Body.Close()
	}
	if c.stage != idle {
		t.end(c)
	}
}

// endWithBody ends c when the body of its answer is read or closed.
func (t *Transport) endWithBody(c *call, response *http.Response) {
	if response.Body == nil || response.Body == http.NoBody {
		t.end(c)
		return
	}
	ends := *c
	c.stage, c.finish = idle, nil // the body ends it from now on
	body := &countedBody{ReadCloser: response.Body, done: sync.OnceFunc(func() { t.end(&ends) })}
	response.Body = body
	if w, ok := body.ReadCloser.(io.Writer); ok { // 101 Switching Protocols
		response.Body = &writableBody{body, w}
	}
}

// countedBody tells when a body has been read or closed.
type countedBody struct {
	io.ReadCloser
	done func()
}

func (b *countedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil {
		b.done()
	}
	return n, err
}

func (b *countedBody) Close() error {
	defer b.done()
	return b.ReadCloser.Close()
}

// writableBody is a countedBody that can be written to, too.
type writableBody struct {
	*countedBody
	io.Writer
}

const (
	maxDiscard     = 64 << 10
	discardingTime = 100 * time.Millisecond
)

// discard reads the rest of a body, so that its connection can be used again. It closes the body
// early if the rest is long or slow.
func discard(body io.ReadCloser) {
	if body == nil {
		return
	}
	timer := time.AfterFunc(discardingTime, func() { body.Close() })
	io.CopyN(io.Discard, body, maxDiscard+1)
	timer.Stop()
	body.Close()
}
