package main

import (
	"context"
	"io"
	"net"
	"net/http"
	"runtime"

	"github.com/weir-go/weir/benchmarks/measure"
	"github.com/weir-go/weir/benchmarks/outgoing"
)

// The columns of the group client: an answer without network, with each set of fields, and an
// exchange with a server in memory.
const clientColumns = 4

// workClient is a worker that measures the cost of one client around a transport. It has one
// processor: waking another one varies by more than clients differ.
func workClient(name string) {
	runtime.GOMAXPROCS(1)
	var c outgoing.Contestant
	for _, each := range outgoing.Contestants() {
		if each.Name == name {
			c = each
		}
	}
	var columns []*measure.Pair
	for _, a := range outgoing.Answers() {
		columns = append(columns, pairOf(outgoing.At(a.Header), c))
	}
	work(nil, append(columns, pairOf(inMemory(), c)))
}

func pairOf(base http.RoundTripper, c outgoing.Contestant) *measure.Pair {
	return measure.NewPair(loopOf(base), loopOf(c.Wrap(base)))
}

func loopOf(t http.RoundTripper) measure.Loop {
	r := outgoing.Request()
	return func(_, n int) (right int) {
		for range n {
			response, err := t.RoundTrip(r)
			if err != nil {
				continue
			}
			if response.Body != http.NoBody {
				io.Copy(io.Discard, response.Body)
				response.Body.Close()
			}
			if response.StatusCode == http.StatusOK {
				right++
			}
		}
		return right
	}
}

// inMemory returns a copy of http.DefaultTransport that is connected by pipes to a server. The
// answers have the fields of the second of outgoing.Answers.
func inMemory() http.RoundTripper {
	connections := make(pipe)
	header := outgoing.Answers()[1].Header
	go http.Serve(connections, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		for name, values := range header {
			w.Header()[name] = values
		}
		io.WriteString(w, "hello")
	}))
	base := http.DefaultTransport.(*http.Transport).Clone()
	base.Proxy = nil
	base.DialContext = func(context.Context, string, string) (net.Conn, error) {
		here, there := net.Pipe()
		connections <- there
		return here, nil
	}
	return base
}

// pipe is a listener with pipes as connections.
type pipe chan net.Conn

func (p pipe) Accept() (net.Conn, error) { return <-p, nil }
func (p pipe) Close() error              { return nil }
func (p pipe) Addr() net.Addr            { return &net.IPAddr{} }
