#!/usr/bin/env bash
# tollbooth 7.0.2 (2026-11-29, the newest of its module that is served), one request a minute
# with a burst of three.
# Guess: RateLimit-Limit is 3 or 1, and RateLimit-Reset about 60.
# Seen: every answer, allowed or denied, has RateLimit-Limit 0 and RateLimit-Reset 1, since
# the limit is written as requests a second, without decimals, and the reset is a constant.
# X-Rate-Limit-Limit says 0.02. A client that believes the fields comes back each second,
# sixty times too often. There is no Retry-After.
set -euo pipefail
version=v7.0.2
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
cat >go.mod <<'M'
module finding
go 1.25.0
M
go get "github.com/didip/tollbooth/v7@$version" >/dev/null 2>&1
cat >main.go <<'G'
package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/didip/tollbooth/v7"
	"github.com/didip/tollbooth/v7/limiter"
)

func main() {
	l := tollbooth.NewLimiter(1.0/60, &limiter.ExpirableOptions{DefaultExpirationTTL: time.Hour})
	l.SetBurst(3)
	handler := tollbooth.LimitHandler(l, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	for i, status := range []int{200, 200, 200, 429, 429} {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
		h := w.Header()
		limit, reset := h.Get("RateLimit-Limit"), h.Get("RateLimit-Reset")
		fmt.Println(i, w.Code, "limit", limit, "reset", reset, "retry", h.Get("Retry-After"))
		if w.Code != status || limit != "0" || reset != "1" || h.Get("Retry-After") != "" {
			panic("the fields tell the limit")
		}
	}
}
G
GOFLAGS=-mod=mod GOTOOLCHAIN=local go run .
