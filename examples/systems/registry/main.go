// Registry stands before a registry of images, a mirror of packages, and git with LFS. What begins
// work may be denied, what is in the middle of it is not, pages of the index are queued, and probes
// have a limit of their own. docs/systems.md explains why.
//
// To try it (only the lines that matter of each answer):
//
//	$ go run ./examples/systems/registry
//	$ curl -s -o /dev/null -w '%{http_code}\n' 'localhost:8080/v2/app/manifests/[1-61]' | uniq -c
//	     60 200
//	      1 429
//	$ curl -i localhost:8080/v2/
//	HTTP/1.1 200 OK
//	Ratelimit-Policy: "probes";q=600;w=60
//	$ curl --no-progress-meter -Z --parallel-immediate -o /dev/null -w '%{http_code}\n' \
//	    'localhost:8080/simple/p[1-160]/' | uniq -c
//	    160 200
//
// The last ten of these wait up to half a second. $REGISTRY, $MIRROR and $GIT are the URLs of what
// is behind. Instead of one that is not set this program answers. $REDIS_URL sets a Redis for the
// counts.
package main

import (
	"cmp"
	"context"
	"fmt"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/signal"
	"path"
	"strings"
	"syscall"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/keyfuncs"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
	"github.com/weir-go/weir/memory"
	"github.com/weir-go/weir/nethttp"
	"github.com/weir-go/weir/redisbackend"
)

// client counts by the address of the connection. Behind a proxy, use keyfuncs.MustTrustedProxies.
var client = keyfuncs.Address(keyfuncs.Peer)

// isProbe is true of requests whose denial is taken for an answer: the service is dead, or what
// they ask for is not there.
var isProbe = nethttp.MustProbes(
	"/healthz",                  // balancers
	"/v2/",                      // which protocol a registry speaks
	"HEAD /v2/{path...}",        // whether a push may leave out a blob
	"HEAD /simple/{path...}",    // whether a mirror has a package
	"HEAD /packages/{path...}",  // how long a file is
	"GET /git/{repo}/info/refs", // what a repository has
)

// rules returns the rules. Each request meets one of them.
func rules() []nethttp.Rule {
	minutely := func(n int64) limits.Limit { return limits.SlidingWindow(limits.PerMinute(n)) }
	rules := []nethttp.Rule{
		{Name: "probes", Limit: minutely(600), Key: core.When(isProbe, client)},

		// These begin a pull, an upload and a transfer. What follows is not denied with them, so
		// nothing is lost in the middle.
		{Name: "pulls", Limit: minutely(60), Key: core.When(isPull, client)},
		{Name: "pushes", Limit: minutely(60), Key: core.When(isPush, client)},
		{Name: "lfs", Limit: minutely(60), Key: core.When(isBatch, client)},

		// A denied page of an index is taken for a package that does not exist, so these wait. An
		// install of 75 packages asks for 150 pages and files at once. The last one waits 22 s.
		{
			Name: "packages", Key: core.When(isPackage, client),
			Limit: limits.LeakyQueue(limits.PerSecond(20), 600), NoDelay: 150,
		},
		{
			Name: "git", Key: core.When(isPack, client),
			Limit: limits.LeakyQueue(limits.PerSecond(2), 60), NoDelay: 10,
		},
	}
	return append(rules, nethttp.Rule{
		Name: "others", Limit: minutely(3000), Key: core.Otherwise(rules, client),
	})
}

func isPull(r *http.Request) bool {
	return r.Method == http.MethodGet && strings.HasPrefix(r.URL.Path, "/v2/") &&
		strings.Contains(r.URL.Path, "/manifests/")
}

func isPush(r *http.Request) bool {
	return r.Method == http.MethodPost && strings.HasPrefix(r.URL.Path, "/v2/") &&
		ends(r, "/blobs/uploads")
}

func isBatch(r *http.Request) bool {
	return r.Method == http.MethodPost && ends(r, "/info/lfs/objects/batch")
}

