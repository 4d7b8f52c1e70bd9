// Shed is a small API over a pool of 20 workers that need 50 ms for a request, so 400
// requests a second are all that it can do. What comes above that is shed, the least
// important requests first: those of test mode, then reads, then writes.
//
//	curl -i -X POST localhost:8080/charges
//	curl -i localhost:8080/charges
//	curl -i -H 'X-Mode: test' localhost:8080/charges
//
// It can make its own load, and prints a line a second:
//
//	go run ./examples/shed -load 1200
//
// "shed reads 571 of 708" means that 708 reads came and 571 of them were shed. The limit is that of
// writes: reads may fill half of it, test mode 30%. So it is well above 20, and fewer are in flight.
package main

import (
	"cmp"
	"flag"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir/shed"
)

const (
	workers = 20
	work    = 50 * time.Millisecond
	slo     = 300 * time.Millisecond // what clients think is good
)

// The classes, the most important first.
const (
	writes = iota
	reads
	tests
)

var shedder = shed.MustNew(shed.Options[*http.Request]{
	SLO:     slo,
	Classes: []shed.Class{writes: {Name: "writes"}, reads: {Name: "reads"}, tests: {Name: "tests"}},
	Classify: func(r *http.Request) int {
		switch {
		case r.Header.Get("X-Mode") == "test": // a client may say that it is less important, never that it is more
			return tests
		case r.Method == http.MethodPost:
			return writes
		}
		return reads
	},
	Exempt: func(r *http.Request) bool { return r.URL.Path == "/healthz" },
})

func main() {
	load := flag.Int("load", 0, "requests a second that the program sends to itself")
	flag.Parse()

	pool := make(chan struct{}, workers)
	charges := func(w http.ResponseWriter, _ *http.Request) {
		pool <- struct{}{}
		time.Sleep(work)
		<-pool
		fmt.Fprintln(w, "Done.")
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /charges", charges)
	mux.HandleFunc("POST /charges", charges)
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "Well.") })

	listener, err := net.Listen("tcp", cmp.Or(os.Getenv("ADDR"), ":8080"))
	if err != nil {
		log.Fatal(err)
	}
	log.Printf("listening on %v", listener.Addr())
	if *load > 0 {
		go offer(*load, "http://"+listener.Addr().String()+"/charges")
		go report()
	}
	server := &http.Server{Handler: shed.Handler(shedder, mux), ReadHeaderTimeout: 5 * time.Second}
	log.Fatal(server.Serve(listener))
}

var good atomic.Int64 // answers within the SLO

// offer sends requests at random instants, whether the ones before have an answer or not:
// of ten, two write, six read and two are of test mode.
func offer(perSecond int, url string) {
	client := &http.Client{Timeout: 2 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: 1000}}
	mean := float64(time.Second) / float64(perSecond)
	for next := time.Now(); ; next = next.Add(time.Duration(rand.ExpFloat64() * mean)) {
		time.Sleep(time.Until(next))
		r, _ := http.NewRequest(http.MethodGet, url, nil)
		switch n := rand.IntN(10); {
		case n < 2:
			r.Method = http.MethodPost
		case n < 4:
			r.Header.Set("X-Mode", "test")
		}
		began := next
		go func() {
			answer, err := client.Do(r)
			if err != nil {
				return
			}
			io.Copy(io.Discard, answer.Body)
			answer.Body.Close()
			if answer.StatusCode == http.StatusOK && time.Since(began) <= slo {
				good.Add(1)
			}
		}()
	}
}

// report prints a line a second: what the limit is, and what it has done to each class.
func report() {
	before, goodBefore := shedder.State(), int64(0)
	for range time.Tick(time.Second) {
		now, goodNow := shedder.State(), good.Load()
		fmt.Printf("limit %3d, in flight %3d, good %4d a second, shed", now.Limit, now.InFlight, goodNow-goodBefore)
		for i, c := range now.Classes {
			shed, admitted := c.Shed-before.Classes[i].Shed, c.Admitted-before.Classes[i].Admitted
			fmt.Printf("  %s %d of %d", c.Name, shed, shed+admitted)
		}
		fmt.Println()
		before, goodBefore = now, goodNow
	}
}
