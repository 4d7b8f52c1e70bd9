//go:build unix

package simulate_test

import (
	"context"
	"flag"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/weir-go/weir/cmd/weir/internal/simulate"
)

var lines = flag.Int("lines", 1_000_000, "lines of the log of BenchmarkMillionClients")

// BenchmarkMillionClients simulates one rule over one combined log, whose clients are a tenth
// of its lines. The target is ten million lines in 30 seconds and 300 MB:
//
//	GOMAXPROCS=2 go test -run '^$' -bench MillionClients -benchtime 1x ./internal/simulate -lines 10000000
func BenchmarkMillionClients(b *testing.B) {
	name := filepath.Join(b.TempDir(), "access.log")
	f, err := os.Create(name)
	if err != nil {
		b.Fatal(err)
	}
	generate(f, *lines, *lines/10, 1)
	f.Close()
	runtime.GC()
	for b.Loop() {
		p, err := simulate.OneLimit("60/minute", "address", "", nil)
		if err != nil {
			b.Fatal(err)
		}
		begun, used := time.Now(), processorTime()
		r, err := simulate.Do(context.Background(), simulate.Options{Logs: []string{name}, Policy: p})
		if err != nil {
			b.Fatal(err)
		}
		if r.Requests != int64(*lines) {
			b.Fatalf("got %d requests", r.Requests)
		}
		b.ReportMetric(time.Since(begun).Seconds()/float64(*lines)*1e9, "ns/line")
		b.ReportMetric((processorTime()-used).Seconds()/float64(*lines)*1e9, "cpu-ns/line")
		b.ReportMetric(float64(r.Clients), "clients")
	}
	b.ReportMetric(peakMemory(), "peak-MB")
}

// peakMemory returns the most memory that the process has had, in megabytes, 0 where the
// system does not say.
func peakMemory() float64 {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(status)) {
		if len(line) > 9 && line[:6] == "VmHWM:" {
			digits := ""
			for _, c := range line {
				if c >= '0' && c <= '9' {
					digits += string(c)
				}
			}
			kb, _ := strconv.ParseFloat(digits, 64)
			return kb / 1024
		}
	}
	return 0
}

// processorTime returns the processor time of the process so far.
func processorTime() time.Duration {
	var usage syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &usage) != nil {
		return 0
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
