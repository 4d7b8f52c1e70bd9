#!/usr/bin/env bash
# go-chi/httprate 0.16.1 (2026-11-29), 4 requests in 4 seconds.
# Guess: who comes back when Retry-After says is served, and X-RateLimit-Reset is that instant or later.
# Seen: X-RateLimit-Reset is the end of the window, which begins with the limiter, rounded down to a second. A client
# that took all four late in the window and comes back then is denied, since the window before still weighs.
# Retry-After is the whole window, whatever is left of it.
set -euo pipefail
version=v0.16.1
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
cat >go.mod <<'M'
module finding
go 1.25.0
M
go get "github.com/go-chi/httprate@$version" >/dev/null 2>&1
cat >main.go <<'G'
package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"time"

	"github.com/go-chi/httprate"
)

func main() {
	// Windows begin with the limiter: make it at the beginning of a second.
	time.Sleep(time.Until(time.Now().Truncate(time.Second).Add(time.Second)))
	begun := time.Now()
	handler := httprate.Limit(4, 4*time.Second)(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	ask := func() (status int, reset int64, wait string) {
		answer := httptest.NewRecorder()
		handler.ServeHTTP(answer, httptest.NewRequest("GET", "/", nil))
		reset, _ = strconv.ParseInt(answer.Header().Get("X-Ratelimit-Reset"), 10, 64)
		wait = answer.Header().Get("Retry-After")
		fmt.Println(time.Now().Format("05.000"), answer.Code, "X-RateLimit-Reset", reset%60, "Retry-After", wait)
		return answer.Code, reset, wait
	}
	time.Sleep(time.Until(begun.Add(3 * time.Second))) // in the last second of a window
	for range 4 {
		if status, _, _ := ask(); status != 200 {
			panic("four are not served")
		}
	}
	status, reset, wait := ask()
	if status != 429 || wait != "4" || time.Until(time.Unix(reset, 0)) > time.Second+100*time.Millisecond {
		panic("the wait is no longer the whole window, or the reset its end")
	}
	time.Sleep(time.Until(time.Unix(reset, 150e6)))
	if status, _, _ = ask(); status != 429 {
		panic("who comes at the reset is served")
	}
}
G
GOFLAGS=-mod=mod GOTOOLCHAIN=local go run .
