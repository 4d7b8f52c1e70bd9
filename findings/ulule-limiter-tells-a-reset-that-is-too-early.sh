#!/usr/bin/env bash
# ulule/limiter 3.11.2 (Go, 2026-11-29), memory store and middleware of net/http, 1 request in 3 seconds.
# Guess: who comes back at the second that X-RateLimit-Reset names is served: it is rounded up, or windows begin at
# whole seconds.
# Seen: the reset is rounded down. A client that comes at the second which it names is denied, unless its first request
# came within the first moments of a second.
set -euo pipefail
version=v3.11.2
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
cat >go.mod <<'M'
module finding
go 1.25.0
M
go get "github.com/ulule/limiter/v3@$version" >/dev/null 2>&1
cat >main.go <<'G'
package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"time"

	"github.com/ulule/limiter/v3"
	"github.com/ulule/limiter/v3/drivers/middleware/stdlib"
	"github.com/ulule/limiter/v3/drivers/store/memory"
)

func main() {
	rate := limiter.Rate{Period: 3 * time.Second, Limit: 1}
	handler := stdlib.NewMiddleware(limiter.New(memory.NewStore(), rate)).Handler(
		http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	ask := func() (status int, reset int64) {
		answer := httptest.NewRecorder()
		handler.ServeHTTP(answer, httptest.NewRequest("GET", "/", nil))
		reset, _ = strconv.ParseInt(answer.Header().Get("X-Ratelimit-Reset"), 10, 64)
		fmt.Println(time.Now().Format("05.000"), answer.Code, "X-RateLimit-Reset", reset%60)
		return answer.Code, reset
	}
	// In the middle of a second.
	time.Sleep(time.Until(time.Now().Truncate(time.Second).Add(1500 * time.Millisecond)))
	_, reset := ask()
	time.Sleep(time.Until(time.Unix(reset, 50e6)))
	if status, _ := ask(); status != 429 {
		panic("who comes at the reset is served")
	}
	time.Sleep(700 * time.Millisecond)
	if status, _ := ask(); status != 200 {
		panic("who comes a second later is denied")
	}
}
G
GOFLAGS=-mod=mod GOTOOLCHAIN=local go run .
