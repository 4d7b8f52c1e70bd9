// Reload reads its limits from a file, follows the file, and exports metrics to Prometheus.
//
// To try it (only the lines that matter of each answer):
//
//	$ cp examples/operations/reload/weir.yaml /tmp/weir.yaml
//	$ POLICY=/tmp/weir.yaml go -C examples/operations run ./reload
//	$ curl -s -o /dev/null -w '%{http_code}\n' 'localhost:8080/?[1-21]' | uniq -c
//	     20 200
//	      1 429
//	$ sed -i s/20.minute/100\\/minute/ /tmp/weir.yaml
//	$ until curl -si localhost:8080 | grep 200; do sleep 1; done
//	HTTP/1.1 200 OK
//	$ curl -s localhost:8081/metrics
//	weir_policy_loads_total{policy="weir.yaml",result="applied"} 2
//	weir_requests_total{limiter="api",verdict="allowed"} 2...
package main

import (
	"cmp"
	"context"
	"fmt"
	"log"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/weir-go/weir/nethttp"
	"github.com/weir-go/weir/policy"
	"github.com/weir-go/weir/stats"
	"github.com/weir-go/weir/stats/weirprom"
)

func main() {
	stopped, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	p, err := policy.Load(cmp.Or(os.Getenv("POLICY"), "weir.yaml"), policy.Names[*http.Request]{})
	if err != nil {
		log.Fatal(err) // every mistake, one per line
	}
	counters := stats.New(stats.Options{})
	api := counters.Limiter("api") // its name in metrics
	limiter := nethttp.MustNew(nethttp.Config{Rules: p.Rules(), Observer: api})
	status := p.Status()
	counters.WatchPolicy("weir.yaml", status)
	go policy.Watch(context.Background(), p, limiter.Replace, policy.Options{Status: status})

	registry := prometheus.NewRegistry()
	registry.MustRegister(weirprom.NewCollector(counters))
	metrics := promhttp.HandlerFor(registry, promhttp.HandlerOpts{})
	admin := cmp.Or(os.Getenv("ADMIN"), "127.0.0.1:8081")
	go func() { log.Fatal(serverOf(admin, named("127.0.0.1", metrics)).ListenAndServe()) }()

	http.HandleFunc("GET /", hello)
	listener, err := net.Listen("tcp", cmp.Or(os.Getenv("ADDR"), ":8080"))
	if err != nil {
		log.Fatal(err)
	}
	log.Printf("listening on %v", listener.Addr())
	server := serverOf("", limiter.Handler(http.DefaultServeMux))
	go func() { log.Print(server.Serve(listener)) }()
	<-stopped.Done()
	if err := server.Shutdown(context.Background()); err != nil {
		log.Fatal(err)
	}
}

func serverOf(addr string, handler http.Handler) *http.Server {
	return &http.Server{
		Addr: addr, Handler: handler,
		ReadTimeout: 10 * time.Second, WriteTimeout: 20 * time.Second, IdleTimeout: 2 * time.Minute,
	}
}

// named serves requests for one name only: a page in a browser could point another name at this
// server.
func named(name string, handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if host := (&url.URL{Host: r.Host}).Hostname(); host != name && host != "localhost" {
			http.Error(w, "no such name", http.StatusMisdirectedRequest)
			return
		}
		handler.ServeHTTP(w, r)
	})
}

func hello(w http.ResponseWriter, r *http.Request) { fmt.Fprintln(w, "Hello.") }
