// Stripe limits and sheds as Stripe has described it: rates and requests at once for each API key, a
// shedder of the fleet, and one of this process, each with a switch. docs/systems.md says why.
//
//	curl -i -H 'Authorization: Bearer sk_live_1' localhost:8080/v1/customers   # 200
//	for i in $(seq 21); do
//	  curl -i -H 'Authorization: Bearer sk_live_1' 'localhost:8080/v1/customers?ms=5000' &
//	done; wait
//	# one 429
//	curl -i -X POST 'localhost:8081/modes?name=fleet&mode=shadow'
//	# or disabled, or enforce; or name=workers; ADMIN is another address
package main

import (
	"cmp"
	"context"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"path"
	"strconv"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/headers"
	"github.com/weir-go/weir/keyfuncs"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/nethttp"
	"github.com/weir-go/weir/redisbackend"
	"github.com/weir-go/weir/remote"
	"github.com/weir-go/weir/shed"
)

type request = *http.Request

var everybody = keyfuncs.Constant[request]("everybody")
var live = keyfuncs.DigestSet("sk_live_1", "sk_live_2", "sk_live_3", "sk_live_4", "sk_live_5", "sk_live_6")
var test = keyfuncs.DigestSet("sk_test_1")
var reasons = map[string]string{"rate": "global-rate", "charges": "endpoint-rate", "in-flight": "global-concurrency"}

func isCharge(r request) bool { return r.Method == "POST" && path.Clean(r.URL.Path) == "/v1/charges" }

// classify returns a class of workers. It stands behind authentication, so nobody chooses it.
func classify(r request) int {
	switch key, _ := keyfuncs.BearerToken(r); {
	case test(key):
		return 3
	case isCharge(r):
		return 0
	case r.Method == "GET" || r.Method == "HEAD":
		return 2
	}
	return 1 // POST and DELETE
}

func denied(w http.ResponseWriter, r request, o core.Outcome) {
	for i := range o.Len() {
		if d := o.At(i); !d.Allowed && d.Mode == core.Enforce && reasons[d.Rule] != "" {
			w.Header().Set("Stripe-Rate-Limited-Reason", reasons[d.Rule])
		}
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(o.Status())
	fmt.Fprintf(w, "{\"error\":{\"type\":%q}}\n", map[int]string{429: "rate_limit_error", 503: "api_error"}[o.Status()])
}

func work(w http.ResponseWriter, r request) { // takes ms milliseconds
	ms, _ := strconv.Atoi(r.URL.Query().Get("ms"))
	done, cancel := context.WithTimeout(r.Context(), time.Duration(min(max(ms, 0), 60_000))*time.Millisecond)
	defer cancel()
	<-done.Done()
}

func main() {
	period, _ := time.ParseDuration(cmp.Or(os.Getenv("PERIOD"), "1s"))
	workers, _ := strconv.Atoi(cmp.Or(os.Getenv("WORKERS"), "64"))
	rate := limits.TokenBucket(limits.Per(100, period), 100)
	config := nethttp.Config{Denied: denied, Headers: headers.Options{Show: headers.Omit}, Rules: []nethttp.Rule{
		{Name: "rate", Key: core.When(func(r request) bool { return !isCharge(r) }, keyfuncs.BearerToken), Limit: rate},
		{Name: "charges", Key: core.When(isCharge, keyfuncs.BearerToken), Limit: rate},
		{Name: "in-flight", Key: keyfuncs.BearerToken, Limit: limits.Concurrent(20)},
		{Name: "fleet", Key: everybody, Limit: limits.Concurrent(100), DenyAs503: true},
		{
			Name:  "fleet-rest",
			Key:   core.When(func(r request) bool { return classify(r) != 0 }, everybody),
			Limit: limits.Concurrent(80), DenyAs503: true,
		},
	}}
	if url := os.Getenv("REDIS_URL"); url != "" {
		ofOneKey := []string{"rate", "charges", "in-flight"}
		backend, err := redisbackend.Open(url, redisbackend.Options{Prefix: "stripe", Together: ofOneKey})
		if err != nil {
			log.Fatalf("REDIS_URL: %v", err)
		}
		config.Backend = remote.NewStack(backend, remote.Options{})
	}
	limit := nethttp.MustNew(config)
	options := shed.Options[request]{Algorithm: shed.Fixed(workers), Classify: classify, Classes: []shed.Class{
		{Name: "charges"}, {Name: "post", Share: 90}, {Name: "get", Share: 80}, {Name: "test", Share: 50}}}
	shedder := shed.MustNew(options)
	shedding := shed.Handler(shedder, limit.Handler(http.HandlerFunc(work)))
	api := http.HandlerFunc(func(w http.ResponseWriter, r request) {
		if key, err := keyfuncs.BearerToken(r); err != nil || !live(key) && !test(key) {
			http.Error(w, "unknown API key", http.StatusUnauthorized)
			return
		}
		shedding.ServeHTTP(w, r)
	})
	modes := http.HandlerFunc(func(w http.ResponseWriter, r request) {
		mode, err := core.ParseMode(r.FormValue("mode"))
		if o := options; err == nil && r.FormValue("name") == "workers" {
			o.Mode = mode
			err = shedder.Replace(o)
		} else if err == nil {
			err = limit.Override(r.FormValue("name"), core.Override{
				Mode: &mode, Until: time.Now().Add(time.Hour), Why: "switched",
			})
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
		}
	})
	// In this process, of rules for an hour. No page in a browser throws a switch.
	http.Handle("POST /modes", http.NewCrossOriginProtection().Handler(modes))
	listener, err := net.Listen("tcp", cmp.Or(os.Getenv("ADDR"), ":8080"))
	operators, failed := net.Listen("tcp", cmp.Or(os.Getenv("ADMIN"), "127.0.0.1:8081"))
	if err := cmp.Or(err, failed); err != nil {
		log.Fatal(err)
	}
	log.Printf("listening on %v", listener.Addr())
	go func() { log.Fatal(http.Serve(operators, nil)) }()
	log.Fatal((&http.Server{Handler: api, ReadTimeout: 10 * time.Second}).Serve(listener)) // a slow body holds a worker
}
