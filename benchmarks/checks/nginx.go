package main

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/weir-go/weir/benchmarks/measure"
	"github.com/weir-go/weir/benchmarks/table"
	"github.com/weir-go/weir/internal/proof/freeport"
)

const guide = "../docs/gateway.md"

// limitReq is a server with nginx's own limit, which no request reaches either.
const limitReq = `
  limit_req_zone $binary_remote_addr zone=limit:32m rate=1000000r/s;
  server {
    listen 8000;
    location / { limit_req zone=limit burst=1000000 nodelay; proxy_pass http://app; }
  }
}
`

// program is what stands behind, so that it costs little.
const program = `pid app.pid;
error_log stderr;
events {}
http {
  access_log off;
  server { listen 9000; location / { return 200 "hello"; } }
}
`

// contender is an nginx whose requests are limited somehow.
type contender struct {
	name     string
	proxy    string   // address of the nginx
	deciding *process // nil: nginx itself
	rounds   []turn
}

// turn is what was measured of one contender in one round.
type turn struct {
	perSecond, processor float64 // processor time of a check, in µs
	slowest              float64 // 99% of the requests took at most so many µs
}

// beside prints what nginx serves with auth_request as the guide has it, as a share of what it serves
// with limit_req. The floor is a check by a server of net/http that answers 204 at once: no
// check by a process of its own in Go takes less.
func beside(rounds int) error {
	b, err := newBench()
	if err != nil {
		return err
	}
	defer b.end()
	all, err := contenders(b)
	if err != nil {
		return err
	}
	t := table.Table{Heads: []string{"decided by", "connections", "of limit_req", "of the floor",
		"p99 of limit_req's", "µs a check"}}
	for _, connections := range []int{1, 16, 64} {
		for round := range rounds + 1 {
			for _, c := range all {
				m, err := c.measure(connections)
				if err != nil {
					return fmt.Errorf("%s: %w", c.name, err)
				}
				if round > 0 { // the first one warms up
					c.rounds = append(c.rounds, m)
				}
			}
		}
		for _, c := range all {
			of := func(other *contender, value func(turn) float64) string {
				ratios := make([]float64, rounds)
				for i := range ratios {
					ratios[i] = value(c.rounds[i]) / value(other.rounds[i])
				}
				return fmt.Sprintf("%.2f", measure.Median(ratios))
			}
			perSecond := func(t turn) float64 { return t.perSecond }
			var processor []float64
			for _, m := range c.rounds {
				processor = append(processor, m.processor)
			}
			t.Add(c.name, strconv.Itoa(connections), of(all[0], perSecond), of(all[1], perSecond),
				of(all[0], func(t turn) float64 { return t.slowest }),
				fmt.Sprintf("%.1f", measure.Median(processor)))
		}
		for _, c := range all {
			c.rounds = nil
		}
	}
	t.Print(os.Stdout)
	return nil
}

