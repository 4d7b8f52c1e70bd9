//go:build unix

package main

import (
	"bytes"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// journal is what a program logs, and may be read meanwhile.
type journal struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (j *journal) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(p)
}

func (j *journal) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.String()
}

// wait returns the first group of a pattern once it is logged.
func (j *journal) wait(t *testing.T, pattern string) string {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		if m := regexp.MustCompile(pattern).FindStringSubmatch(j.String()); m != nil {
			return m[len(m)-1]
		}
	}
	t.Fatalf("no %s:\n%s", pattern, j)
	return ""
}

func TestServeFollowsItsFilesAndEndsBySIGTERM(t *testing.T) {
	path := filepath.Join(t.TempDir(), "weir.yaml")
	write := func(limit string) {
		t.Helper()
		text := "version: 1\nclient: {peer: true}\nrules:\n  - {name: all, key: everybody, limit: " + limit + "}\n"
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("1/day")
	var log journal
	code := make(chan int, 1)
	go func() {
		code <- run([]string{"serve", "--check", "127.0.0.1:0", "--grpc", "", "--operator", "", path}, strings.NewReader(""), &log, &log)
	}()
	url := "http://" + log.wait(t, `for=check address=(\S+)`) + "/check"
	log.wait(t, `serve: ready`)
	ask := func() int {
		t.Helper()
		r, err := http.NewRequest("GET", url, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header = http.Header{
			"X-Forwarded-Method": {"GET"},
			"X-Forwarded-Host":   {"a"},
			"X-Forwarded-Uri":    {"/"},
			"X-Forwarded-For":    {"203.0.113.7"},
		}
		response, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		return response.StatusCode
	}
	if first, second := ask(), ask(); first != 204 || second != 429 {
		t.Errorf("%d, %d", first, second)
	}
	write("many")
	log.wait(t, `not applied, the policy in force stays`)
	if got := ask(); got != 429 {
		t.Errorf("after a mistake: %d", got)
	}
	write("5/day")
	log.wait(t, `policy: applied`)
	if got := ask(); got != 204 {
		t.Errorf("after a change: %d", got)
	}
	write("many")
	for range 2 { // a mistake is logged each time that someone asks
		before := strings.Count(log.String(), "not applied")
		if err := syscall.Kill(os.Getpid(), syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
		log.wait(t, `(?s)(not applied.*){`+strconv.Itoa(before+1)+`}`)
	}
	if err := syscall.Kill(os.Getpid(), syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if got := <-code; got != 0 {
		t.Errorf("exit code %d\n%s", got, &log)
	}
}
