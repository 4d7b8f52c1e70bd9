// Stripe limits and sheds as Stripe has described: rates and concurrent requests for each API key,
// a shedder for the fleet, and a shedder for this process, each with a switch. docs/systems.md
// explains why.
//
// To try it (only the lines that matter of each answer):
//
//	$ go run ./examples/systems/stripe
//	$ curl -i -H 'Authorization: Bearer sk_live_1' localhost:8080/v1/customers
//	HTTP/1.1 200 OK
//	$ for i in $(seq 21); do
//	    curl -s -o /dev/null -w '%{http_code}\n' -H 'Authorization: Bearer sk_live_1' \
//	      'localhost:8080/v1/customers?ms=1000' &
//	  done | sort | uniq -c
//	     20 200
//	      1 429
//	$ curl -i -X POST 'localhost:8081/modes?name=in-flight&mode=shadow'
//	HTTP/1.1 200 OK
//	$ for i in $(seq 21); do
//	    curl -s -o /dev/null -w '%{http_code}\n' -H 'Authorization: Bearer sk_live_1' \
//	      'localhost:8080/v1/customers?ms=1000' &
//	  done | sort | uniq -c
//	     21 200
//
// The switch takes the names of rules, and "workers" for the shedder of this process. Modes are
// enforce, shadow and disabled. $REDIS_URL sets a Redis for the counts, $PERIOD the time for 100
// requests, and $WORKERS the number of concurrent requests of this process.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"os/signal"
	"path"
	"strconv"
	"syscall"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/headers"
	"github.com/weir-go/weir/keyfuncs"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
	"github.com/weir-go/weir/memory"
	"github.com/weir-go/weir/nethttp"
	"github.com/weir-go/weir/redisbackend"
	"github.com/weir-go/weir/shed"
)

// The issued API keys.
var (
	isLiveKey = keyfuncs.DigestSet(
		"sk_live_1", "sk_live_2", "sk_live_3", "sk_live_4", "sk_live_5", "sk_live_6",
	)
	isTestKey = keyfuncs.DigestSet("sk_test_1")
)

// rules returns the limits of an API key and those of the fleet.
func rules(period time.Duration) []nethttp.Rule {
	rate := limits.TokenBucket(limits.Per(100, period), 100)
	return []nethttp.Rule{{
		Name:  "rate",
		Key:   core.When(isNoCharge, apiKey),
		Limit: rate,
	}, {
		// a separate bucket: a key that lists its customers can still take payments
		Name:  "charges",
		Key:   core.When(isCharge, apiKey),
		Limit: rate,
	}, {
		Name:  "in-flight",
		Key:   apiKey,
		Limit: limits.Concurrent(20),
	}, {
		Name:      "fleet",
		Key:       everybody,
		Limit:     limits.Concurrent(100),
		DenyAs503: true, // a denial is a 503: the client is not at fault
	}, {
		Name:      "fleet-rest", // a fifth of the fleet is kept for charges
		Key:       core.When(isNoLiveCharge, everybody),
		Limit:     limits.Concurrent(80),
		DenyAs503: true,
	}}
}

// rulesOfOneKey are on one node of a Redis Cluster.
var rulesOfOneKey = []string{"rate", "charges", "in-flight"}

// reasons are the reasons that clients see, by rule. A full fleet has none.
var reasons = map[string]string{
	"rate":      "global-rate",
	"charges":   "endpoint-rate",
	"in-flight": "global-concurrency",
}

// The classes of the workers, the most important first.
const (
	liveCharges = iota
	liveChanges // POST and DELETE
	liveReads
	testMode
)

// workers sheds load of this process, independently of the fleet.
func workers(atOnce int) shed.Options[*http.Request] {
	return shed.Options[*http.Request]{
		Limit:    atOnce,
		Classify: classify,
		Classes: []shed.Class{
			liveCharges: {Name: "charges"},
			liveChanges: {Name: "post", Share: 90},
			liveReads:   {Name: "get", Share: 80},
			testMode:    {Name: "test", Share: 50},
		},
	}
}

var (
	apiKey    = keyfuncs.BearerToken
	everybody = keyfuncs.Constant[*http.Request]("everybody")
)

func isCharge(r *http.Request) bool {
	return r.Method == http.MethodPost && path.Clean(r.URL.Path) == "/v1/charges"
}

func isNoCharge(r *http.Request) bool { return !isCharge(r) }

func isNoLiveCharge(r *http.Request) bool { return classify(r) != liveCharges }

// classify returns a class of the workers. It runs after authentication, so clients cannot choose
// it.
func classify(r *http.Request) int {
	key, err := apiKey(r)
	switch {
	case err != nil || isTestKey(key):
		return testMode
	case isCharge(r):
		return liveCharges
	case r.Method == http.MethodGet || r.Method == http.MethodHead:
		return liveReads
	}
	return liveChanges
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) error {
	period, err := time.ParseDuration(cmp.Or(os.Getenv("PERIOD"), "1s"))
	if err != nil {
		return fmt.Errorf("PERIOD: %w", err)
	}
	atOnce, err := strconv.Atoi(cmp.Or(os.Getenv("WORKERS"), "64"))
	if err != nil {
		return fmt.Errorf("WORKERS: %w", err)
	}
	backend, closeBackend, err := openBackend()
	if err != nil {
		return err
	}
	defer closeBackend() // runs after the last request
	limiter, err := nethttp.New(nethttp.Config{
		Rules:   rules(period),
		Backend: backend,
		Headers: headers.Options{Show: headers.Omit},
		Denied:  denied,
	})
	if err != nil {
		return err
	}
	options := workers(atOnce)
	shedder, err := shed.New(options)
	if err != nil {
		return err
	}

	limited := limiter.Handler(http.HandlerFunc(work))
	api := authenticated(shed.Handler(shedder, limited))

	switches := &switches{limiter: limiter, workers: shedder, options: options}
	// pages of other sites cannot use a switch
	modes := http.NewCrossOriginProtection().Handler(switches)
	operators := http.NewServeMux()
	operators.Handle("POST /modes", modes)
	return serve(ctx, api, local(operators))
}

