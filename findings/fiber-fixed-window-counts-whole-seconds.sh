#!/usr/bin/env bash
# Fiber 3.5.0 (2026-11-29), limiter middleware with its default FixedWindow, 3 requests in 2 seconds.
# Guess: a window begins with the first request and lasts two seconds.
# Seen: windows end at whole seconds, since the clock of the middleware has no parts of them. A client that begins late
# in a second has the next three requests after 1.2 seconds: six in less than 1.4 seconds where three in two are allowed.
set -euo pipefail
version=v3.5.0
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
cat >go.mod <<'M'
module finding
go 1.25.0
M
go get "github.com/gofiber/fiber/v3@$version" >/dev/null 2>&1
cat >main.go <<'G'
package main

import (
	"fmt"
	"net/http/httptest"
	"time"

	"github.com/gofiber/fiber/v3"
	"github.com/gofiber/fiber/v3/middleware/limiter"
)

func main() {
	app := fiber.New()
	app.Use(limiter.New(limiter.Config{Max: 3, Expiration: 2 * time.Second}))
	app.Get("/", func(fiber.Ctx) error { return nil })
	ask := func() int {
		answer, err := app.Test(httptest.NewRequest("GET", "/", nil))
		if err != nil {
			panic(err)
		}
		fmt.Println(time.Now().Format("05.000"), answer.StatusCode)
		return answer.StatusCode
	}
	// The clock ticks once a second from the first use of the middleware on, so look where it ticks.
	for range 3 {
		ask()
	}
	for ask() != 200 {
		time.Sleep(20 * time.Millisecond)
	}
	tick := time.Now()
	// Wait until this window is over, and to 0.8 s after a tick.
	time.Sleep(time.Until(tick.Add(3800 * time.Millisecond)))
	begun, served := time.Now(), 0
	for time.Since(begun) < 1700*time.Millisecond {
		if ask() == 200 {
			served++
		}
		time.Sleep(100 * time.Millisecond)
	}
	fmt.Println("served within 1.7 s:", served)
	if served != 6 {
		panic("a window lasts its two seconds")
	}
}
G
GOFLAGS=-mod=mod GOTOOLCHAIN=local go run .
