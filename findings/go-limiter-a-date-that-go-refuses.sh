#!/usr/bin/env bash
# github.com/sethvargo/go-limiter v0.7.1 (2026-11-28), its middleware for net/http.
# Guess: a Retry-After that is a date can be read by net/http's own ParseTime.
# Seen: the date ends in UTC where RFC 9110 (5.6.7) asks for GMT, so http.ParseTime returns an
# error. hashicorp/go-retryablehttp v0.7.8 reads it, because it parses by time.RFC1123, which
# takes any name of a zone. X-RateLimit-Reset, elsewhere a number, is the same date.
set -euo pipefail
limiter=v0.7.1 retryablehttp=v0.7.8
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
cat >go.mod <<'M'
module finding

go 1.24
M
cat >main.go <<'G'
package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"time"

	"github.com/hashicorp/go-retryablehttp"
	"github.com/sethvargo/go-limiter/httplimit"
	"github.com/sethvargo/go-limiter/memorystore"
)

func main() {
	store, err := memorystore.New(&memorystore.Config{Tokens: 1, Interval: time.Hour})
	must(err)
	middleware, err := httplimit.NewMiddleware(store, func(*http.Request) (string, error) { return "k", nil })
	must(err)
	handler := middleware.Handle(http.NotFoundHandler())
	var answer *http.Response
	for range 2 {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
		answer = w.Result()
	}
	told := answer.Header.Get("Retry-After")
	_, refused := http.ParseTime(told)
	wait := retryablehttp.DefaultBackoff(time.Second, 30*time.Second, 0, answer)
	fmt.Println(answer.StatusCode, "Retry-After:", told)
	fmt.Println("http.ParseTime:", refused)
	fmt.Println("go-retryablehttp would wait", wait.Round(time.Minute))
	if answer.StatusCode != 429 || !strings.HasSuffix(told, " UTC") || refused == nil || wait < 58*time.Minute ||
		answer.Header.Get("X-RateLimit-Reset") != told {
		os.Exit(1)
	}
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}
G
go get "github.com/hashicorp/go-retryablehttp@$retryablehttp" "github.com/sethvargo/go-limiter@$limiter" 2>/dev/null
go run .
