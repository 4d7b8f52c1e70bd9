// Login guards a log-in against guessing, as OWASP advises: failures count by user and by address,
// and successes do not; bans grow; a success forgives the user's earlier failures; known devices
// have counts of their own; no answer tells whether a user exists. docs/systems.md explains why.
//
// To try it (only the lines that matter of each answer):
//
//	$ go run ./examples/systems/login
//	$ curl -i -c /tmp/jar -d 'user=ann&password=right' localhost:8080/login
//	HTTP/1.1 200 OK
//	Set-Cookie: device=...; Max-Age=15552000; HttpOnly; SameSite=Strict
//	Welcome, ann.
//	$ curl -s -o /dev/null -w '%{http_code}\n' -d 'user=ann&password=wrong' \
//	    'localhost:8080/login?[1-4]' | uniq -c
//	      4 401
//	$ curl -s -o /dev/null -w '%{http_code}\n' -d 'user=ann&password=right' localhost:8080/login
//	200
//	$ curl -s -o /dev/null -w '%{http_code}\n' -d 'user=ann&password=wrong' \
//	    'localhost:8080/login?[1-6]' | uniq -c
//	      5 401
//	      1 429
//	$ curl -i -d 'user=ann&password=right' localhost:8080/login
//	HTTP/1.1 429 Too Many Requests
//	Retry-After: 60
//	$ curl -i -b /tmp/jar -d 'user=ann&password=right' localhost:8080/login
//	HTTP/1.1 200 OK
//	Welcome, ann.
//
// During the ban even the right password is refused, and the owner of the name is not locked out.
// $REDIS_URL sets a Redis for the counts. $TRUSTED_PROXIES has the addresses of proxies in front,
// such as "127.0.0.1 ::1". They must append to X-Forwarded-For, pass on the Host and use TLS.
package main

import (
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
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

type keyFunc = func(*http.Request) (string, error)

// rulesFor returns the rules. address returns the address of the client.
func rulesFor(address keyFunc) []nethttp.Rule {
	return []nethttp.Rule{
		ban("user", account, limits.Ban(limits.Per(5, 15*time.Minute), time.Minute)),
		ban("address", address, limits.Ban(limits.Per(25, 15*time.Minute), 15*time.Minute)),
	}
}

// ban returns a rule that counts failures. A client that fails again soon after a ban is banned for
// twice as long, up to a day.
func ban(name string, key keyFunc, limit limits.Limit) nethttp.Rule {
	return nethttp.Rule{
		Name:      name,
		Key:       key,
		Limit:     limit.Growing(24 * time.Hour),
		FinalCost: core.OnStatus(isFailure),
		OnFailure: core.FailClosed, // no log-in is better than unlimited guesses
	}
}

func isFailure(status int) bool { return status == http.StatusUnauthorized }

// account counts by the user's device if it has logged in before, otherwise by the user.
func account(r *http.Request) (string, error) {
	user := userName(r)
	cookie, err := r.Cookie("device")
	if err == nil && isDevice(cookie.Value, user) {
		return "device:" + keyfuncs.Digest(cookie.Value), nil
	}
	return "user:" + keyfuncs.Digest(user), nil
}

func userName(r *http.Request) string {
	return strings.ToLower(strings.TrimSpace(r.PostFormValue("user")))
}

// secret signs the cookies of devices. Set DEVICE_SECRET to the same value on all instances.
var secret = cmp.Or(os.Getenv("DEVICE_SECRET"), rand.Text())

// newDevice returns a cookie for a device of a user who has logged in.
func newDevice(user string) string {
	return sign(user, rand.Text())
}

// isDevice reports whether newDevice returned the cookie for this user.
func isDevice(cookie, user string) bool {
	nonce, _, _ := strings.Cut(cookie, ".")
	return hmac.Equal([]byte(cookie), []byte(sign(user, nonce)))
}

func sign(user, nonce string) string {
	mac := hmac.New(sha256.New, []byte(secret))
	fmt.Fprintf(mac, "%q %q", user, nonce)
	return nonce + "." + hex.EncodeToString(mac.Sum(nil))
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
	proxies := strings.Fields(os.Getenv("TRUSTED_PROXIES"))
	source, err := keyfuncs.TrustedProxies(proxies...) // without proxies, the peer is the client
	if err != nil {
		return fmt.Errorf("TRUSTED_PROXIES: %w", err)
	}
	limiter, err := nethttp.New(nethttp.Config{
		Rules:   rulesFor(keyfuncs.Address(source)),
		Backend: backend,
		Headers: headers.Options{Show: headers.Omit}, // show neither remaining tries nor rules

		OutcomeInContext: true, // for forgive
	})
	if err != nil {
		return err
	}

	limited := limiter.Handler(&logIn{limiter, len(proxies) > 0})
	bounded := http.MaxBytesHandler(limited, 4096) // because account reads the body
	sameSite := http.NewCrossOriginProtection().Handler(bounded)

	mux := http.NewServeMux()
	mux.Handle("POST /login", sameSite) // other sites cannot have their visitors banned
	return serve(ctx, mux)
}

// openBackend returns memory, or the Redis at $REDIS_URL, and a function that closes it.
func openBackend() (backend backends.Backend, closeBackend func() error, err error) {
	url := os.Getenv("REDIS_URL")
	if url == "" {
		return memory.MustNew(memory.Options{}), func() error { return nil }, nil
	}
	redis, err := redisbackend.Open(url, redisbackend.Options{Prefix: "login"})
	if err != nil {
		return nil, nil, fmt.Errorf("REDIS_URL: %w", err)
	}
	return redis, redis.Close, nil
}

// passwords are digests of the users' passwords. In your program, store hashes by argon2id or
// bcrypt instead.
var passwords = map[string][sha256.Size]byte{
	"ann": sha256.Sum256([]byte("right")),
	"bob": sha256.Sum256([]byte("right")),
}

// unknownPassword is compared with the password of an unknown user, so that the answer takes
// equally long: all digests have one length.
var unknownPassword = sha256.Sum256([]byte(rand.Text()))

type logIn struct {
	limiter *nethttp.Limiter
	behind  bool // behind proxies, which use TLS
}

func (l *logIn) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	user := userName(r)
	password, exists := passwords[user]
	if !exists {
		password = unknownPassword
	}
	guess := sha256.Sum256([]byte(r.PostFormValue("password")))
	if subtle.ConstantTimeCompare(guess[:], password[:]) == 0 {
		// Use the same text for a wrong name and a wrong password.
		http.Error(w, "wrong user name or password", http.StatusUnauthorized)
		return
	}
	l.forgive(r)
	http.SetCookie(w, &http.Cookie{
		Name:     "device",
		Value:    newDevice(user),
		MaxAge:   180 * 24 * 60 * 60,
		HttpOnly: true,
		Secure:   r.TLS != nil || l.behind,
		SameSite: http.SameSiteStrictMode,
	})
	fmt.Fprintf(w, "Welcome, %s.\n", user)
}

// forgive resets the failures of an account after a success. The failures of the address stay: an
// attacker may have an account, too.
func (l *logIn) forgive(r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), time.Second)
	defer cancel()
	outcome, _ := nethttp.OutcomeFrom(ctx)
	for i := range outcome.Len() {
		d := outcome.At(i)
		if d.Rule() != "user" {
			continue
		}
		if err := l.limiter.ResetKey(ctx, d.Rule(), d.Key); err != nil {
			log.Printf("failures still count: %v", err)
			return
		}
	}
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
		ReadTimeout:  10 * time.Second, // otherwise a slow body holds the units of its request
		WriteTimeout: 20 * time.Second, // or an answer that the client does not read
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
