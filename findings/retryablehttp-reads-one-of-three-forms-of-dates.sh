#!/usr/bin/env bash
# hashicorp/go-retryablehttp 0.7.8 (2026-11-29), Retry-After with a date in each of the three forms that recipients of
# HTTP must read (RFC 9110, section 5.6.7).
# Guess: Go's own http.ParseTime reads all three, so all are waited for.
# Seen: it parses the first form alone. After a date in the form of RFC 850 or of asctime it asks again after its own
# least wait of a second.
set -euo pipefail
version=v0.7.8
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
cat >go.mod <<'M'
module finding
go 1.25.0
M
go get "github.com/hashicorp/go-retryablehttp@$version" >/dev/null 2>&1
cat >main.go <<'G'
package main

import (
	"fmt"
	"net/http"
	"time"

	"github.com/hashicorp/go-retryablehttp"
)

func main() {
	at := time.Now().UTC().Add(time.Hour)
	for _, form := range []struct {
		layout string
		read   bool
	}{{http.TimeFormat, true}, {"Monday, 02-Jan-06 15:04:05 GMT", false}, {time.ANSIC, false}} {
		text := at.Format(form.layout)
		if read, err := http.ParseTime(text); err != nil || at.Sub(read) > time.Second {
			panic("Go does not read " + text)
		}
		answer := &http.Response{StatusCode: 429, Header: http.Header{"Retry-After": {text}}}
		wait := retryablehttp.DefaultBackoff(time.Second, 24*time.Hour, 0, answer)
		fmt.Println("Retry-After:", text, "wait", wait.Round(time.Second))
		if (wait > 59*time.Minute) != form.read {
			panic("that has changed")
		}
	}
}
G
GOFLAGS=-mod=mod GOTOOLCHAIN=local go run .
