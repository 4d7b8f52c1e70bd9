#!/usr/bin/env bash
# go-redis 9.23.0 for Go (2026-11-29): a client with a pool of two has failed to dial as often, and
# then the server comes back.
# Guess: the next command dials, and works.
# Seen: commands fail for up to a second more with the old "connection refused", and the server sees
# no dial meanwhile. The pool dials once a second in the background, and replies its last error to
# everybody else.
set -euo pipefail
dir=$(mktemp -d)
trap 'chmod -R u+w "$dir"; rm -rf "$dir"' EXIT
cd "$dir"
export GOPATH=$dir/go GOFLAGS=-modcacherw
cat >main.go <<'G'
package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// serve speaks as much of the protocol as PING needs.
func serve(conn net.Conn) {
	r := bufio.NewReader(conn)
	for {
		head, err := r.ReadString('\n')
		if err != nil {
			return
		}
		words, _ := strconv.Atoi(strings.TrimSpace(head[1:]))
		var name string
		for i := range words {
			size, _ := r.ReadString('\n')
			n, _ := strconv.Atoi(strings.TrimSpace(size[1:]))
			text := make([]byte, n+2)
			io.ReadFull(r, text)
			if i == 0 {
				name = strings.ToUpper(string(text[:n]))
			}
		}
		if name == "PING" {
			io.WriteString(conn, "+PONG\r\n")
		} else {
			io.WriteString(conn, "-ERR unknown command\r\n")
		}
	}
}

func main() {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	addr := listener.Addr().String()
	listener.Close() // the server is away
	client := redis.NewClient(&redis.Options{Addr: addr, PoolSize: 2, MaxRetries: -1, DialerRetries: 1})
	ctx := context.Background()
	for range 4 {
		client.Ping(ctx)
	}
	listener, err = net.Listen("tcp", addr) // and back
	if err != nil {
		panic(err)
	}
	var dials atomic.Int64
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			dials.Add(1)
			go serve(conn)
		}
	}()
	back, failed := time.Now(), 0
	for dials.Load() == 0 && time.Since(back) < 5*time.Second {
		if err := client.Ping(ctx).Err(); err != nil {
			if !strings.Contains(err.Error(), "refused") {
				panic(err)
			}
			failed++
		}
		time.Sleep(10 * time.Millisecond)
	}
	took := time.Since(back)
	fmt.Printf("%d commands failed in %v after the server was back, before the first dial\n", failed, took.Round(10*time.Millisecond))
	if failed < 20 || took > 3*time.Second {
		panic("not as seen")
	}
}
G
version=v9.23.0
go mod init example.com/finding >log 2>&1
go get "github.com/redis/go-redis/v9@$version" >>log 2>&1 || { cat log; exit 1; }
go mod tidy >>log 2>&1
go run .
