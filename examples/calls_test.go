package examples

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"encoding/binary"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/internal/proof/testrun"
)

// callers makes gRPC calls over HTTP/2 without TLS, on connections of its own.
func callers(t *testing.T) *http.Client {
	transport := &http.Transport{Protocols: new(http.Protocols)}
	transport.Protocols.SetUnencryptedHTTP2(true)
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// call makes a gRPC call with an empty message, for as long as ctx lasts. code is "" while it runs.
func call(ctx context.Context, t *testing.T, client *http.Client, url, method string) (code string) {
	t.Helper()
	empty := strings.NewReader("\x00\x00\x00\x00\x00")
	r, err := http.NewRequestWithContext(ctx, "POST", url+"/greet.v1.Greeter/"+method, empty)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/grpc")
	r.Header.Set("TE", "trailers")
	response, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	if method == "Count" { // which ends only if it is denied
		var message [5]byte
		if n, _ := io.ReadFull(response.Body, message[:]); n > 0 {
			return ""
		}
	}
	if _, err := io.Copy(io.Discard, response.Body); err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	return cmp.Or(response.Trailer.Get("Grpc-Status"), response.Header.Get("Grpc-Status"))
}

// callTurns has two servers answer n calls each, in turns, and returns how many they allow.
func callTurns(t *testing.T, client *http.Client, one, other *redisProgram, n int) (allowed int) {
	t.Helper()
	for range n {
		for _, p := range []*redisProgram{one, other} {
			switch code := call(t.Context(), t, client, p.url, "Greet"); code {
			case "0":
				allowed++
			case "8": // RESOURCE_EXHAUSTED
			default:
				t.Fatalf("a call ends with grpc-status %q, want 0 or 8\n%s", code, strings.Join(p.log, "\n"))
			}
		}
	}
	return allowed
}

// wantExactly fails unless 60 calls were allowed, or 60 in each minute if it took so long.
func wantExactly(t *testing.T, allowed int, begun time.Time) {
	t.Helper()
	if most := 60 * (1 + int(time.Since(begun)/time.Minute)); allowed < 60 || allowed > most {
		t.Errorf("%d calls are allowed, want 60 a minute, at most %d", allowed, most)
	}
}

func TestServersOfCallsShareLimitsAndAnswerWithoutRedis(t *testing.T) {
	testrun.FullOnly(t, "builds three modules of their own, and runs them with Redis")
	testrun.DependsOnSource(t, "..")
	for _, name := range []string{"grpc", "connect", "connect2"} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			overlay, err := patience(dir)
			if err := cmp.Or(err, goBuild(t, name, dir, []string{"."}, "-overlay="+overlay)); err != nil {
				t.Fatal(err)
			}
			addr, program, client := freeAddr(t), filepath.Join(dir, name), callers(t)
			kill := startRedisServer(t, addr)
			one, other := startRedisProgram(t, program, "redis://"+addr), startRedisProgram(t, program, "redis://"+addr)

			begun := time.Now()
			streams, leave := context.WithCancel(t.Context())
			defer leave()
			for _, p := range []*redisProgram{one, other} {
				if code := call(streams, t, client, p.url, "Count"); code != "" {
					t.Fatalf("one of two streams ends with grpc-status %s", code)
				}
			}
			for _, p := range []*redisProgram{one, other} {
				if code := call(streams, t, client, p.url, "Count"); code != "8" {
					t.Errorf("a third stream has grpc-status %q, want 8", code)
				}
			}
			wantExactly(t, 2+callTurns(t, client, one, other, 60), begun)

			kill()
			callTurns(t, client, one, other, 20)
			begun, alone := time.Now(), startRedisProgram(t, program, "redis://"+addr)
			wantExactly(t, callTurns(t, client, alone, alone, 40), begun)
		})
	}
}

// Interceptors of gRPC and Connect v1 never see such calls: 300 of them a second filled a processor, and six at once a
// gigabyte of memory.
func TestCallsThatCannotBeDecodedAreDeniedToo(t *testing.T) {
	testrun.FullOnly(t, "builds three modules of their own")
	testrun.DependsOnSource(t, "..")
	garbage, bomb := frame(0, []byte("x")), frame(1, zipped(t, make([]byte, 64<<20)))
	for _, c := range []struct {
		program, call string
		body          []byte
		code          string // while it is allowed
	}{
		{"grpc", "garbage", garbage, "13"},
		{"grpc", "bomb", bomb, "12"}, // it knows no gzip
		{"connect", "garbage", garbage, "3"},
		{"connect", "bomb", bomb, "8"},
		{"connect2", "garbage", garbage, "3"},
		{"connect2", "bomb", bomb, "8"},
	} {
		t.Run(c.program+"/"+c.call, func(t *testing.T) {
			dir := t.TempDir()
			if err := goBuild(t, c.program, dir, []string{"."}); err != nil {
				t.Fatal(err)
			}
			url, client := launch(t, filepath.Join(dir, c.program)), callers(t)
			for range 1000 { // more than any limit in the minutes that this takes
				code, message := callWith(t, client, url+"/greet.v1.Greeter/Greet", c.body)
				if code == "8" && (strings.HasPrefix(message, "Too many requests: ") || message == "retry later") {
					return
				}
				if code != c.code {
					t.Fatalf("grpc-status %s, %q, want %s", code, message, c.code)
				}
			}
			t.Error("1000 calls: none is denied")
		})
	}
}

func TestHealthChecksOfAClientWithoutABudgetPass(t *testing.T) {
	testrun.FullOnly(t, "builds a module of its own")
	testrun.DependsOnSource(t, "..")
	dir := t.TempDir()
	if err := goBuild(t, "grpc", dir, []string{"."}); err != nil {
		t.Fatal(err)
	}
	url, client := launch(t, filepath.Join(dir, "grpc")), callers(t)
	denied := false
	for i := 0; i < 1000 && !denied; i++ { // more than the limit in the minutes that this takes
		denied = call(t.Context(), t, client, url, "Greet") == "8"
	}
	if !denied {
		t.Fatal("1000 calls: none is denied")
	}
	for _, service := range []string{"", "greet.v1.Greeter"} {
		message := frame(0, append([]byte{1<<3 | 2, byte(len(service))}, service...))
		for range 10 {
			code, text := callWith(t, client, url+"/grpc.health.v1.Health/Check", message)
			if code != "0" {
				t.Fatalf("the check of %q: grpc-status %s, %q", service, code, text)
			}
		}
	}
}

// frame returns a message as gRPC sends it.
func frame(compressed byte, message []byte) []byte {
	return append(binary.BigEndian.AppendUint32([]byte{compressed}, uint32(len(message))), message...)
}

func zipped(t *testing.T, data []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := w.Write(data); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// callWith calls the method at url with a message, and returns the status and its text.
func callWith(t *testing.T, client *http.Client, url string, message []byte) (code, text string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), "POST", url, bytes.NewReader(message))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/grpc")
	r.Header.Set("TE", "trailers")
	if message[0] == 1 {
		r.Header.Set("Grpc-Encoding", "gzip")
	}
	response, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if _, err := io.Copy(io.Discard, response.Body); err != nil {
		t.Fatal(err)
	}
	at := response.Trailer
	if response.Header.Get("Grpc-Status") != "" {
		at = response.Header
	}
	return at.Get("Grpc-Status"), at.Get("Grpc-Message")
}
