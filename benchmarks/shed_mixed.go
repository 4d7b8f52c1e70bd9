package main

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir/benchmarks/table"
	"github.com/weir-go/weir/shed"
)

const (
	mixedCalm = 4 * time.Second  // without the client
	mixedPart = 24 * time.Second // with it
)

// reportShedMixed prints how many requests an idle service refuses while one client now and then
// asks for answers of a millisecond on the same route. All of it goes over loopback.
func reportShedMixed(int) error {
	fmt.Printf("## shedmixed: fast answers for one client, an idle service\n\n"+
		"%v without the client, then %v with it. Poisson arrivals.\n\n", mixedCalm, mixedPart)
	t := table.Table{Heads: []string{"the client", "the others", "of the others refused"}}
	for _, m := range []mixedLoad{
		{300, 2 * time.Second, 6 * time.Second, 50, 400 * time.Millisecond},
		{100, 5 * time.Second, 10 * time.Second, 100, 50 * time.Millisecond},
		{50, time.Second, 2 * time.Second, 20, time.Second},
	} {
		refused, err := m.play()
		if err != nil {
			return err
		}
		t.Add(fmt.Sprintf("%g a second of 1 ms for %v of %v", m.fast, m.asks, m.every),
			fmt.Sprintf("%g a second of %v", m.honest, m.takes), percent(refused))
	}
	t.Print(os.Stdout)
	return nil
}

// mixedLoad is a client that asks for fast answers, for asks of every, and others.
type mixedLoad struct {
	fast        float64 // requests a second
	asks, every time.Duration
	honest      float64
	takes       time.Duration
}

// play returns the part of the honest requests that was refused.
func (m *mixedLoad) play() (refused float64, err error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /page", func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("If-None-Match") != "" {
			time.Sleep(time.Millisecond)
			w.WriteHeader(http.StatusNotModified)
			return
		}
		time.Sleep(m.takes)
		io.WriteString(w, "hello\n")
	})
	server := &http.Server{
		Handler: shed.Handler(shed.MustNew(shed.Options[*http.Request]{}), mux),
	}
	go server.Serve(listener)
	defer server.Close()
	client := &http.Client{
		Transport: &http.Transport{MaxIdleConnsPerHost: 1000}, Timeout: 10 * time.Second,
	}
	var honest, refusals atomic.Int64
	var broken atomic.Int64 // without an answer
	ask := func(fast bool) {
		r, err := http.NewRequest("GET", "http://"+listener.Addr().String()+"/page", nil)
		if err != nil {
			panic(err)
		}
		if fast {
			r.Header.Set("If-None-Match", `"same"`)
		}
		response, err := client.Do(r)
		if err != nil {
			broken.Add(1)
			return
		}
		io.Copy(io.Discard, response.Body)
		response.Body.Close()
		if fast {
			return
		}
		honest.Add(1)
		if response.StatusCode == http.StatusServiceUnavailable {
			refusals.Add(1)
		}
	}
	start := time.Now()
	arrive := func(rate float64, asks func(at time.Duration) bool, fast bool) {
		random := rand.New(rand.NewPCG(uint64(rate), 1))
		var all sync.WaitGroup
		for at := time.Duration(0); at < mixedCalm+mixedPart; {
			at += time.Duration(random.ExpFloat64() / rate * float64(time.Second))
			if !asks(at) {
				continue
			}
			time.Sleep(time.Until(start.Add(at)))
			all.Go(func() { ask(fast) })
		}
		all.Wait()
	}
	var both sync.WaitGroup
	both.Go(func() { arrive(m.honest, func(time.Duration) bool { return true }, false) })
	both.Go(func() {
		arrive(m.fast, func(at time.Duration) bool {
			return at >= mixedCalm && (at-mixedCalm)%m.every < m.asks
		}, true)
	})
	both.Wait()
	if n := broken.Load(); n > 0 {
		return 0, fmt.Errorf("shedmixed: %d requests got no answer", n)
	}
	return float64(refusals.Load()) / float64(max(1, honest.Load())), nil
}
