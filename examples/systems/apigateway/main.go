// Apigateway limits an API as Amazon API Gateway does: its account, its stages, its methods,
// and the usage plan of each API key, all from weir.yaml. docs/systems.md says why.
//
//	curl -i -H 'X-API-Key: k-basic' localhost:8080/prod/pets
//	curl -s -H 'X-API-Key: k-basic' 'localhost:8080/prod/pets?[1-30]'   # about 20, then Too Many Requests
//	curl -i -H 'X-API-Key: k-gold' -d '{}' localhost:8080/prod/orders   # five rules: RateLimit has them all
//	curl -i localhost:8080/prod/pets   # 403
package main

import (
	"cmp"
	"context"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/nethttp"
	"github.com/weir-go/weir/policy"
	"github.com/weir-go/weir/redisbackend"
	"github.com/weir-go/weir/remote"
)

// apiKeys are the keys that were given out.
var apiKeys = map[string]struct{ owner, plan string }{"k-basic": {"ann", "basic"}, "k-gold": {"bob", "gold"}}

var names = policy.Names[*http.Request]{
	Keys: map[string]func(*http.Request) (string, error){"api-key-owner": func(r *http.Request) (string, error) {
		return apiKeys[r.Header.Get("X-API-Key")].owner, nil
	}},
	Plans: map[string]func(*http.Request) (string, error){"usage-plan": func(r *http.Request) (string, error) {
		return apiKeys[r.Header.Get("X-API-Key")].plan, nil
	}},
}

// withKey answers requests without a known API key: they do not reach the limiter.
func withKey(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, ok := apiKeys[r.Header.Get("X-API-Key")]; !ok {
			answer(w, http.StatusForbidden, "ForbiddenException", "Forbidden")
			return
		}
		next.ServeHTTP(w, r)
	})
}

// denied answers like API Gateway, with Retry-After and RateLimit beside it. One text is for a
// quota, another for a rate.
func denied(w http.ResponseWriter, r *http.Request, o core.Outcome) {
	i := o.BindingRule()
	switch {
	case o.Verdict() != core.Denied || i < 0:
		answer(w, o.Status(), "ServiceUnavailableException", "Service Unavailable")
	case o.At(i).Rule == "plan-quota":
		answer(w, o.Status(), "LimitExceededException", "Limit Exceeded")
	default:
		answer(w, o.Status(), "TooManyRequestsException", "Too Many Requests")
	}
}

func answer(w http.ResponseWriter, status int, kind, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Amzn-ErrorType", kind)
	w.WriteHeader(status)
	fmt.Fprintf(w, "{\"message\":%q}\n", message)
}

func main() {
	p, err := policy.Load(cmp.Or(os.Getenv("POLICY"), "examples/systems/apigateway/weir.yaml"), names)
	if err != nil {
		log.Fatal(err)
	}
	config := nethttp.Config{Rules: p.Rules(), Denied: denied}
	if url := os.Getenv("REDIS_URL"); url != "" {
		backend, err := redisbackend.Open(url, redisbackend.Options{})
		if err != nil {
			log.Fatalf("REDIS_URL: %v", err)
		}
		// The account is one key for everybody. Leases decide it here, not with a call for each request.
		config.Backend = remote.NewStack(backend, remote.Options{Lease: time.Second})
	}
	limit := nethttp.MustNew(config)
	mux := http.NewServeMux()
	api := func(w http.ResponseWriter, r *http.Request) { fmt.Fprintln(w, `{"pets":[]}`) }
	for _, method := range []string{"GET /prod/pets", "GET /test/pets", "GET /prod/orders", "POST /prod/orders"} {
		mux.HandleFunc(method, api)
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) { // the file has no limit for it
		answer(w, http.StatusForbidden, "MissingAuthenticationTokenException", "Missing Authentication Token")
	})

	listener, err := net.Listen("tcp", cmp.Or(os.Getenv("ADDR"), ":8080"))
	if err != nil {
		log.Fatal(err)
	}
	log.Printf("listening on %v", listener.Addr())
	go policy.Watch(context.Background(), p, limit.Replace, policy.Options{})
	server := &http.Server{Handler: withKey(limit.Handler(mux)), ReadTimeout: 10 * time.Second}
	log.Fatal(server.Serve(listener))
}
