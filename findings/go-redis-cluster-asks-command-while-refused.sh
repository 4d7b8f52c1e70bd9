#!/usr/bin/env bash
# go-redis 9.23.0 for Go (2026-11-29): a ClusterClient whose user may send GET and CLUSTER, as a list of
# rights for a small program has it, but not COMMAND.
# Guess: it asks COMMAND once, is refused, and never again.
# Seen: it asks before each GET, is refused each time, and writes a line of a log for each; the GETs
# work. DisableRoutingPolicies ends it: no COMMAND at all.
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

	"github.com/redis/go-redis/v9"
)

var commands atomic.Int64

// serve is a Cluster of one server that keeps all slots.
func serve(conn net.Conn) {
	host, port, _ := net.SplitHostPort(conn.LocalAddr().String())
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
		switch name {
		case "GET":
			io.WriteString(conn, "$1\r\nx\r\n")
		case "CLUSTER":
			fmt.Fprintf(conn, "*1\r\n*3\r\n:0\r\n:16383\r\n*2\r\n$%d\r\n%s\r\n:%s\r\n", len(host), host, port)
		case "COMMAND":
			commands.Add(1)
			io.WriteString(conn, "-NOPERM this user has no permissions to run the 'command' command\r\n")
		default:
			io.WriteString(conn, "-ERR unknown command\r\n")
		}
	}
}

func main() {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go serve(conn)
		}
	}()
	for _, off := range []bool{false, true} {
		commands.Store(0)
		client := redis.NewClusterClient(&redis.ClusterOptions{
			Addrs: []string{listener.Addr().String()}, DisableRoutingPolicies: off,
		})
		for range 100 {
			if err := client.Get(context.Background(), "k").Err(); err != nil {
				panic(err)
			}
		}
		client.Close()
		n := commands.Load()
		fmt.Printf("DisableRoutingPolicies %t: 100 GETs that worked, %d COMMANDs refused\n", off, n)
		if off && n > 0 || !off && n < 100 {
			panic("not as seen")
		}
	}
}
G
version=v9.23.0
go mod init example.com/finding >log 2>&1
go get "github.com/redis/go-redis/v9@$version" >>log 2>&1 || { cat log; exit 1; }
go mod tidy >>log 2>&1
go run . 2>client.log
grep -c NOPERM client.log | sed 's/$/ lines of its log/'
