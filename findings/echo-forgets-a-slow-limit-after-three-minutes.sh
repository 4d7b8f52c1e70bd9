#!/usr/bin/env bash
# echo 5.4.5 (2026-11-29), RateLimiterMemoryStore with 3 requests an hour and a burst of 3.
# Guess: a client that asks every five minutes is served about 6 times in its first hour: the
# burst, and what comes back meanwhile.
# Seen: 18 times, if another client asks once a minute. ExpiresIn is three minutes unless it
# is set, and does not follow the rate: a client that was quiet for so long is forgotten with
# all that it used. What the default keeps is a rate of a burst in three minutes or faster.
set -euo pipefail
version=v5.4.5
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
cat >go.mod <<'M'
module finding
go 1.25.0
M
go get "github.com/labstack/echo/v5@$version" >/dev/null 2>&1
cat >hour_test.go <<'G'
package finding

import (
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/labstack/echo/v5"
	"github.com/labstack/echo/v5/middleware"
)

func TestHour(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := echo.New()
		e.Use(middleware.RateLimiter(middleware.NewRateLimiterMemoryStoreWithConfig(
			middleware.RateLimiterMemoryStoreConfig{Rate: 3.0 / 3600, Burst: 3})))
		e.GET("/", func(c *echo.Context) error { return c.NoContent(204) })
		get := func(from string) bool {
			r := httptest.NewRequest("GET", "/", nil)
			r.RemoteAddr = from + ":1024"
			w := httptest.NewRecorder()
			e.ServeHTTP(w, r)
			return w.Code == 204
		}
		served := 0
		for minute := range 60 {
			get("192.0.2.9")
			for minute%5 == 0 && get("192.0.2.1") {
				served++
			}
			time.Sleep(time.Minute)
		}
		t.Log("3 an hour; served in one hour:", served)
		if served != 18 {
			t.Fail()
		}
	})
}
G
GOFLAGS=-mod=mod GOTOOLCHAIN=local go test -v -run TestHour . | grep served
