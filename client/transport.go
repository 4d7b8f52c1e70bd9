package client

import "net/http"

// Transport is an [http.RoundTripper] that keeps to the limits of servers. [New] makes one;
// the zero value is of no use. It is safe for concurrent use. It has
// nothing to close and starts no goroutine. It keeps what it knows of 1,024 buckets, and of those
// that are in use, and forgets first those that are free first.
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

// MustNew is [New] for options that the program sets. It panics if they have a mistake; the
// zero Options have none.
func MustNew(o Options) *Transport {
	t, err := New(o)
	if err != nil {
		panic(err)
	}
	return t
}

// RoundTrip implements [http.RoundTripper]. A request whose body cannot be rewound is sent
// once. The answer to a denied request that is not repeated is returned as it came.
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	c := call{request: r, header: r.Header, id: t.identify(r), rewinds: rewinds(r), attempt: 1}
	if r.URL != nil {
		c.path = r.URL.Path
	}
	defer t.abandon(&c)
	for sent := false; ; sent = true {
		if err := t.wait(r.Context(), &c); err != nil {
			if !sent && r.Body != nil {
				r.Body.Close()
			}
			return nil, err
		}
		outgoing, err := outgoingOf(r, sent)
		if err != nil {
			t.cancel(&c)
			return nil, err
		}
		response, err := t.base.RoundTrip(outgoing)
		if response == nil || err != nil {
			if t.refused(&c, err) {
				continue
			}
			return response, err
		}
		c.response = response
		a := t.answerOf(response)
		if !t.observe(r.Context(), &c, &a) {
			t.endWithBody(&c, response)
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

// outgoingOf returns r as it is sent: with a body of its own if it was sent before.
func outgoingOf(r *http.Request, again bool) (*http.Request, error) {
	if !again {
		return r, nil
	}
	r = r.Clone(r.Context())
	if r.GetBody == nil {
		return r, nil
	}
	body, err := r.GetBody()
	r.Body = body
	return r, err
}

// answerOf reads a response. What a 403 of GitHub is about may stand in its body.
func (t *Transport) answerOf(response *http.Response) answer {
	a := t.read(response.StatusCode, response.Header, 0)
	if a.unclear && saysRateLimit(response) {
		a.denySecondary(false)
	}
	return a
}

// abandon ends a call that has no answer: an error is all that there is, or Options.Base or
// another function of the program has panicked.
func (t *Transport) abandon(c *call) {
	if c.response != nil && c.response.Body != nil {
		c.response.Body.Close()
	}
	t.end(c)
}
