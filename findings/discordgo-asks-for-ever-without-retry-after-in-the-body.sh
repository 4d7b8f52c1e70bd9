#!/usr/bin/env bash
# discordgo 0.29.0 (2026-11-28) after a 429 with Retry-After: 1 whose body is a problem document
# (RFC 9457), as a limiter or a proxy in between answers.
# Guess: it waits for Retry-After, or fails.
# Seen: it does neither. It reads the wait from retry_after in the body alone, takes a missing one
# for 0, and asks again at once without an end: more than 100 requests in the first second.
# With that member in the same document it waits, and sends twice.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
export GOPATH="$dir/go" GOFLAGS=-modcacherw
go mod init denied >/dev/null 2>&1
cat >main.go <<'G'
package main

import (
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"time"

	"github.com/bwmarrin/discordgo"
)

// posts returns how many requests a message takes within a second of the first. Later ones succeed.
func posts(body string) int64 {
	var requests atomic.Int64
	var begun time.Time
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if requests.Add(1) == 1 {
			begun = time.Now()
		}
		if time.Since(begun) > 950*time.Millisecond {
			fmt.Fprint(w, `{"id":"1"}`)
			return
		}
		w.Header().Set("Retry-After", "1")
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(429)
		fmt.Fprint(w, body)
	}))
	defer server.Close()
	session, err := discordgo.New("Bot token")
	if err != nil {
		log.Fatal(err)
	}
	discordgo.EndpointChannels = server.URL + "/channels/"
	if _, err := session.ChannelMessageSend("1", "hi"); err != nil {
		log.Fatal(err)
	}
	fmt.Println(body, "->", requests.Load(), "requests")
	return requests.Load()
}

func main() {
	if n := posts(`{"title":"Too Many Requests","status":429}`); n <= 100 {
		log.Fatalf("want more than 100 requests in a second, got %d", n)
	}
	if n := posts(`{"title":"Too Many Requests","status":429,"retry_after":1}`); n != 2 {
		log.Fatalf("want 2 requests, got %d", n)
	}
}
G
version=v0.29.0
go get "github.com/bwmarrin/discordgo@$version" >/dev/null 2>&1
go run .
