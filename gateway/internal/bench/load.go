package main

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	ratelimit "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

// callers returns a load of calls on so many streams of one connection, with one descriptor for
// each name. If there are so many keys over their limit, all streams share these, and each answer
// must be a denial.
func callers(names []string, over int) load {
	return func(s *server, streams int) []time.Duration {
		if s.client == nil {
			conn, err := grpc.NewClient(s.address, grpc.WithTransportCredentials(insecure.NewCredentials()))
			if err != nil {
				fail("%v", err)
			}
			s.client = ratelimit.NewRateLimitServiceClient(conn)
			for key := range 2 * over { // another server may have counted, too
				isOver(s, request(names, key%over))
			}
		}
		return together(streams, func(i, j int) {
			key := i*1000 + j%1000
			if over > 0 {
				key = (i*7 + j) % over
			}
			if isOver(s, request(names, key)) != (over > 0) && s.decides() {
				fail("%s: a limit was not kept", s.name)
			}
		})
	}
}

// together calls ask on so many goroutines, one call after the other, and returns how long each
// call took.
func together(many int, ask func(i, j int)) []time.Duration {
	waits := make([][]time.Duration, many)
	begun := time.Now()
	var group sync.WaitGroup
	for i := range many {
		group.Go(func() {
			for j := 0; time.Since(begun) < *lasting; j++ {
				asked := time.Now()
				ask(i, j)
				waits[i] = append(waits[i], time.Since(asked))
			}
		})
	}
	group.Wait()
	return slices.Concat(waits...)
}

// isOver asks a server, and reports whether a limit is exceeded.
func isOver(s *server, r *ratelimit.RateLimitRequest) bool {
	response, err := s.client.ShouldRateLimit(context.Background(), r)
	if err != nil || response.DynamicMetadata != nil {
		fail("%s: %v %v", s.name, response, err)
	}
	return response.OverallCode == ratelimit.RateLimitResponse_OVER_LIMIT
}

func request(names []string, key int) *ratelimit.RateLimitRequest {
	r := &ratelimit.RateLimitRequest{Domain: "bench"}
	for _, name := range names {
		r.Descriptors = append(r.Descriptors, &common.RateLimitDescriptor{
			Entries: []*common.RateLimitDescriptor_Entry{{Key: name, Value: strconv.Itoa(key)}},
		})
	}
	return r
}

// clients returns a load of HTTP/1.1, on so many connections.
func clients() load {
	return func(s *server, connections int) []time.Duration {
		all := make([]*client, connections)
		for i := range all {
			conn, err := net.Dial("tcp", s.proxied)
			if err != nil {
				fail("%v", err)
			}
			defer conn.Close()
			all[i] = &client{Conn: conn, reader: bufio.NewReader(conn)}
			if status := all[i].ask("x-denied", i); s.decides() && status != "429" {
				status = all[i].ask("x-denied", i) // now it is over the limit
				if status != "429" {
					fail("%s: answered %s in place of 429", s.name, status)
				}
			}
		}
		return together(connections, func(i, j int) {
			if status := all[i].ask("x-client", i*1000+j%1000); status != "204" {
				fail("%s: answered %s", s.name, status)
			}
		})
	}
}

// client is a connection that sends one request after the other. net/http would take more time of
// the processors that it shares with the servers.
type client struct {
	net.Conn
	reader *bufio.Reader
	buffer []byte
}

// ask sends a request with a key in a field, and returns the status of the answer.
func (c *client) ask(field string, key int) (status string) {
	c.buffer = fmt.Appendf(c.buffer[:0], "GET / HTTP/1.1\r\nHost: bench\r\n%s: %d\r\n\r\n", field, key)
	if _, err := c.Write(c.buffer); err != nil {
		fail("%v", err)
	}
	for {
		line, err := c.reader.ReadSlice('\n')
		switch {
		case err != nil:
			fail("%v", err)
		case status == "":
			if _, status, _ = strings.Cut(string(line), " "); len(status) > 3 {
				status = status[:3]
			}
		case len(line) == 2:
			return status
		}
	}
}
