package faults

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/keyfuncs"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/nethttp"
	"github.com/weir-go/weir/redisbackend"
)

// siteVariable has the address of the server where this program is to be a web
// site.
const siteVariable = "WEIR_FAULTS_SITE"

// The limit of a client, on each route. Denials are soon over, and soon forgotten
// by the denial cache: those who ask without pause ask Redis again and again.
const (
	floodRate  = 20 // a second
	floodBurst = 100
)

// sitePaths are the routes, one for each policy.
var sitePaths = [len(policies)]string{"/falls-back", "/fails-open", "/fails-closed"}

// siteReport is what a site says when it ends.
type siteReport struct {
	Flooder, Others tallies
	Opened          int    // times that the breaker did
	Why             string // the latest time
}

// tally counts decisions on a route.
type tally struct {
	Allowed, Denied                int   // by Redis, or the denial cache
	Units                          int64 // of what was allowed
	Fallback, Open, Closed, NoRule int
	Earliest, Latest               int64 // instants of Redis, in microseconds
	Longest                        int64 // nanoseconds in the limiter
	Err                            string
}

type tallies [len(policies)]tally

// elsewhere is how many decisions were not by Redis.
func (t tally) elsewhere() int { return t.Fallback + t.Open + t.Closed + t.NoRule }

func (t tally) String() string {
	return fmt.Sprintf("%d allowed and %d denied by Redis or the denial cache, %d by the fallback, %d open, %d closed",
		t.Allowed, t.Denied, t.Fallback, t.Open, t.Closed)
}

func (all tallies) longest() (longest int64) {
	for _, t := range all {
		longest = max(longest, t.Longest)
	}
	return longest
}

func (t *tally) add(o core.Outcome, cost int64, rules int, took time.Duration) {
	t.Longest = max(t.Longest, int64(took))
	if err := o.Err(); err != nil {
		t.Err = brief(err)
	}
	if o.Len() != rules {
		t.NoRule++
		return
	}
	d := o.At(0)
	switch d.Source {
	case limits.SourcePrimary, limits.SourceDenialCache:
		if o.Allowed() {
			t.Allowed++
			t.Units += cost
		} else {
			t.Denied++
		}
	case limits.SourceFallback:
		t.Fallback++
	case limits.SourceOpen:
		t.Open++
	case limits.SourceClosed:
		t.Closed++
	default:
		t.NoRule++
	}
	if d.Source == limits.SourcePrimary {
		if t.Earliest == 0 {
			t.Earliest = d.At
		}
		t.Earliest, t.Latest = min(t.Earliest, d.At), max(t.Latest, d.At)
	}
}

// floodedSite is a site behind a proxy, as the README would have it: it says where
// it is, answers until its input ends, and says what it has decided.
func floodedSite(redisAddr string) int {
	client := redis.NewClient(&redis.Options{
		Addr: redisAddr, ContextTimeoutEnabled: true, MaxRetries: -1, DialerRetries: 1,
	})
	defer client.Close()
	var mu sync.Mutex
	var report siteReport
	var changes changes
	backend := redisbackend.MustNew(client, redisbackend.Options{Logger: slog.New(&changes)})
	address := keyfuncs.Address(keyfuncs.MustTrustedProxies("127.0.0.0/8"))
	mux := http.NewServeMux()
	for i, policy := range policies {
		limiter := nethttp.MustNew(nethttp.Config{
			Rules: []nethttp.Rule{{
				Name: sitePaths[i][1:], Limit: limits.TokenBucket(limits.PerSecond(floodRate), floodBurst), Key: address,
				OnFailure: policy,
				Cost:      costOf,
			}, {
				Name: sitePaths[i][1:] + " by user", Limit: limits.SlidingWindow(limits.PerDay(1000)), OnFailure: policy,
				Key: core.When(func(r *http.Request) bool { return r.Header.Get("X-User") != "" }, keyfuncs.Header("X-User")),
			}},
			Backend: backend,
			Observer: core.ObserverFuncs[*http.Request]{OnDecision: func(_ context.Context, r *http.Request, o core.Outcome) {
				took := time.Since(r.Context().Value(arrival{}).(time.Time))
				mu.Lock()
				defer mu.Unlock()
				all := &report.Others
				if r.Header.Get("X-Forwarded-For") == flooder {
					all = &report.Flooder
				}
				rules := 1
				if r.Header.Get("X-User") != "" {
					rules++
				}
				all[i].add(o, costOf(r), rules, took)
			}},
		})
		mux.Handle(sitePaths[i], limiter.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			io.WriteString(w, "welcome")
		})))
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	go http.Serve(listener, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mux.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), arrival{}, time.Now())))
	}))
	fmt.Println(listener.Addr())
	io.Copy(io.Discard, os.Stdin)

	mu.Lock()
	defer mu.Unlock()
	report.Opened, report.Why = changes.opened(time.Time{}, time.Now())
	if err := json.NewEncoder(os.Stdout).Encode(report); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// arrival is under which a request's context has the time when it came.
type arrival struct{}

// costOf is what a request says that it costs.
func costOf(r *http.Request) int64 {
	if cost, err := strconv.ParseInt(r.Header.Get("X-Cost"), 10, 64); err == nil {
		return cost
	}
	return 1
}
