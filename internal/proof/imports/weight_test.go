package imports

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/weir-go/weir/internal/proof/testrun"
)

// mostAdded is how many bytes weir may add to a server of net/http that logs by log/slog, stripped, as
// Go builds it for linux/amd64; withSlog is how many it may add to one that does not, by the release
// of Go: log/slog and what it imports are 0.28 MB of Go 1.26, and 0.85 of Go 1.27. If a change
// adds more without a reason that users have, `go build
// -ldflags=-dumpdep` says what keeps it. Common ones: methods of a value, which are linked for the
// pointer too; generics over structs, compiled once for each; errors.As, which needs reflection;
// interfaces whose methods every type must keep.
const mostAdded = 930_000 // rows of algorithms, lists of families and bans that grow added 90 kB

func withSlog() int64 {
	if strings.HasPrefix(runtime.Version(), "go1.26") {
		return 1_210_000
	}
	return 1_760_000 // units that are lent added 5 kB of scripts and what reads them
}

const hello = `package main

import (
	"fmt"
	"log"
	"net/http"
%s)

func main() {
	%s
	mux := http.NewServeMux()
	mux.HandleFunc("GET /", func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintln(w, "Hello, here is your answer.")
	})
	log.Fatal(http.ListenAndServe(":8080", %s))
}
`

const helloLimiter = `nethttp.MustNew(nethttp.Config{
		Rules: []nethttp.Rule{{
			Name:  "per-client",
			Limit: limits.SlidingWindow(limits.PerMinute(10)),
			Key:   keyfuncs.Address(keyfuncs.Peer),
		}},
	}).Handler(mux)`

func TestWhatWeirAddsToAServer(t *testing.T) {
	testrun.FullOnly(t, "compiles two servers")
	if runtime.GOOS != "linux" || runtime.GOARCH != "amd64" {
		t.Skip("the limit is for linux/amd64")
	}
	testrun.DependsOnSource(t, "../../..")
	root, err := filepath.Abs("../../..")
	if err != nil {
		t.Fatal(err)
	}
	imported := ""
	for _, path := range []string{"keyfuncs", "limits", "nethttp"} {
		imported += fmt.Sprintf("\n\t%q", module+"/"+path)
	}
	plain := "module hello\n\ngo 1.26.0\n"
	without := sizeOf(t, plain, fmt.Sprintf(hello, "", "", "mux"))
	logging := sizeOf(t, plain, fmt.Sprintf(hello, "\n\t\"log/slog\"\n", `slog.Info("it begins")`, "mux"))
	with := sizeOf(t, plain+"\nrequire "+module+" v0.0.0\n\nreplace "+module+" => "+root+"\n",
		fmt.Sprintf(hello, imported+"\n", "", helloLimiter))
	for _, added := range []struct{ bytes, most int64 }{{with - without, withSlog()}, {with - logging, mostAdded}} {
		if t.Logf("%d bytes", added.bytes); added.bytes > added.most || added.bytes < added.most/2 {
			t.Errorf("weir adds %d bytes to a server, want at most %d, and at least half of that", added.bytes, added.most)
		}
	}
}

// sizeOf returns the size of a program.
func sizeOf(t *testing.T, gomod, main string) int64 {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{"go.mod": gomod, "main.go": main} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	build := command(t, dir, "build", "-mod=mod", "-ldflags=-s -w", "-o", "program", ".")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	info, err := os.Stat(filepath.Join(dir, "program"))
	if err != nil {
		t.Fatal(err)
	}
	return info.Size()
}