func isPackage(r *http.Request) bool {
	return r.Method == http.MethodGet &&
		(strings.HasPrefix(r.URL.Path, "/simple/") || strings.HasPrefix(r.URL.Path, "/packages/"))
}

func isPack(r *http.Request) bool {
	return r.Method == http.MethodPost && strings.HasPrefix(r.URL.Path, "/git/") &&
		(ends(r, "/git-upload-pack") || ends(r, "/git-receive-pack"))
}

// ends reports whether the path of r ends in end, with or without a slash: some servers take both.
func ends(r *http.Request, end string) bool {
	return strings.HasSuffix(strings.TrimSuffix(r.URL.Path, "/"), end)
}

// plain refuses methods and paths that a server behind may read in another way than the rules do.
func plain(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		at, clean := r.URL.Path, path.Clean(r.URL.Path)
		if r.URL.RawPath != "" || at != clean && at != strings.TrimSuffix(clean, "/")+"/" ||
			strings.ContainsAny(at, "%?#;\\\x00") {
			http.Error(w, "write the path without escapes, dots, semicolons and double slashes",
				http.StatusBadRequest)
			return
		}
		if r.Method != strings.ToUpper(r.Method) {
			http.Error(w, "write the method in capital letters", http.StatusBadRequest)
			return
		}
		next.ServeHTTP(w, r)
	})
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) error {
	backend, closeBackend, err := openBackend()
	if err != nil {
		return err
	}
	defer closeBackend() // runs after the last request
	limiter, err := nethttp.New(nethttp.Config{Rules: rules(), Backend: backend})
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	for _, service := range [][]string{
		{"REGISTRY", "/v2/"}, {"MIRROR", "/simple/", "/packages/"}, {"GIT", "/git/"},
	} {
		handler, err := behind(service[0])
		if err != nil {
			return err
		}
		for _, at := range service[1:] {
			mux.Handle(at, handler)
		}
	}
	mux.HandleFunc("/healthz", answer)
	return serve(ctx, plain(limiter.Handler(mux)))
}

// behind returns a proxy to the URL in a variable of the environment, or what answers without one.
func behind(variable string) (http.Handler, error) {
	at := os.Getenv(variable)
	if at == "" {
		return http.HandlerFunc(answer), nil
	}
	target, err := url.Parse(at)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", variable, err)
	}
	return &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(target)
		r.SetXForwarded()
		r.Out.Host = r.In.Host // a registry tells clients where to go on
	}}, nil
}

func answer(w http.ResponseWriter, r *http.Request) { fmt.Fprintln(w, r.Method, r.URL.Path) }

// openBackend returns memory, or the Redis at $REDIS_URL, and a function that closes it.
func openBackend() (backend backends.Backend, closeBackend func() error, err error) {
	url := os.Getenv("REDIS_URL")
	if url == "" {
		return memory.MustNew(memory.Options{}), func() error { return nil }, nil
	}
	redis, err := redisbackend.Open(url, redisbackend.Options{Prefix: "registry"})
	if err != nil {
		return nil, nil, fmt.Errorf("REDIS_URL: %w", err)
	}
	return redis, redis.Close, nil
}

// serve answers on $ADDR, or on port 8080 if it is not set, until ctx ends. Then requests in flight
// have ten seconds.
func serve(ctx context.Context, handler http.Handler) error {
	listener, err := net.Listen("tcp", cmp.Or(os.Getenv("ADDR"), ":8080"))
	if err != nil {
		return err
	}
	log.Printf("listening on %v", listener.Addr())
	server := &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: 10 * time.Second,
		ReadTimeout:       90 * time.Second, // in which your largest layer must arrive
		WriteTimeout:      90 * time.Second, // the wait in a queue is a part of it
		IdleTimeout:       2 * time.Minute,
	}
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(listener) }()
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	return server.Shutdown(ctx)
}