// local serves requests for localhost or an address. Any other name may be one that a page in the
// browser has pointed at this machine.
func local(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host := (&url.URL{Host: r.Host}).Hostname()
		if _, err := netip.ParseAddr(host); err != nil && host != "localhost" {
			http.Error(w, "ask for localhost or an address", http.StatusMisdirectedRequest)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// openBackend returns memory, or the Redis at $REDIS_URL, and a function that closes it.
func openBackend() (backend backends.Backend, closeBackend func() error, err error) {
	url := os.Getenv("REDIS_URL")
	if url == "" {
		return memory.MustNew(memory.Options{}), func() error { return nil }, nil
	}
	redis, err := redisbackend.Open(url, redisbackend.Options{
		Prefix:   "stripe",
		Together: rulesOfOneKey,
	})
	if err != nil {
		return nil, nil, fmt.Errorf("REDIS_URL: %w", err)
	}
	return redis, redis.Close, nil
}

// authenticated rejects requests without a known API key.
func authenticated(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		key, err := apiKey(r)
		if err != nil || !isLiveKey(key) && !isTestKey(key) {
			http.Error(w, "unknown API key", http.StatusUnauthorized)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// work takes ms milliseconds.
func work(w http.ResponseWriter, r *http.Request) {
	ms, _ := strconv.Atoi(r.URL.Query().Get("ms")) // 0 if missing
	select {
	case <-time.After(time.Duration(min(max(ms, 0), 60_000)) * time.Millisecond):
	case <-r.Context().Done(): // the client has left
	}
}

func denied(w http.ResponseWriter, r *http.Request, outcome core.Outcome) {
	if reason := reasonOf(outcome); reason != "" {
		w.Header().Set("Stripe-Rate-Limited-Reason", reason)
	}
	kind := "rate_limit_error"
	if outcome.Status() == http.StatusServiceUnavailable {
		kind = "api_error"
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(outcome.Status())
	fmt.Fprintf(w, `{"error":{"type":%q}}`+"\n", kind)
}

// reasonOf returns the reason of a denial by a rule of the key, or "".
func reasonOf(outcome core.Outcome) string {
	reason := ""
	for i := range outcome.Len() {
		decision := outcome.At(i)
		if decision.Allowed || decision.Mode() != core.Enforce {
			continue
		}
		reason = cmp.Or(reasons[decision.Rule()], reason)
	}
	return reason
}

// switches lets an operator change modes in this process.
type switches struct {
	limiter *nethttp.Limiter
	workers *shed.Shedder[*http.Request]
	options shed.Options[*http.Request] // of workers
}

// ServeHTTP changes the mode of a rule or of workers.
func (s *switches) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	mode, err := core.ParseMode(r.FormValue("mode"))
	if err == nil {
		err = s.set(r.FormValue("name"), mode)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
	}
}

// set changes the mode of workers, or of a rule for an hour.
func (s *switches) set(name string, mode core.Mode) error {
	if name == "workers" {
		options := s.options
		options.Mode = mode
		return s.workers.Replace(options)
	}
	return s.limiter.Override(name, core.Override{
		Mode:  &mode,
		Until: time.Now().Add(time.Hour),
		Why:   "switched by an operator",
	})
}

// serve answers clients on $ADDR, or on port 8080 if it is not set, and operators on $ADMIN, or on
// port 8081 of this machine alone, until ctx ends. Then requests in flight have ten seconds.
func serve(ctx context.Context, api, operators http.Handler) error {
	listener, err := net.Listen("tcp", cmp.Or(os.Getenv("ADDR"), ":8080"))
	if err != nil {
		return err
	}
	adminListener, err := net.Listen("tcp", cmp.Or(os.Getenv("ADMIN"), "127.0.0.1:8081"))
	if err != nil {
		return err
	}
	log.Printf("listening on %v", listener.Addr())
	log.Printf("operators: http://%v", adminListener.Addr())
	server, adminServer := newServer(api), newServer(operators)
	failed := make(chan error, 2)
	go func() { failed <- server.Serve(listener) }()
	go func() { failed <- adminServer.Serve(adminListener) }()
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	return errors.Join(server.Shutdown(ctx), adminServer.Shutdown(ctx))
}

func newServer(handler http.Handler) *http.Server {
	return &http.Server{
		Handler:      handler,
		ReadTimeout:  10 * time.Second, // otherwise a slow body holds the units of its request
		WriteTimeout: 90 * time.Second, // work may take sixty of them
		IdleTimeout:  2 * time.Minute,
	}
}
