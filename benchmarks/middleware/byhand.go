package middleware

import (
	"fmt"
	"net"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir/benchmarks/store"
	"golang.org/x/time/rate"
)

// wrapByHand is the middleware that many people write themselves: a map of limiters behind a mutex,
// a status and a line of text.
func wrapByHand(q store.Quota, next http.Handler) http.Handler {
	var mu sync.Mutex
	limiters := make(map[string]*rate.Limiter)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host, _, err := net.SplitHostPort(r.RemoteAddr)
		if err != nil {
			http.Error(w, http.StatusText(http.StatusInternalServerError),
				http.StatusInternalServerError)
			return
		}
		mu.Lock()
		l, ok := limiters[host]
		if !ok {
			l = rate.NewLimiter(rate.Every(q.Refill), int(q.Burst))
			limiters[host] = l
		}
		mu.Unlock()
		if !l.Allow() {
			http.Error(w, http.StatusText(http.StatusTooManyRequests), http.StatusTooManyRequests)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// writeByHand sends the fields and the body of weir with as little as Go needs for them: fresh lines,
// since no two answers share one, digits that change, and a body that is ready. It has no key, no
// clock and no store. It counts all requests together, for as long as it runs: it is no limiter, but
// the floor of one that sends this.
func writeByHand(q store.Quota, next http.Handler) http.Handler {
	policy := fmt.Sprintf(`"per-client";q=%d;w=%d`, q.Burst, q.Window/time.Second)
	seconds := strconv.Itoa(int(q.Window / time.Second))
	body := []byte(`{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded",` +
		`"title":"Quota Exceeded","status":429,"detail":"Too many requests: retry in 3600 seconds.",` +
		`"message":"Too many requests: retry in 3600 seconds.","error":{"type":"rate_limit_error",` +
		`"code":"rate_limit_exceeded","message":"Too many requests: retry in 3600 seconds."},` +
		`"retry_after":3600,"violated-policies":["per-client"]}` + "\n")
	var served atomic.Int64
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		left := q.Burst - served.Add(1)
		var room [64]byte
		text := append(room[:0], `"per-client";r=`...)
		text = strconv.AppendInt(text, max(left, 0), 10)
		text = append(append(text, ";t="...), seconds...)
		h := w.Header()
		if left >= 0 {
			lines := []string{string(text), policy}
			h["Ratelimit"], h["Ratelimit-Policy"] = lines[:1:1], lines[1:]
			next.ServeHTTP(w, r)
			return
		}
		lines := []string{string(text), policy, seconds, "application/problem+json", "no-store"}
		h["Ratelimit"], h["Ratelimit-Policy"], h["Retry-After"] = lines[:1:1], lines[1:2:2], lines[2:3:3]
		h["Content-Type"], h["Cache-Control"] = lines[3:4:4], lines[4:]
		w.WriteHeader(http.StatusTooManyRequests)
		w.Write(body)
	})
}
