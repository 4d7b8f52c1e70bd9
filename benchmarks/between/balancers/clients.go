package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/resolver/manual"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"
)

// askTime bounds one request of a client.
const askTime = 10 * time.Second

// asker sends one request in the name of a client, and returns what it got: "200" or "OK" of a
// request that succeeded.
type asker func(client string) string

// overHTTP asks the balancer at port.
func overHTTP(port string) asker {
	c := &http.Client{Timeout: askTime, Transport: &http.Transport{MaxIdleConnsPerHost: 4}}
	return func(client string) string {
		r, err := http.NewRequest("GET", "http://127.0.0.1:"+port+"/", nil)
		if err != nil {
			return "error"
		}
		r.Header.Set(who, client)
		answer, err := c.Do(r)
		if err != nil {
			return "error"
		}
		defer answer.Body.Close()
		if _, err := io.Copy(io.Discard, answer.Body); err != nil {
			return "error"
		}
		return strconv.Itoa(answer.StatusCode)
	}
}

// overGRPC calls the balancer at port: an empty message, and a status in the fields or trailers.
func overGRPC(port string) asker {
	transport := &http.Transport{Protocols: new(http.Protocols)}
	transport.Protocols.SetUnencryptedHTTP2(true)
	c := &http.Client{Timeout: askTime, Transport: transport}
	return func(client string) string {
		r, err := http.NewRequest("POST", "http://127.0.0.1:"+port+"/weir.Echo/Call",
			bytes.NewReader(make([]byte, 5)))
		if err != nil {
			return "error"
		}
		r.Header.Set(who, client)
		r.Header.Set("Content-Type", "application/grpc")
		r.Header.Set("TE", "trailers")
		answer, err := c.Do(r)
		if err != nil {
			return "error"
		}
		defer answer.Body.Close()
		if _, err := io.Copy(io.Discard, answer.Body); err != nil {
			return "error"
		}
		code := answer.Trailer.Get("Grpc-Status")
		if code == "" {
			code = answer.Header.Get("Grpc-Status")
		}
		switch code {
		case "0":
			return "OK"
		case "8":
			return "RESOURCE_EXHAUSTED"
		case "14":
			return "UNAVAILABLE"
		}
		return fmt.Sprintf("%d %s", answer.StatusCode, code)
	}
}

// overChannel calls both servers by one channel of grpc-go, which both clients share, as tenants of
// one program do. The function that it returns closes the channel.
func overChannel(config string, ports [2]string) (asker, func(), error) {
	servers := manual.NewBuilderWithScheme("two")
	servers.InitialState(resolver.State{Addresses: []resolver.Address{
		{Addr: "127.0.0.1:" + ports[0]}, {Addr: "127.0.0.1:" + ports[1]},
	}})
	conn, err := grpc.NewClient("two:///", grpc.WithResolvers(servers),
		grpc.WithDefaultServiceConfig(config), grpc.WithDisableRetry(),
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return nil, nil, err
	}
	ask := func(client string) string {
		ctx, cancel := context.WithTimeout(context.Background(), askTime)
		defer cancel()
		ctx = metadata.AppendToOutgoingContext(ctx, who, client)
		err := conn.Invoke(ctx, "/weir.Echo/Call", &emptypb.Empty{}, &emptypb.Empty{})
		switch code := status.Code(err); code.String() {
		case "ResourceExhausted":
			return "RESOURCE_EXHAUSTED"
		case "Unavailable":
			return "UNAVAILABLE"
		default:
			return code.String()
		}
	}
	return ask, func() { conn.Close() }, nil
}
