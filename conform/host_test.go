package conform

import (
	"net"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/weir-go/weir/headers"
	"github.com/weir-go/weir/limits"
)

// oneAtATime is a listener that accepts a connection when the one before is closed.
type oneAtATime struct {
	net.Listener
	slot chan struct{}
}

type onlyConn struct {
	net.Conn
	free func()
}

func (l oneAtATime) Accept() (net.Conn, error) {
	l.slot <- struct{}{}
	c, err := l.Listener.Accept()
	if err != nil {
		<-l.slot
		return nil, err
	}
	return &onlyConn{c, sync.OnceFunc(func() { <-l.slot })}, nil
}

func (c *onlyConn) Close() error {
	defer c.free()
	return c.Conn.Close()
}

// A connection on which nothing is sent would keep such a server from all others.
func TestAServerOfOneConnectionAtATimeIsAsked(t *testing.T) {
	limit := limits.SlidingLog(limits.Per(3, 10*time.Second))
	server := httptest.NewUnstartedServer(ofWeir(limit, headers.IETF))
	server.Listener = oneAtATime{server.Listener, make(chan struct{}, 1)}
	server.Start()
	defer server.Close()
	p := fakeProfile(t, "url: "+server.URL, "start:", "limit: 3 per 10s", "algorithm: sliding-log", "fields: draft-11")
	r, err := Run(t.Context(), p, Options{Only: []string{"status", "key-apart", "head"}})
	if err != nil {
		t.Fatal(err)
	}
	for _, one := range r.Results {
		if one.Verdict != Holds {
			t.Errorf("%s: %s: %s", one.Check, one.Verdict, one.Found)
		}
	}
}
