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

// answerTime is how long a request waits for its answer.
const answerTime = 20 * time.Second

// senders makes a transport for each local address.
type senders struct {
	mu    sync.Mutex
	plain map[netip.Addr]*http.Transport
	two   *http.Transport
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
	if len(s.plain) >= maxSenders {
		t.DisableKeepAlives = true
		return t
	}
	s.plain[local] = t
	return t
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
	dialer := &net.Dialer{Timeout: answerTime} // a full queue of the server costs seconds
	if local.IsValid() {
		dialer.LocalAddr = net.TCPAddrFromAddrPort(netip.AddrPortFrom(local, 0))
	}
	return &http.Transport{
		DialContext: dialer.DialContext, MaxIdleConnsPerHost: 128, DisableCompression: true,
		ResponseHeaderTimeout: answerTime, Proxy: nil,
	}
}
