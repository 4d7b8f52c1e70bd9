package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

const guide = "docs/gateway.md"

// edits are changes of the files of the guide, OLD=>NEW.
type edits []string

func (e *edits) String() string { return strings.Join(*e, ", ") }

func (e *edits) Set(edit string) error {
	if !strings.Contains(edit, "=>") {
		return fmt.Errorf("%q has no =>", edit)
	}
	*e = append(*e, edit)
	return nil
}

// runGuide runs a proxy as the guide sets it up. Each address may send ten requests in an hour, five
// by the limits by descriptors. So the innocent client takes a new address for each five, and the
// limited one has one.
func runGuide(s setup) (*result, error) {
	dir, err := folder()
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	var ports [4]string // of the proxy, the check over HTTP and over gRPC, and the program behind
	for i := range ports[:3] {
		if ports[i], err = freePort(); err != nil {
			return nil, err
		}
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	defer listener.Close()
	_, ports[3], _ = net.SplitHostPort(listener.Addr().String())
	go http.Serve(listener, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/pages/") {
			w.Header().Set("Cache-Control", "public, max-age=3600")
		}
		io.WriteString(w, "Hello.\n")
	}))
	if err := writeGuide(dir, s.edits, strings.NewReplacer("8000", ports[0], "8080", ports[1],
		"8081", ports[2], "9000", ports[3], "@dir@", dir)); err != nil {
		return nil, err
	}
	places := strings.NewReplacer("@proxy@", ports[0], "@dir@", dir)
	weir, err := begin(dir, places, append([]string{s.weir, "serve", "--check", "127.0.0.1:" + ports[1],
		"--grpc", "127.0.0.1:" + ports[2], "--operator", ""}, strings.Fields(s.serve)...))
	if err != nil {
		return nil, err
	}
	defer weir.stop()
	proxy, err := begin(dir, places, s.command)
	if err != nil {
		return nil, err
	}
	defer proxy.stop()
	r := &result{answer: "429", innocent: make(map[string]int), limited: make(map[string]int)}
	err = proxy.explain(r.measure(byAddress("http://127.0.0.1:"+ports[0]+s.path), nil, proxy.ended))
	return r, weir.explain(err)
}

// writeGuide writes the files that the guide shows into dir, by the names in their first lines.
func writeGuide(dir string, changes edits, ports *strings.Replacer) error {
	text, err := os.ReadFile(filepath.Join(os.Getenv("ROOT"), guide))
	if err != nil {
		return err
	}
	for i, part := range strings.Split(string(text), "\n```") {
		body, isText := strings.CutPrefix(part, "text\n")
		first, _, _ := strings.Cut(body, "\n")
		words := strings.Fields(first)
		if i%2 == 0 || !isText || len(words) < 2 || words[0] != "#" && words[0] != "--" {
			continue
		}
		for _, change := range changes {
			from, to, _ := strings.Cut(change, "=>")
			body = strings.Replace(body, from, to, 1)
		}
		if err := os.WriteFile(filepath.Join(dir, filepath.Base(words[1])),
			[]byte(ports.Replace(body)+"\n"), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// address is the key of the context value that says from which address a client asks.
type address struct{}

// byAddress asks for url: the limited client from one address, the innocent one from many.
func byAddress(url string) asker {
	var asked atomic.Int64 // by the innocent client
	dial := func(ctx context.Context, network, to string) (net.Conn, error) {
		from, _ := ctx.Value(address{}).(net.IP)
		return (&net.Dialer{LocalAddr: &net.TCPAddr{IP: from}, Timeout: time.Second}).DialContext(ctx, network, to)
	}
	c := &http.Client{Timeout: askTime, Transport: &http.Transport{DialContext: dial, DisableKeepAlives: true}}
	return func(client string) string {
		from := net.IPv4(127, 0, 0, 1)
		if client != limited {
			n := asked.Add(1) / 5
			from = net.IPv4(127, 0, byte(1+n/250), byte(1+n%250))
		}
		ctx := context.WithValue(context.Background(), address{}, from)
		r, err := http.NewRequestWithContext(ctx, "GET", url, nil)
		if err != nil {
			return "error"
		}
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
