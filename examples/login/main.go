// Login slows down guesses at passwords: 3 tries in 5 minutes for a user name, and 10 a minute
// for an address, counted exactly.
//
// Anybody who knows a user's name can use up that user's tries. The example systems/login gives
// known devices a limit of their own.
//
// To try it (of each answer, the lines that matter):
//
//	$ go run ./examples/login
//	$ curl -i -d 'user=ann&password=correct horse' localhost:8080/login
//	HTTP/1.1 200 OK
//	Welcome, ann.
//	$ curl -s -d 'user=ann&password=guess' 'localhost:8080/login?[1-2]'
//	wrong user name or password
//	wrong user name or password
//	$ curl -i -d 'user=ann&password=correct horse' localhost:8080/login
//	HTTP/1.1 429 Too Many Requests
//	Ratelimit: "user";r=0;t=300
//	Retry-After: 300
//	$ curl -i -d 'user=bob&password=guess' localhost:8080/login
//	HTTP/1.1 401 Unauthorized
package main

import (
	"cmp"
	"crypto/subtle"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/headers"
	"github.com/weir-go/weir/keyfuncs"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/nethttp"
)

var limiter = nethttp.MustNew(nethttp.Config{
	Rules: []nethttp.Rule{{
		Name:      "user",
		Limit:     limits.SlidingLog(limits.Per(3, 5*time.Minute)),
		Key:       user,
		OnFailure: core.FailClosed, // no login is better than unlimited guesses
	}, {
		Name:      "address",
		Limit:     limits.SlidingLog(limits.PerMinute(10)),
		Key:       keyfuncs.Address(keyfuncs.Peer), // behind a proxy: keyfuncs.MustTrustedProxies
		OnFailure: core.FailClosed,
	}},
	Headers: headers.Options{Show: headers.OnDenial}, // do not publish how many tries are left
})

// user returns the key of the user who wants to log in. It parses the form, which stays in the
// request, so the handler can read it too. Requests without a user name or with an invalid form
// count together.
func user(r *http.Request) (string, error) {
	name := strings.ToLower(strings.TrimSpace(r.PostFormValue("user")))
	if name == "" {
		return "", core.ErrAbsent
	}
	return keyfuncs.Digest(name), nil
}

func main() {
	limited := limiter.Handler(http.HandlerFunc(login))
	mux := http.NewServeMux()
	mux.Handle("POST /login", http.MaxBytesHandler(limited, 4096)) // since user reads the body
	log.Fatal(serve(mux))
}

// login knows one password for everybody. Compare with a hash by argon2id or bcrypt instead.
func login(w http.ResponseWriter, r *http.Request) {
	password := []byte(r.PostFormValue("password"))
	if subtle.ConstantTimeCompare(password, []byte("correct horse")) == 0 {
		http.Error(w, "wrong user name or password", http.StatusUnauthorized)
		return
	}
	fmt.Fprintf(w, "Welcome, %s.\n", r.PostFormValue("user"))
}

// serve answers on $ADDR, or on port 8080 if it is not set.
func serve(handler http.Handler) error {
	listener, err := net.Listen("tcp", cmp.Or(os.Getenv("ADDR"), ":8080"))
	if err != nil {
		return err
	}
	log.Printf("listening on %v", listener.Addr())
	server := &http.Server{
		Handler:     handler,
		ReadTimeout: 10 * time.Second,
		IdleTimeout: 2 * time.Minute,
	}
	return server.Serve(listener)
}
