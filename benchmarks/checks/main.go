// Checks measures the checks that weir serve answers over HTTP:
//
//	go run ./checks nginx     # beside nginx's own limit_req
//	go run ./checks memory    # what a million keys take
//
// Both run this repository's command as it is published, or those that -weir names, so that two
// builds of it can be compared in one run. Contenders take turns.
package main

import (
	"errors"
	"flag"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

var (
	weir      = flag.String("weir", "", "built `commands`, separated by commas; \"\": this repository's is built")
	rounds    = flag.Int("rounds", 25, "how many `rounds`")
	lasting   = flag.Duration("for", 100*time.Millisecond, "nginx: how long each `measurement` lasts")
	keepalive = flag.Int("keepalive", 0, "nginx: how many idle `connections` it keeps to a check; 0: as the guide has it")
	keys      = flag.Int("keys", 1_000_000, "memory: how many `keys`")
)

func main() {
	log.SetFlags(0)
	flag.Usage = func() {
		fmt.Fprintln(flag.CommandLine.Output(), "usage: checks [flags] nginx|memory")
		flag.PrintDefaults()
	}
	flag.Parse()
	var err error
	switch flag.Arg(0) {
	case "nginx":
		err = beside(*rounds)
	case "memory":
		err = remember(*rounds)
	case "floor":
		serveFloor()
	default:
		flag.Usage()
		os.Exit(2)
	}
	if err != nil {
		log.Fatal(err)
	}
}

// serveFloor is a process of its own: a server that answers 204 at once.
func serveFloor() {
	log.Fatal(http.ListenAndServe(flag.Arg(1), http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusNoContent)
	})))
}

// bench is a folder, and the processes that run in it.
type bench struct {
	dir       string
	processes []*exec.Cmd
}

func newBench() (*bench, error) {
	dir, err := os.MkdirTemp("", "checks")
	return &bench{dir: dir}, err
}

// end ends the processes, the last one first.
func (b *bench) end() {
	for i := len(b.processes) - 1; i >= 0; i-- {
		b.processes[i].Process.Signal(os.Interrupt)
		b.processes[i].Wait()
	}
	os.RemoveAll(b.dir)
}

// write writes a file, and returns its path.
func (b *bench) write(name, text string) (string, error) {
	path := filepath.Join(b.dir, name)
	return path, os.WriteFile(path, []byte(text), 0o644)
}

// start starts a server, and waits until it listens.
func (b *bench) start(network, address, name string, args ...string) (*process, error) {
	cmd := exec.Command(name, args...)
	cmd.Dir = b.dir
	var said strings.Builder
	cmd.Stderr = &said
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	b.processes = append(b.processes, cmd)
	for range 500 {
		if conn, err := net.Dial(network, address); err == nil {
			return &process{cmd.Process.Pid}, conn.Close()
		}
		time.Sleep(20 * time.Millisecond)
	}
	return nil, fmt.Errorf("%s does not listen on %s: %s", name, address, &said)
}

// policy has one limit that no request reaches.
const policy = `version: 1
paths: any-server
client: {peer: true}
rules:
  - {name: per-client, key: address, limit: sliding-window 1000000/hour}
`

// commands returns the commands to measure.
func (b *bench) commands() ([]string, error) {
	if *weir != "" {
		var all []string
		for path := range strings.SplitSeq(*weir, ",") {
			path, err := filepath.Abs(path)
			if err != nil {
				return nil, err
			}
			all = append(all, path)
		}
		return all, nil
	}
	path := filepath.Join(b.dir, "weir")
	build := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", path, ".")
	build.Dir, build.Env = filepath.Join("..", "cmd", "weir"), append(os.Environ(), "CGO_ENABLED=0")
	if said, err := build.CombinedOutput(); err != nil {
		return nil, errors.New(string(said))
	}
	return []string{path}, nil
}

// process is a running server.
type process struct{ pid int }

// used returns the processor time of p, as Linux counts it.
func (p *process) used() (all time.Duration) {
	threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", p.pid))
	for _, name := range threads {
		text, _ := os.ReadFile(name) // a thread may have ended
		first, _, _ := strings.Cut(string(text), " ")
		n, _ := strconv.Atoi(first)
		all += time.Duration(n)
	}
	return all
}

// resident returns a line of the memory of p, such as VmRSS, in MiB.
func (p *process) resident(name string) float64 {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.pid))
	_, rest, _ := strings.Cut(string(text), "\n"+name+":")
	fields := strings.Fields(rest)
	if len(fields) == 0 {
		return 0
	}
	n, _ := strconv.Atoi(fields[0])
	return float64(n) / 1024
}
