package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/nethttp"
	"github.com/weir-go/weir/shed"
)

// who is the field by which clients name themselves. Only the limited one is ever denied.
const (
	who     = "X-Client"
	limited = "limited"
	held    = "/held" // waits until the servers end
)

// Servers are two servers that deny the limited client.
type servers struct {
	ports [2]string
	asked atomic.Int64 // requests of the limited client
	end   context.CancelFunc
}

// serve starts them. They answer 429 by a quota that is used up. They answer 503 if the service is
// full: one by a rule with DenyAs503, the other by a shedder.
func serve(answer string) (*servers, error) {
	ctx, cancel := context.WithCancel(context.Background())
	s := &servers{end: cancel}
	app := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == held {
			<-ctx.Done()
			return
		}
		if r.ProtoMajor == 2 {
			w.Header().Set("Content-Type", "application/grpc")
			w.Header().Set("Trailer", "Grpc-Status")
			w.Write(make([]byte, 5)) // an empty message
			w.Header().Set("Grpc-Status", "0")
			return
		}
		io.WriteString(w, "Hello.\n")
	})
	for i := range s.ports {
		next, err := limit(ctx, answer, i, app)
		if err != nil {
			cancel()
			return nil, err
		}
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			cancel()
			return nil, err
		}
		_, s.ports[i], _ = net.SplitHostPort(listener.Addr().String())
		server := &http.Server{Protocols: new(http.Protocols), ReadHeaderTimeout: time.Minute,
			Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Header.Get(who) == limited {
					s.asked.Add(1)
				}
				next.ServeHTTP(w, r)
			})}
		server.Protocols.SetHTTP1(true)
		server.Protocols.SetUnencryptedHTTP2(true)
		go server.Serve(listener)
		context.AfterFunc(ctx, func() { server.Close() })
	}
	return s, nil
}

// limit returns app behind weir, with no room for the limited client.
func limit(ctx context.Context, answer string, i int, app http.Handler) (http.Handler, error) {
	key := func(r *http.Request) (string, error) {
		if r.Header.Get(who) != limited {
			return "", core.ErrDoesNotApply
		}
		return limited, nil
	}
	rule := nethttp.Rule{Name: "per-client", Limit: limits.TokenBucket(limits.Per(1, time.Hour), 1), Key: key}
	path := "/"
	switch {
	case answer == "503" && i == 0:
		rule.Name, rule.Limit, rule.DenyAs503, path = "service", limits.Concurrent(1), true, held
	case answer == "503":
		shedder := shed.MustNew(shed.Options[*http.Request]{
			Limit: 1, Exempt: func(r *http.Request) bool { return r.Header.Get(who) != limited },
		})
		handler := shed.Handler(shedder, app)
		return handler, fill(ctx, handler, held)
	case answer != "429":
		return nil, fmt.Errorf("weir has no answer %q", answer)
	}
	handler := nethttp.MustNew(nethttp.Config{Rules: []nethttp.Rule{rule}}).Handler(app)
	return handler, fill(ctx, handler, path)
}

// fill uses up what the limited client has, and waits until its next request is denied.
func fill(ctx context.Context, handler http.Handler, path string) error {
	request := func(path string) *http.Request {
		r := httptest.NewRequestWithContext(ctx, "GET", path, nil)
		r.Header.Set(who, limited)
		return r
	}
	go func() {
		for ctx.Err() == nil && path == held { // a request below may have had its place
			handler.ServeHTTP(httptest.NewRecorder(), request(path))
		}
	}()
	for range 1000 {
		w := httptest.NewRecorder()
		if handler.ServeHTTP(w, request("/")); w.Code != http.StatusOK {
			return nil
		}
		time.Sleep(time.Millisecond)
	}
	return fmt.Errorf("weir denies nothing")
}
