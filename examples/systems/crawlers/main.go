// Crawlers serves a site to people, to agents that sign their requests (Web Bot Auth), and to
// strangers. Each agent has a plan, each person who is signed in a limit, and each network of
// strangers a small one. docs/agents.md explains why.
//
// To try it (only the lines that matter of each answer):
//
//	$ go -C examples/systems/crawlers run .
//	$ curl -i localhost:8080/wiki/Weir
//	HTTP/1.1 200 OK
//	Ratelimit: "strangers";r=9;t=27
//	$ curl -s -o /dev/null -w '%{http_code}\n' 'localhost:8080/wiki/[1-10]' | uniq -c
//	      9 200
//	      1 429
//	$ curl -i localhost:8080/wiki/Weir
//	HTTP/1.1 429 Too Many Requests
//	Accept-Signature: ...
//	Retry-After: 3
//	{...Automated clients that sign their requests (Web Bot Auth) have limits of their own...}
//	$ curl -i -c /tmp/jar -d card=c-ann localhost:8080/login
//	HTTP/1.1 200 OK
//	Set-Cookie: session=ann...; Max-Age=2592000; HttpOnly; SameSite=Lax
//	Welcome, ann.
//	$ curl -i -b /tmp/jar localhost:8080/wiki/Weir
//	HTTP/1.1 200 OK
//	Ratelimit: "people";r=59;t=30
//
// $SITE is the URL of the site, https://wiki.example for example: a signature for another one does
// not count. $AGENTS has the directories of agents, such as "https://bot.example", whose keys are
// fetched. "https://bot.example=KEY" has the key, the x of a JWK. $STRANGERS is another limit for
// strangers. $REDIS_URL sets a Redis for the counts.
package main

import (
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/keyfuncs"
	"github.com/weir-go/weir/keyfuncs/agents"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
	"github.com/weir-go/weir/memory"
	"github.com/weir-go/weir/nethttp"
	"github.com/weir-go/weir/redisbackend"
)

type keyFunc = func(*http.Request) (string, error)

// known returns the rules of those whom the site knows. An agent counts as one, and so does a
// person who is signed in. Everyone else is a stranger.
func known(v *agents.Verifier) []nethttp.Rule {
	return []nethttp.Rule{{
		Name:     "agents",
		Key:      core.When(v.Signed, v.Key),
		LimitFor: planOf,
	}, {
		Name:  "people",
		Key:   ifPresent(user),
		Limit: limits.TokenBucket(limits.PerSecond(2), 60), // ten pages with their pictures
	}, {
		Name:  "log-ins", // of their own: a stranger whose network is used up can still sign in
		Key:   core.When(isLogIn, keyfuncs.Address(keyfuncs.Peer)),
		Limit: limits.TokenBucket(limits.PerMinute(5), 5),
	}, {
		Name:   "all-log-ins",
		Key:    core.When(isLogIn, keyfuncs.Constant[*http.Request]("all")),
		Limit:  limits.TokenBucket(limits.PerSecond(10), 10),
		Hidden: true,
	}}
}

func isLogIn(r *http.Request) bool {
	return r.Method == http.MethodPost && r.URL.Path == "/login"
}

// plans are those of agents that the site has an agreement with, by the host of their directory.
var plans = map[string]limits.Limit{
	"search.example":  limits.TokenBucket(limits.PerSecond(5), 20),
	"archive.example": limits.TokenBucket(limits.PerSecond(1), 10),
}

// otherAgents is the plan of each other agent that the site knows.
var otherAgents = limits.TokenBucket(limits.PerMinute(60), 10)

func planOf(_ *http.Request, agent string) (limits.Limit, error) {
	if plan, ok := plans[agent]; ok {
		return plan, nil
	}
	return otherAgents, nil
}

// ifPresent leaves requests without the key to other rules.
func ifPresent(key keyFunc) keyFunc {
	return func(r *http.Request) (string, error) {
		text, err := key(r)
		if errors.Is(err, core.ErrAbsent) {
			return "", core.ErrDoesNotApply
		}
		return text, err
	}
}

// network counts strangers by their network, since addresses are rented by the network: the first
// 24 bits of IPv4, or 48 of IPv6. Behind a proxy, use keyfuncs.MustTrustedProxies in place of Peer.
var network = keyfuncs.MustAddressPrefix(func(r *http.Request) (netip.Addr, error) {
	address, err := keyfuncs.Peer(r)
	if err != nil || !address.Is4() {
		return address, err
	}
	prefix, err := address.Prefix(24)
	return prefix.Addr(), err
}, 48)

// secret signs sessions. Set SESSION_SECRET to the same value on all instances.
var secret = cmp.Or(os.Getenv("SESSION_SECRET"), rand.Text())

const lasts = 30 * 24 * time.Hour // a session

// newSession returns the cookie of a user who signs in now.
func newSession(user string, now time.Time) string {
	text := user + "." + strconv.FormatInt(now.Add(lasts).Unix(), 10)
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(text))
	return text + "." + hex.EncodeToString(mac.Sum(nil))
}

