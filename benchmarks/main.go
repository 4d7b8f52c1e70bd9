// Command benchmarks compares weir with other rate limiters, in one run on one machine, and prints
// Markdown tables. See README.md; run.sh builds and runs it.
package main

import (
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"time"
)

// group is one set of tables.
type group struct {
	name   string
	report func(rounds int) error
	child  func(contestant string) // in a process of its own
	alone  bool                    // not part of all
}

func groups() []group {
	return []group{
		{"decision", reportDecision, workDecision, false},
		{"memory", reportMemory, childMemory, false},
		{"sizes", reportSizes, childSizes, false},
		{"flood", reportFlood, childFlood, false},
		{"http", reportHTTP, workHTTP, false},
		{"frameworks", reportFrameworks, workFrameworks, false},
		{"redis", reportRedis, nil, false},
		{"lifecycle", reportLifecycle, workLifecycle, false},
		{"lease", reportLease, nil, false},
		{"instances", reportInstances, workInstance, false},
		{"failover", reportFailover, nil, true},
		{"silent", reportSilent, nil, true},
		{"rights", reportRights, nil, true},
		{"client", reportClient, workClient, false},
		{"shed", reportShed, workShed, false},
		{"graph", reportGraph, workGraph, false},
		{"shedreal", reportShedReal, workShedReal, false},
		{"shedmixed", reportShedMixed, nil, false},
		{"cost", reportCost, nil, true},
	}
}

const usage = "usage: benchmarks " +
	"[all|decision|memory|sizes|flood|http|frameworks|redis|lifecycle|lease|instances|" +
	"failover|silent|rights|client|shed|graph|shedreal|shedmixed|cost] [rounds]"

func main() {
	args := append(os.Args[1:], "", "")
	if args[0] == "child" && len(os.Args) == 4 {
		child(args[1], args[2])
		return
	}
	if err := run(args[0], args[1]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func child(name, contestant string) {
	for _, g := range groups() {
		if g.name == name {
			g.child(contestant)
			return
		}
	}
	panic("no group " + name)
}

func run(name, rounds string) error {
	n := 6
	if rounds != "" {
		var err error
		if n, err = strconv.Atoi(rounds); err != nil || n < 1 {
			return fmt.Errorf("rounds must be a positive number (got %q)\n%s", rounds, usage)
		}
	}
	known := name == "" || name == "all"
	for _, g := range groups() {
		known = known || g.name == name
	}
	if !known {
		return fmt.Errorf("no group %q\n%s", name, usage)
	}
	printMachine()
	start := time.Now()
	for _, g := range groups() {
		if (name == "" || name == "all") && !g.alone || g.name == name {
			if err := g.report(n); err != nil {
				return err
			}
		}
	}
	fmt.Printf("Took %v.\n", time.Since(start).Round(time.Second))
	return nil
}

// printMachine prints what the figures depend on: processor, Go, and the versions of the peers, as
// built into this program.
func printMachine() {
	fmt.Printf("%s, %d of %d processors (%s), %s %s/%s\n\n", time.Now().Format(time.DateOnly),
		runtime.GOMAXPROCS(0), runtime.NumCPU(), processor(), runtime.Version(), runtime.GOOS,
		runtime.GOARCH)
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return
	}
	var versions []string
	for _, dep := range info.Deps {
		for _, peer := range []string{
			"go-limiter", "throttled/v2", "httprate", "ulule/limiter", "tollbooth", "go-chi/chi",
			"gin-gonic/gin", "labstack/echo", "gin-rate-limit", "x/time", "redis_rate",
			"redis/go-redis", "x/sync", "failsafe-go", "go-github-ratelimit", "go-retryablehttp",
		} {
			if strings.Contains(dep.Path, peer) {
				versions = append(versions, dep.Path+" "+dep.Version)
			}
		}
	}
	fmt.Printf("%s\n\n", strings.Join(versions, ", "))
}

func processor() string {
	text, _ := os.ReadFile("/proc/cpuinfo")
	for line := range strings.Lines(string(text)) {
		if name, value, ok := strings.Cut(line, ":"); ok &&
			strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return "unknown"
}
