package conform

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"
)

// host starts servers and their store.
type host interface {
	// start starts a server and waits until it listens. It returns errElsewhere if the profile has
	// no command.
	start(ctx context.Context) (instance, error)

	// stopStore and startStore end and start the shared store.
	stopStore() error
	startStore(ctx context.Context) error

	// close ends what is left.
	close()
}

// instance is a running server.
type instance interface {
	// url is where it listens.
	url() string

	// from returns what sends requests from an address of this machine; the zero one: any.
	from(local netip.Addr, http2 bool) http.RoundTripper

	// memory returns how much memory the server has, if that is known.
	memory() (bytes int64, ok bool)

	// restart ends the server and starts it again at the same address.
	restart(ctx context.Context) error
}

// errElsewhere is the error of a host that cannot start a server.
var errElsewhere = errors.New("the profile has no command that starts the server")

const (
	answerTime = 20 * time.Second // for a request to be answered
	idleTime   = time.Second      // until a connection without a request is closed
)

// senders makes a transport for each local address.
type senders struct {
	mu    sync.Mutex
	plain map[netip.Addr]*http.Transport
	two   *http.Transport
	once  bool // the server closes each connection after an answer
}

// from returns the transport of a local address. A transport of an address keeps connections as long
// as the run lasts, so there are at most maxSenders of them.
func (s *senders) from(local netip.Addr, http2 bool) http.RoundTripper {
	s.mu.Lock()
	defer s.mu.Unlock()
	if http2 {
		if s.two == nil {
			s.two = transportFrom(netip.Addr{})
			s.two.Protocols = new(http.Protocols)
			s.two.Protocols.SetUnencryptedHTTP2(true)
			s.two.Protocols.SetHTTP2(true)
		}
		return s.two
	}
	if t := s.plain[local]; t != nil {
		return t
	}
	t := transportFrom(local)
	if s.plain == nil {
		s.plain = make(map[netip.Addr]*http.Transport)
	}
	t.DisableKeepAlives = s.once || len(s.plain) >= maxSenders
	if len(s.plain) >= maxSenders {
		return t
	}
	s.plain[local] = t
	return t
}

// answered notes what an answer says of connections.
func (s *senders) answered(answer *http.Response) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.once = answer.Close
}

// maxSenders is how many addresses keep their connections.
const maxSenders = 1000

func (s *senders) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range s.plain {
		t.CloseIdleConnections()
	}
	if s.two != nil {
		s.two.CloseIdleConnections()
	}
	s.plain, s.two = nil, nil
}

func transportFrom(local netip.Addr) *http.Transport {
	dialer := &net.Dialer{Timeout: answerTime}
	if local.IsValid() {
		dialer.LocalAddr = net.TCPAddrFromAddrPort(netip.AddrPortFrom(local, 0))
	}
	return &http.Transport{
		DialContext: dialer.DialContext,
		// A server that serves one connection at a time waits for those that are idle.
		MaxIdleConnsPerHost: 128, IdleConnTimeout: idleTime, DisableCompression: true,
		ResponseHeaderTimeout: answerTime, Proxy: nil,
	}
}