// user is the key of a person who is signed in.
func user(r *http.Request) (string, error) {
	cookie, err := r.Cookie("session")
	if err != nil {
		return "", core.ErrAbsent
	}
	name, rest, _ := strings.Cut(cookie.Value, ".")
	seconds, _, _ := strings.Cut(rest, ".")
	ends, err := strconv.ParseInt(seconds, 10, 64)
	end := time.Unix(ends, 0)
	if err != nil || !time.Now().Before(end) || // an old one
		!hmac.Equal([]byte(cookie.Value), []byte(newSession(name, end.Add(-lasts)))) {
		return "", core.ErrAbsent
	}
	return name, nil
}

// newHandler returns the site with its limits: first those of each client, and behind them that of
// all strangers together. One limiter for both would not count a request that it denies. Then
// crawlers that come at once would keep their bursts for as long as they and everyone else wait for
// that of all.
func newHandler(
	v *agents.Verifier, strangers limits.Limit, backend backends.Backend, site http.Handler,
) (http.Handler, error) {
	known, challenge := known(v), v.Challenge(nil) // which asks strangers to sign
	each, err := nethttp.New(nethttp.Config{
		Rules: append(known, nethttp.Rule{
			Name:      "replay",
			Key:       v.Nonce,
			Limit:     v.Once(),
			OnFailure: core.FailClosed, // a Redis that is full must not let copies pass
			Hidden:    true,
		}, nethttp.Rule{
			Name:  "strangers",
			Key:   core.Otherwise(known, network),
			Limit: strangers,
		}),
		Backend: backend,
		Denied:  challenge,
	})
	if err != nil {
		return nil, err
	}
	together, err := nethttp.New(nethttp.Config{
		Rules: []nethttp.Rule{{
			Name:   "all-strangers", // what the site can answer, less what the others need
			Key:    core.Otherwise(known, keyfuncs.Constant[*http.Request]("all")),
			Limit:  limits.TokenBucket(limits.PerSecond(60), 60),
			Hidden: true,
		}},
		Backend: backend,
		Denied:  challenge,
	})
	if err != nil {
		return nil, err
	}
	// Pages of other sites cannot spend what the browsers of their visitors have.
	return http.NewCrossOriginProtection().Handler(each.Handler(together.Handler(site))), nil
}

// newVerifier returns a verifier for the site at a URL. Each of directories is a URL, and perhaps a
// key.
func newVerifier(site string, directories []string) (*agents.Verifier, error) {
	at, err := url.Parse(site)
	if err != nil {
		return nil, err
	}
	config := agents.Config{
		Authorities: []string{at.Host},
		Scheme:      at.Scheme,
		MaxLifetime: time.Hour, // for which nonces are remembered
	}
	for _, text := range directories {
		address, x, isGiven := strings.Cut(text, "=")
		directory := agents.Directory{URL: address}
		if isGiven {
			key, err := base64.RawURLEncoding.DecodeString(x)
			if err != nil {
				return nil, fmt.Errorf("the key of %s: %w", address, err)
			}
			directory.Keys = agents.KeySet(key)
		}
		config.Directories = append(config.Directories, directory)
	}
	return agents.New(config)
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
	site := cmp.Or(os.Getenv("SITE"), "http://localhost:8080")
	directories := cmp.Or(os.Getenv("AGENTS"), "https://search.example https://archive.example")
	verifier, err := newVerifier(site, strings.Fields(directories))
	if err != nil {
		return fmt.Errorf("SITE or AGENTS: %w", err)
	}
	limit := cmp.Or(os.Getenv("STRANGERS"), "token-bucket 20/minute burst 10")
	strangers, err := limits.Parse(limit)
	if err != nil {
		return fmt.Errorf("STRANGERS: %w", err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /", func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintln(w, "The page", r.URL.Path)
	})
	mux.Handle("POST /login", http.MaxBytesHandler(http.HandlerFunc(logIn), 4096))
	handler, err := newHandler(verifier, strangers, backend, mux)
	if err != nil {
		return err
	}
	return serve(ctx, handler)
}

// openBackend returns memory, or the Redis at $REDIS_URL, and a function that closes it.
func openBackend() (backend backends.Backend, closeBackend func() error, err error) {
	at := os.Getenv("REDIS_URL")
	if at == "" {
		return memory.MustNew(memory.Options{}), func() error { return nil }, nil
	}
	redis, err := redisbackend.Open(at, redisbackend.Options{Prefix: "crawlers"})
	if err != nil {
		return nil, nil, fmt.Errorf("REDIS_URL: %w", err)
	}
	return redis, redis.Close, nil
}

// members are by the digests of their cards. Guard a log-in by password as examples/systems/login
// does.
var members = map[string]string{keyfuncs.Digest("c-ann"): "ann", keyfuncs.Digest("c-bob"): "bob"}

func logIn(w http.ResponseWriter, r *http.Request) {
	user, ok := members[keyfuncs.Digest(r.PostFormValue("card"))]
	if !ok {
		http.Error(w, "no such card", http.StatusUnauthorized)
		return
	}
	http.SetCookie(w, &http.Cookie{
		Name:     "session",
		Value:    newSession(user, time.Now()),
		MaxAge:   int(lasts.Seconds()),
		HttpOnly: true,
		Secure:   r.TLS != nil,
		SameSite: http.SameSiteLaxMode,
	})
	fmt.Fprintf(w, "Welcome, %s.\n", user)
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
		ReadTimeout:  10 * time.Second, // otherwise a slow body holds its connection
		WriteTimeout: 20 * time.Second,
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
