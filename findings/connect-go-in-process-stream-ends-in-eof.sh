#!/usr/bin/env bash
# connect-go v2 2.0.2 for Go (2026-11-29): an interceptor of a server refuses a server stream with
# ResourceExhausted before it reads the message, over HTTP and by the transport within the process.
# Guess: the caller sees ResourceExhausted in both cases.
# Seen: over HTTP it does. Within the process CallServerStream, and so the generated method, returns
# io.EOF each time, which is how a stream ends well; the code is lost. A unary call keeps its code.
set -euo pipefail
version=v2.0.2
dir=$(mktemp -d)
trap 'chmod -R u+w "$dir"; rm -rf "$dir"' EXIT
cd "$dir"
export GOPATH=$dir/go GOFLAGS=-modcacherw
cat >main.go <<'G'
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"

	"connectrpc.com/connect/v2"
	"connectrpc.com/connect/v2/connecthttp"
	"connectrpc.com/connect/v2/connectinprocess"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

var (
	unary = connect.Spec{Procedure: "/shop.v1.Orders/Place", StreamType: connect.StreamTypeUnary}
	down  = connect.Spec{Procedure: "/shop.v1.Orders/Follow", StreamType: connect.StreamTypeServer}
)

func ask(transport connect.Transport) (unaryCode, streamCode connect.Code, isEOF bool) {
	c, ctx := connect.NewClient(transport), context.Background()
	unaryCode = connect.CodeOf(c.CallUnary(ctx, unary, wrapperspb.String("a"), wrapperspb.String("")))
	s, err := c.CallServerStream(ctx, down, wrapperspb.String("a"))
	if err == nil {
		err = s.Receive(wrapperspb.String(""))
		s.Close()
	}
	return unaryCode, connect.CodeOf(err), errors.Is(err, io.EOF)
}

func main() {
	server := connect.NewServer(func(connect.ServerFunc) connect.ServerFunc {
		return func(context.Context, connect.Spec, connect.ServerStream) error {
			return connect.NewError(connect.CodeResourceExhausted, "too many requests")
		}
	})
	for _, spec := range []connect.Spec{unary, down} {
		server.Register(connect.Method{Spec: spec,
			Handler: func(context.Context, connect.Spec, connect.ServerStream) error { return nil }})
	}
	mux := http.NewServeMux()
	connecthttp.Mount(mux, server)
	listening := httptest.NewServer(mux)
	defer listening.Close()
	for range 100 {
		a, b, eof := ask(connecthttp.NewTransport(listening.Client(), listening.URL))
		c, d, inProcess := ask(connectinprocess.New(server))
		fmt.Println("HTTP:", a, b, eof, "in process:", c, d, inProcess)
	}
}
G
go mod init finding >/dev/null 2>&1
go get connectrpc.com/connect/v2@"$version" >/dev/null 2>&1
go mod tidy >/dev/null 2>&1
go run . | sort | uniq -c | tee seen
[ "$(wc -l <seen)" = 1 ]
grep -q '100 HTTP: resource_exhausted resource_exhausted false in process: resource_exhausted unknown true$' seen
