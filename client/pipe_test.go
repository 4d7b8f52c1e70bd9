package client_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/weir-go/weir/client"
)

// pipes is a listener whose connections are pipes, so that a server and its clients live in
// one bubble.
type pipes struct {
	accept chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.accept:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error   { p.once.Do(func() { close(p.closed) }); return nil }
func (p *pipes) Addr() net.Addr { return &net.TCPAddr{} }

func (p *pipes) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	here, there := net.Pipe()
	select {
	case p.accept <- there:
		return here, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// serve serves handler over pipes and returns a transport to it, whatever the host. In a
// bubble both end before it does, if stop is called.
func serve(handler http.Handler) (base *http.Transport, stop func()) {
	p := &pipes{accept: make(chan net.Conn), closed: make(chan struct{})}
	server := &http.Server{Handler: handler}
	done := make(chan struct{})
	go func() { defer close(done); server.Serve(p) }()
	base = &http.Transport{DialContext: p.dial, MaxIdleConnsPerHost: 1000, DisableCompression: true}
	return base, func() {
		base.CloseIdleConnections()
		server.Shutdown(context.Background())
		<-done
	}
}

// get sends a GET and reads the answer.
func get(c http.RoundTripper, url string) (*http.Response, error) {
	r, err := http.NewRequest("GET", url, nil)
	if err != nil {
		return nil, err
	}
	return do(c, r)
}

func do(c http.RoundTripper, r *http.Request) (*http.Response, error) {
	response, err := c.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	io.Copy(io.Discard, response.Body)
	return response, response.Body.Close()
}

// answers is a server that is a function: it answers at once, without a connection.
type answers func(n int, r *http.Request) *http.Response

// script is a RoundTripper that answers by f. It counts requests, and notes when they came.
type script struct {
	mu     sync.Mutex
	f      answers
	at     []time.Duration
	began  time.Time
	bodies []string
}

func scripted(f answers) *script { return &script{f: f, began: time.Now()} }

func (s *script) RoundTrip(r *http.Request) (*http.Response, error) {
	text := ""
	if r.Body != nil {
		b, err := io.ReadAll(r.Body)
		r.Body.Close()
		if err != nil {
			return nil, err
		}
		text = string(b)
	}
	s.mu.Lock()
	s.at = append(s.at, time.Since(s.began))
	s.bodies = append(s.bodies, text)
	n := len(s.at)
	s.mu.Unlock()
	response := s.f(n, r)
	response.Request = r
	return response, nil
}

func (s *script) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.at)
}

// answer makes an answer with header fields, given as name and value by turns.
func answer(status int, fields ...string) *http.Response {
	h := make(http.Header)
	for i := 0; i < len(fields); i += 2 {
		h.Add(fields[i], fields[i+1])
	}
	return &http.Response{StatusCode: status, Header: h, Body: http.NoBody, ProtoMajor: 1, ProtoMinor: 1}
}

func newClient(t *testing.T, s http.RoundTripper, o client.Options) *client.Transport {
	t.Helper()
	o.Base = s
	return client.MustNew(o)
}