// contenders starts all servers: limit_req, the floor, and each weir.
func contenders(b *bench) (all []*contender, err error) {
	text, err := os.ReadFile(guide)
	if err != nil {
		return nil, err
	}
	_, config, _ := strings.Cut(string(text), "# nginx.conf\n")
	config, _, ok := strings.Cut(config, "```")
	front, _, both := strings.Cut(config, "\n  server {")
	if !ok || !both {
		return nil, fmt.Errorf("%s has no nginx.conf with a server", guide)
	}
	if *keepalive > 0 {
		config = regexp.MustCompile(`keepalive \d+`).ReplaceAllString(config, fmt.Sprintf("keepalive %d", *keepalive))
	}
	app, err := nginx(b, "app", program, "9000", nil)
	if err != nil {
		return nil, err
	}
	add := func(name, config, check string, deciding *process) error {
		proxy, err := nginx(b, name, config, "8000", strings.NewReplacer("127.0.0.1:8080", check,
			"127.0.0.1:9000", app, "http {", "http {\n  access_log off;\n  keepalive_requests 1000000000;"))
		all = append(all, &contender{name: name, proxy: proxy, deciding: deciding})
		return err
	}
	if err := add("limit_req", front+limitReq, "127.0.0.1:8080", nil); err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	commands, err := b.commands()
	if err != nil {
		return nil, err
	}
	file, err := b.write("weir.yaml", policy)
	if err != nil {
		return nil, err
	}
	for _, command := range append([]string{self}, commands...) {
		address, err := freeport.Address()
		if err != nil {
			return nil, err
		}
		name, args := filepath.Base(command), []string{"serve", "--denied-status", "403",
			"--check", address, "--grpc", "", "--operator", "", file}
		if command == self {
			name, args = "the floor", []string{"floor", address}
		}
		p, err := b.start("tcp", address, command, args...)
		if err != nil {
			return nil, err
		}
		if err := add(name, config, address, p); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// nginx starts an nginx with a configuration, and returns where it listens instead of at port.
func nginx(b *bench, name, config, port string, others *strings.Replacer) (string, error) {
	address, err := freeport.Address()
	if err != nil {
		return "", err
	}
	if others != nil {
		config = others.Replace(config)
	}
	config = strings.ReplaceAll(config, "listen "+port, "listen "+address)
	config = strings.Replace(config, "pid nginx.pid", "pid "+strings.ReplaceAll(name, " ", "-")+".pid", 1)
	path, err := b.write(name+".conf", "daemon off;\n"+config)
	if err != nil {
		return "", err
	}
	_, err = b.start("tcp", address, "nginx", "-p", b.dir, "-c", path)
	return address, err
}

// measure sends requests on so many connections, on each one after the other.
func (c *contender) measure(connections int) (turn, error) {
	open := make([]net.Conn, connections)
	for i := range open {
		conn, err := net.Dial("tcp", c.proxy)
		if err != nil {
			return turn{}, err
		}
		defer conn.Close()
		open[i] = conn
	}
	waits, errs := make([][]time.Duration, connections), make([]error, connections)
	var before, used time.Duration
	if c.deciding != nil {
		before = c.deciding.used()
	}
	begun := time.Now()
	var group sync.WaitGroup
	for i, conn := range open {
		group.Go(func() { waits[i], errs[i] = ask(conn, begun) })
	}
	group.Wait()
	took := time.Since(begun)
	if c.deciding != nil {
		used = c.deciding.used() - before
	}
	for _, err := range errs {
		if err != nil {
			return turn{}, err
		}
	}
	every := slices.Concat(waits...)
	slices.Sort(every)
	return turn{
		perSecond: float64(len(every)) / took.Seconds(),
		processor: float64(used.Nanoseconds()) / 1000 / float64(len(every)),
		slowest:   float64(every[len(every)*99/100].Microseconds()),
	}, nil
}

// ask sends requests for as long as a measurement lasts, and returns what each took.
func ask(conn net.Conn, begun time.Time) (waits []time.Duration, err error) {
	request := []byte("GET /pages/a?b=c HTTP/1.1\r\nHost: api.example.com\r\n" +
		"User-Agent: benchmarks\r\nAccept: */*\r\n\r\n")
	buffer := make([]byte, 4096)
	for now := begun; now.Sub(begun) < *lasting; {
		if _, err := conn.Write(request); err != nil {
			return nil, err
		}
		n := 0
		for !bytes.HasSuffix(buffer[:n], []byte("\r\n\r\nhello")) {
			more, err := conn.Read(buffer[n:])
			if err != nil {
				return nil, fmt.Errorf("%w after %q", err, buffer[:n])
			}
			n += more
		}
		if !bytes.HasPrefix(buffer, []byte("HTTP/1.1 200 ")) {
			return nil, fmt.Errorf("an answer is %q", buffer[:n])
		}
		after := time.Now()
		waits, now = append(waits, after.Sub(now)), after
	}
	return waits, nil
}
