// Bench compares the rate limit service of package envoy with a server that decides nothing,
// and with others that listen already:
//
//	go run ./internal/bench -redis redis://127.0.0.1:6379 -also original=127.0.0.1:8081/1234
//
// Each contender is a process of its own. Rounds are interleaved, and the table has the median
// of them: decisions a second, the wait of half and of 99% of the calls, and the processor time of the
// server for a decision. The number after the slash is the process of another server.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	ratelimit "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/weir-go/weir/gateway/descriptors"
	"github.com/weir-go/weir/gateway/envoy"
	"github.com/weir-go/weir/limits/backends"
	"github.com/weir-go/weir/redisbackend"
)

const file = `
domain: bench
descriptors:
  - {key: tenant, rate_limit: {unit: hour, requests_per_unit: 400000000}}
  - {key: path, rate_limit: {unit: hour, requests_per_unit: 400000000}}
`

var (
	redisURL = flag.String("redis", "", "the `URL` of a Redis; \"\": that contender is left out")
	also     = flag.String("also", "", "other servers, as `name=address/process`, separated by commas")
	rounds   = flag.Int("rounds", 5, "how many `rounds`")
	lasting  = flag.Duration("for", time.Second, "how long each `measurement` lasts")
	as       = flag.String("as", "", "what this process serves; set by the program itself")
)

func main() {
	log.SetFlags(0)
	flag.Parse()
	if *as != "" {
		serve(*as)
		return
	}
	all := []*contender{start("nothing"), start("memory")}
	if *redisURL != "" {
		all = append(all, start("redis"))
	}
	for text := range strings.SplitSeq(*also, ",") {
		name, rest, _ := strings.Cut(text, "=")
		address, process, _ := strings.Cut(rest, "/")
		if name != "" {
			pid, err := strconv.Atoi(process)
			if err != nil {
				log.Fatalf("-also: %q names no process", text)
			}
			all = append(all, &contender{name: name, address: address, pid: pid})
		}
	}
	compare(all)
	for _, c := range all {
		if c.stdin != nil {
			c.stdin.Close() // ends it
		}
	}
}

// contender is a server.
type contender struct {
	name, address string
	pid           int
	stdin         io.Closer
	client        ratelimit.RateLimitServiceClient
}

// start starts this program as a server, which ends with its standard input.
func start(name string) *contender {
	self, err := os.Executable()
	if err != nil {
		log.Fatal(err)
	}
	cmd := exec.Command(self, "-as", name, "-redis", *redisURL)
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		log.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		log.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		log.Fatal(err)
	}
	var address string
	if _, err := fmt.Fscanln(stdout, &address); err != nil {
		log.Fatalf("%s: %v", name, err)
	}
	return &contender{name: name, address: address, pid: cmd.Process.Pid, stdin: stdin}
}

// nothing is a server that decides nothing: what gRPC itself costs.
type nothing struct {
	ratelimit.UnimplementedRateLimitServiceServer
}

func (nothing) ShouldRateLimit(_ context.Context, r *ratelimit.RateLimitRequest) (*ratelimit.RateLimitResponse, error) {
	response := &ratelimit.RateLimitResponse{OverallCode: ratelimit.RateLimitResponse_OK}
	for range r.Descriptors {
		response.Statuses = append(response.Statuses,
			&ratelimit.RateLimitResponse_DescriptorStatus{
				Code: ratelimit.RateLimitResponse_OK, LimitRemaining: 1,
			})
	}
	return response, nil
}

func serve(what string) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	server := grpc.NewServer(envoy.ServerOptions(nil)...)
	if what == "nothing" {
		ratelimit.RegisterRateLimitServiceServer(server, nothing{})
	} else {
		config, err := descriptors.Parse(descriptors.File{Name: "bench", Text: []byte(file)})
		if err != nil {
			log.Fatal(err)
		}
		var backend backends.Backend
		if what == "redis" {
			if backend, err = redisbackend.Open(*redisURL, redisbackend.Options{Budget: time.Second}); err != nil {
				log.Fatal(err)
			}
		}
		service := descriptors.MustNew(config, descriptors.Options{Backend: backend, Logger: slog.Default()})
		envoy.RegisterRateLimits(server, service, envoy.RateLimitOptions{})
	}
	fmt.Println(listener.Addr())
	go server.Serve(listener)
	io.Copy(io.Discard, os.Stdin)
}

// measurement is what a round has come to.
type measurement struct {
	perSecond, cpu float64 // decisions; microseconds a decision
	half, most     time.Duration
}

func compare(all []*contender) {
	for _, c := range all {
		conn, err := grpc.NewClient(c.address, grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			log.Fatal(err)
		}
		c.client = ratelimit.NewRateLimitServiceClient(conn)
	}
	fmt.Println("| descriptors | streams | server | decisions/s | p50 ms | p99 ms | server µs a decision |\n" +
		"|--:|--:|---|--:|--:|--:|--:|")
	for _, n := range []int{1, 2} {
		for _, streams := range []int{1, 16, 128} {
			results := make([][]measurement, len(all))
			for range *rounds {
				for i, c := range all {
					results[i] = append(results[i], c.measure(n, streams))
				}
			}
			for i, c := range all {
				slices.SortFunc(results[i], func(a, b measurement) int { return int(a.perSecond - b.perSecond) })
				m := results[i][len(results[i])/2]
				fmt.Printf("| %d | %d | %s | %.0f | %.2f | %.2f | %.1f |\n",
					n, streams, c.name, m.perSecond, ms(m.half), ms(m.most), m.cpu)
			}
		}
	}
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// measure sends requests on so many streams of one connection.
func (c *contender) measure(n, streams int) (m measurement) {
	waits := make([][]time.Duration, streams)
	before, begun := c.used(), time.Now()
	var group sync.WaitGroup
	for i := range streams {
		group.Go(func() {
			for j := 0; time.Since(begun) < *lasting; j++ {
				asked := time.Now()
				response, err := c.client.ShouldRateLimit(context.Background(), request(n, i*1000+j%1000))
				if err != nil {
					log.Fatalf("%s: %v", c.name, err)
				}
				if response.OverallCode != ratelimit.RateLimitResponse_OK || response.DynamicMetadata != nil {
					log.Fatalf("%s: %v", c.name, response)
				}
				waits[i] = append(waits[i], time.Since(asked))
			}
		})
	}
	group.Wait()
	took, used := time.Since(begun), c.used()-before
	every := slices.Concat(waits...)
	slices.Sort(every)
	return measurement{
		perSecond: float64(len(every)) / took.Seconds(),
		cpu:       float64(used.Microseconds()) / float64(len(every)),
		half:      every[len(every)/2], most: every[len(every)*99/100],
	}
}

func request(n, key int) *ratelimit.RateLimitRequest {
	r := &ratelimit.RateLimitRequest{Domain: "bench"}
	for _, name := range []string{"tenant", "path"}[:n] {
		r.Descriptors = append(r.Descriptors, &common.RateLimitDescriptor{
			Entries: []*common.RateLimitDescriptor_Entry{{Key: name, Value: strconv.Itoa(key)}},
		})
	}
	return r
}

// used returns the processor time of the server, as Linux counts it.
func (c *contender) used() time.Duration {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", c.pid))
	if err != nil {
		log.Fatal(err)
	}
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+2:]))
	user, _ := strconv.Atoi(fields[11])
	system, _ := strconv.Atoi(fields[12])
	return time.Duration(user+system) * 10 * time.Millisecond
}
