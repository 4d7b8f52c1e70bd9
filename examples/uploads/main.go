// Uploads limits by the end of requests: uploads that run at once, log-ins that fail, tokens that a
// model used.
//
// To try it (only the lines that matter of each answer):
//
//	$ go run ./examples/uploads
//	$ for i in $(seq 3); do
//	    curl -s -o /dev/null -w '%{http_code}\n' -X POST -H 'X-API-Key: ann' \
//	      'localhost:8080/upload?ms=1000' &
//	  done | sort | uniq -c
//	      2 200
//	      1 429
//	$ curl -s -o /dev/null -w '%{http_code}\n' -d 'user=ann&password=right' \
//	    'localhost:8080/login?[1-9]' | uniq -c
//	      9 200
//	$ curl -s -o /dev/null -w '%{http_code}\n' -d 'user=ann&password=wrong' \
//	    'localhost:8080/login?[1-4]' | uniq -c
//	      3 401
//	      1 429
//	$ curl -i -X POST -H 'X-API-Key: ann' 'localhost:8080/chat?tokens=1500'
//	HTTP/1.1 200 OK
//	Ratelimit: "tokens";r=900;t=54
//	$ curl -i -X POST -H 'X-API-Key: ann' 'localhost:8080/chat?tokens=1'
//	HTTP/1.1 429 Too Many Requests
//	Retry-After: 36
//
// The answer to 1500 tokens shows the remaining quota after the estimate of 100. The rest is
// charged when the request ends. $REDIS_URL sets a Redis for the counts.
package main

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"strings"
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
)

var uploadRules = []nethttp.Rule{{
	Name:  "uploads",
	Limit: limits.Concurrent(2),
	Key:   client,
}}

// A log-in is charged at its start, so parallel guesses cannot pass the limit. Its unit returns if
// it succeeds.
var loginRules = []nethttp.Rule{{
	Name:      "failures",
	Limit:     limits.SlidingLog(limits.Per(3, 5*time.Minute)),
	Key:       user,
	FinalCost: core.OnStatus(isFailure),
	OnFailure: core.FailClosed, // no log-in is better than unlimited guesses
}, {
	Name:      "ban",
	Limit:     limits.Ban(limits.Per(10, 10*time.Minute), time.Minute),
	Key:       address,
	FinalCost: core.OnStatus(isFailure),
	OnFailure: core.FailClosed,
}}

var chatRules = []nethttp.Rule{{
	Name:      "tokens",
	Limit:     limits.TokenBucket(limits.PerMinute(1000), 1000),
	Key:       client,
	Cost:      estimate,
	FinalCost: core.SpentCost, // the total that chat passed to Spend
}}

var (
	address = keyfuncs.Address(keyfuncs.Peer) // behind a proxy: keyfuncs.MustTrustedProxies

	// client counts by an issued API key, otherwise by address: an invented key must not get a
	// fresh limit.
	client = keyfuncs.First(
		keyfuncs.Known(keyfuncs.APIKey("X-API-Key"), keyfuncs.DigestSet("ann", "bob")),
		address,
	)
)

// user returns the key of the user who wants to log in. Requests without a name count together.
func user(r *http.Request) (string, error) {
	name := strings.ToLower(strings.TrimSpace(r.PostFormValue("user")))
	if name == "" {
		return "", core.ErrAbsent
	}
	return keyfuncs.Digest(name), nil
}

func isFailure(status int) bool { return status == http.StatusUnauthorized }

// estimate returns the charge of a chat until its tokens are known.
func estimate(*http.Request) int64 { return 100 }

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
	uploads, err := nethttp.New(nethttp.Config{Rules: uploadRules, Backend: backend})
	if err != nil {
		return err
	}
	logins, err := nethttp.New(nethttp.Config{
		Rules:   loginRules,
		Backend: backend,
		Headers: headers.Options{Show: headers.OnDenial}, // do not show others who has failed
	})
	if err != nil {
		return err
	}
	chats, err := nethttp.New(nethttp.Config{Rules: chatRules, Backend: backend})
	if err != nil {
		return err
	}

	limitedUpload := uploads.Handler(http.HandlerFunc(upload))
	limitedLogin := logins.Handler(http.HandlerFunc(login))
	mux := http.NewServeMux()
	mux.Handle("POST /upload", http.MaxBytesHandler(limitedUpload, 10<<20))
	// because user reads the body
	mux.Handle("POST /login", http.MaxBytesHandler(limitedLogin, 4096))
	mux.Handle("POST /chat", chats.Handler(http.HandlerFunc(chat)))
	sameSite := http.NewCrossOriginProtection().Handler(mux) // rejects forms of other sites
	return serve(ctx, sameSite)
}

// openBackend returns memory, or the Redis at $REDIS_URL, and a function that closes it.
func openBackend() (backend backends.Backend, closeBackend func() error, err error) {
	url := os.Getenv("REDIS_URL")
	if url == "" {
		return memory.MustNew(memory.Options{}), func() error { return nil }, nil
	}
	redis, err := redisbackend.Open(url, redisbackend.Options{Prefix: "example"})
	if err != nil {
		return nil, nil, fmt.Errorf("REDIS_URL: %w", err)
	}
	return redis, redis.Close, nil
}

// upload reads the body for at most a minute, and then works for ms milliseconds.
func upload(w http.ResponseWriter, r *http.Request) {
	ms, err := strconv.Atoi(r.URL.Query().Get("ms"))
	if err != nil || ms < 0 || ms > 60_000 {
		http.Error(w, "ms must be a number from 0 to 60000", http.StatusBadRequest)
		return
	}
	work := time.Duration(ms) * time.Millisecond
	read := time.Now().Add(time.Minute)
	deadlines := http.NewResponseController(w) // other requests have the server's deadlines
	deadlines.SetReadDeadline(read)
	deadlines.SetWriteDeadline(read.Add(work + 10*time.Second))
	if _, err := io.Copy(io.Discard, r.Body); err != nil {
		http.Error(w, "the upload is too large or too slow", http.StatusBadRequest)
		return
	}
	select {
	case <-time.After(work):
		fmt.Fprintln(w, "Stored.")
	case <-r.Context().Done(): // the client has left
	}
}

// password is the password of all users. In your program, store a hash by argon2id or bcrypt for
// each user instead.
var password = sha256.Sum256([]byte("right"))

func login(w http.ResponseWriter, r *http.Request) {
	// Compare digests, which have one length: the time to compare passwords depends on their
	// length.
	guess := sha256.Sum256([]byte(r.PostFormValue("password")))
	if subtle.ConstantTimeCompare(guess[:], password[:]) == 0 {
		http.Error(w, "wrong user name or password", http.StatusUnauthorized)
		return
	}
	fmt.Fprintln(w, "Welcome.")
}

// chat uses as many tokens as the client asks for.
func chat(w http.ResponseWriter, r *http.Request) {
	tokens, err := strconv.ParseInt(r.URL.Query().Get("tokens"), 10, 64)
	if err != nil || tokens < 0 {
		http.Error(w, "tokens must be a number", http.StatusBadRequest)
		return
	}
	nethttp.Spend(r.Context(), "tokens", tokens)
	fmt.Fprintf(w, "That took %d tokens.\n", tokens)
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
		Handler:      handler,
		ReadTimeout:  10 * time.Second,
		WriteTimeout: 20 * time.Second, // from the header of a request to the end of the response
		IdleTimeout:  2 * time.Minute,
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
