// Login guards a log-in against guessing, as OWASP advises: failures count and successes do
// not, bans grow, known devices have counts of their own, and no answer says whether a user
// exists. docs/systems.md says why.
//
//	curl -i -c jar -d 'user=ann&password=right' localhost:8080/login   # 200, with a cookie for this device
//	for i in $(seq 6); do curl -i -d 'user=ann&password=wrong' localhost:8080/login; done   # 401, the sixth time 429
//	curl -i -d 'user=ann&password=right' localhost:8080/login          # 429 for a minute, though the password is right
//	curl -i -b jar -d 'user=ann&password=right' localhost:8080/login   # 200: the owner is not locked out
package main

import (
	"cmp"
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
	"strings"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/headers"
	"github.com/weir-go/weir/keyfuncs"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/nethttp"
	"github.com/weir-go/weir/redisbackend"
	"github.com/weir-go/weir/remote"
)

// bans are steps: whoever goes on failing after one ban reaches the next, longer one.
var bans = []struct {
	name  string
	key   func(*http.Request) (string, error)
	limit limits.Limit
}{
	{"user-minute", account, limits.Ban(limits.Per(5, 15*time.Minute), time.Minute)},
	{"user-quarter", account, limits.Ban(limits.Per(10, time.Hour), 15*time.Minute)},
	{"user-day", account, limits.Ban(limits.Per(20, 24*time.Hour), 24*time.Hour)},
	{"address-quarter", address, limits.Ban(limits.Per(25, 15*time.Minute), 15*time.Minute)},
	{"address-day", address, limits.Ban(limits.Per(100, 24*time.Hour), 24*time.Hour)},
}

var address = keyfuncs.Address(keyfuncs.Peer) // behind a proxy: keyfuncs.MustTrustedProxies

func userName(r *http.Request) string {
	return strings.ToLower(strings.TrimSpace(r.PostFormValue("user")))
}

// account is who counts: the user, or one device of the user that has logged in before.
func account(r *http.Request) (string, error) {
	if cookie, err := r.Cookie("device"); err == nil {
		nonce, _, _ := strings.Cut(cookie.Value, ".")
		if hmac.Equal([]byte(cookie.Value), []byte(device(userName(r), nonce))) {
			return "device:" + keyfuncs.Digest(cookie.Value), nil
		}
	}
	return "user:" + keyfuncs.Digest(userName(r)), nil
}

// secret signs the cookies of devices. Give all instances the same, by DEVICE_SECRET.
var secret = cmp.Or(os.Getenv("DEVICE_SECRET"), rand.Text())

func device(user, nonce string) string {
	mac := hmac.New(sha256.New, []byte(secret))
	fmt.Fprintf(mac, "%q %q", user, nonce)
	return nonce + "." + hex.EncodeToString(mac.Sum(nil))
}

// passwords of users; "" is what others are compared with, so that they take as long. Keep
// hashes by argon2id or bcrypt instead.
var passwords = map[string]string{"ann": "right", "bob": "right", "": rand.Text()}

func login(w http.ResponseWriter, r *http.Request) {
	user := userName(r)
	if _, ok := passwords[user]; !ok {
		user = ""
	}
	if subtle.ConstantTimeCompare([]byte(r.PostFormValue("password")), []byte(passwords[user])) == 0 {
		http.Error(w, "wrong user name or password", http.StatusUnauthorized) // whichever it was
		return
	}
	http.SetCookie(w, &http.Cookie{
		Name: "device", Value: device(user, rand.Text()), MaxAge: 180 * 86400, HttpOnly: true, Secure: r.TLS != nil,
	})
	fmt.Fprintf(w, "Welcome, %s.\n", user)
}

func main() {
	config := nethttp.Config{Headers: headers.Options{Show: headers.Omit}} // neither what is left, nor which rule
	for _, ban := range bans {
		config.Rules = append(config.Rules, nethttp.Rule{
			Name: ban.name, Limit: ban.limit, Key: ban.key,
			FinalCost: core.OnStatus(func(status int) bool { return status == http.StatusUnauthorized }),
			OnFailure: core.FailClosed, // no log-in is better than unlimited guesses
		})
	}
	if url := os.Getenv("REDIS_URL"); url != "" {
		backend, err := redisbackend.Open(url, redisbackend.Options{Prefix: "login"})
		if err != nil {
			log.Fatalf("REDIS_URL: %v", err)
		}
		config.Backend = remote.NewStack(backend, remote.Options{})
	}
	limit := nethttp.MustNew(config)
	mux := http.NewServeMux()
	form := http.MaxBytesHandler(limit.Handler(http.HandlerFunc(login)), 4096)
	mux.Handle("POST /login", http.NewCrossOriginProtection().Handler(form)) // no other site has its visitors banned

	listener, err := net.Listen("tcp", cmp.Or(os.Getenv("ADDR"), ":8080"))
	if err != nil {
		log.Fatal(err)
	}
	log.Printf("listening on %v", listener.Addr())
	server := &http.Server{Handler: mux, ReadTimeout: 10 * time.Second}
	log.Fatal(server.Serve(listener))
}
