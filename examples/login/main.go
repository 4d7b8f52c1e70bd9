// Login slows down guesses at passwords: 3 tries in 5 minutes for a user name, and 10
// a minute for an address, counted exactly. (Anybody who knows a user's name can use
// up that user's tries, so give known devices a limit of their own.)
package main

import (
	"cmp"
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

// user returns the key of the user who wants to log in. It parses the form, which
// stays in the request, so the handler can read it too. Requests without a user name
// or with an invalid form count together.
func user(r *http.Request) (string, error) {
	name := strings.ToLower(strings.TrimSpace(r.PostFormValue("user")))
	if name == "" {
		return "", core.ErrAbsent
	}
	return keyfuncs.Digest(name), nil
}

var limit = nethttp.MustNew(nethttp.Config{
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

func main() {
	login := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.PostFormValue("password") != "correct horse" {
			http.Error(w, "wrong user name or password", http.StatusUnauthorized)
			return
		}
		fmt.Fprintf(w, "Welcome, %s.\n", r.PostFormValue("user"))
	})
	mux := http.NewServeMux()
	mux.Handle("POST /login", http.MaxBytesHandler(limit.Handler(login), 4096)) // bound the body, since user reads it
	serve(mux)
}

// serve answers on $ADDR, on port 8080 if it is not set.
func serve(handler http.Handler) {
	listener, err := net.Listen("tcp", cmp.Or(os.Getenv("ADDR"), ":8080"))
	if err != nil {
		log.Fatal(err)
	}
	log.Printf("listening on %v", listener.Addr())
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 5 * time.Second}
	log.Fatal(server.Serve(listener))
}
