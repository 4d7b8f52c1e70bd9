package simulate_test

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/cmd/weir/internal/simulate"
	"github.com/weir-go/weir/internal/proof/testrun"
)

// write writes a log into a directory of the test, and returns its name.
func write(t testing.TB, name string, text []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func oneLimit(t testing.TB, limit, key string) *simulate.Policy {
	t.Helper()
	p, err := simulate.OneLimit(limit, key, "", nil)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func do(t testing.TB, o simulate.Options) *simulate.Report {
	t.Helper()
	r, err := simulate.Do(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// hit is a request as the slow models below see it.
type hit struct {
	at     int64 // seconds
	client int
}

// line returns a hit as a line in the combined format.
func (h hit) line() string {
	return fmt.Sprintf("192.0.2.%d - - [%s] \"GET /a HTTP/1.1\" 200 5 \"-\" \"-\"\n", h.client,
		time.Unix(h.at, 0).UTC().Format("02/Jan/2006:15:04:05 -0700"))
}

// traffic returns random hits in the order of time, in bursts.
func traffic(random *rand.Rand, n int) (hits []hit) {
	at := int64(1_763_600_000)
	for range n {
		if random.IntN(3) == 0 {
			at += int64(random.IntN(20))
		}
		hits = append(hits, hit{at, random.IntN(5)})
	}
	return hits
}

// stamps returns when hits arrive in microseconds, in both readings of whole seconds.
func stamps(hits []hit, spread bool) []int64 {
	perSecond := make(map[int64]int64)
	for _, h := range hits {
		perSecond[h.at]++
	}
	seen := make(map[int64]int64)
	result := make([]int64, len(hits))
	for i, h := range hits {
		result[i] = h.at * 1_000_000
		if spread {
			result[i] += seen[h.at] * 1_000_000 / perSecond[h.at]
			seen[h.at]++
		}
	}
	return result
}

// The slow models are the definitions of two algorithms: 7 requests in a window of 60 s.
const (
	units  = 7
	period = 60_000_000
)

func fixedWindow(allowed []int64, at int64) bool {
	n := 0
	for _, a := range allowed {
		if a/period == at/period {
			n++
		}
	}
	return n < units
}

func slidingLog(allowed []int64, at int64) bool {
	n := 0
	for _, a := range allowed {
		if at < a+period {
			n++
		}
	}
	return n < units
}

// denials counts what a model denies: all, and the clients.
func denials(hits []hit, at []int64, fits func([]int64, int64) bool) (denied int64, clients int64) {
	allowed := make(map[int][]int64)
	hitClients := make(map[int]bool)
	for i, h := range hits {
		if fits(allowed[h.client], at[i]) {
			allowed[h.client] = append(allowed[h.client], at[i])
			continue
		}
		denied++
		hitClients[h.client] = true
	}
	return denied, int64(len(hitClients))
}

func TestASimulationEqualsASlowReplayOfTheDefinition(t *testing.T) {
	random := testrun.Random(t)
	for round := range 20 {
		hits := traffic(random, 400)
		var sorted, mixed bytes.Buffer
		for _, h := range hits {
			sorted.WriteString(h.line())
		}
		// The same log, in which lines are late by less than the window.
		late := slices.Clone(hits)
		for i := range late {
			if j := i + random.IntN(4); j < len(late) && late[j].at != late[i].at && late[j].at-late[i].at < 60 {
				late[i], late[j] = late[j], late[i]
			}
		}
		for _, h := range late {
			mixed.WriteString(h.line())
		}
		for limit, model := range map[string]func([]int64, int64) bool{
			"fixed-window 7/minute": fixedWindow, "sliding-log 7/minute": slidingLog,
		} {
			early, earlyClients := denials(hits, stamps(hits, false), model)
			even, evenClients := denials(hits, stamps(hits, true), model)
			r := do(t, simulate.Options{
				Logs: []string{write(t, "access.log", sorted.Bytes())}, Policy: oneLimit(t, limit, "address"),
			})
			want := simulate.Range{Low: min(early, even), High: max(early, even)}
			clients := simulate.Range{Low: min(earlyClients, evenClients), High: max(earlyClients, evenClients)}
			if r.Policy.Denied != want || r.Policy.Clients != clients || r.Requests != 400 {
				t.Errorf("round %d, %s: denied %v to %v clients, want %v to %v", round, limit, r.Policy.Denied,
					r.Policy.Clients, want, clients)
			}
			r = do(t, simulate.Options{
				Logs: []string{write(t, "access.log", mixed.Bytes())}, Policy: oneLimit(t, limit, "address"),
			})
			if r.Late != 0 || r.ClockJumps != 0 || limit[0] == 'f' && r.Policy.Denied != want {
				t.Errorf("round %d, %s, lines out of order: denied %v, want %v; %d late, %d jumps", round, limit,
					r.Policy.Denied, want, r.Late, r.ClockJumps)
			}
		}
	}
}

// A log of 2,000 requests a second, some of which are late by 100 seconds.
func TestLinesOfABusyLogMayBeAsLateAsThoseOfOthers(t *testing.T) {
	const n, perSecond = 260_000, 2_000
	var b bytes.Buffer
	for i := range n {
		at := int64(1_763_640_000 + i/perSecond)
		if i%10 == 0 {
			at -= 100
		}
		b.WriteString(hit{at, i % 100}.line())
	}
	r := do(t, simulate.Options{
		Logs: []string{write(t, "access.log", b.Bytes())}, Policy: oneLimit(t, "fixed-window 7/minute", "address"),
	})
	if r.Late != 0 || r.ClockJumps != 0 || r.Requests != n {
		t.Errorf("%d late, %d jumps, %d requests", r.Late, r.ClockJumps, r.Requests)
	}
}

func TestSeveralLogsAreMergedByTime(t *testing.T) {
	hits := traffic(testrun.Random(t), 600)
	var whole bytes.Buffer
	parts := make([]bytes.Buffer, 3)
	for i, h := range hits {
		whole.WriteString(h.line())
		parts[i/300+i%2].WriteString(h.line()) // two that overlap, and one
	}
	one := do(t, simulate.Options{
		Logs: []string{write(t, "access.log", whole.Bytes())}, Policy: oneLimit(t, "fixed-window 7/minute", "address"),
	})
	several := do(t, simulate.Options{
		Logs: []string{
			write(t, "b", parts[2].Bytes()), write(t, "c", parts[1].Bytes()), write(t, "a", parts[0].Bytes()),
		},
		Policy: oneLimit(t, "fixed-window 7/minute", "address"),
	})
	if one.Policy.Denied != several.Policy.Denied || several.Late > 0 || several.ClockJumps > 0 {
		t.Errorf("one log: denied %v, several: %v; %d late, %d jumps", one.Policy.Denied, several.Policy.Denied,
			several.Late, several.ClockJumps)
	}
	stdin := do(t, simulate.Options{
		Logs: []string{"-"}, Stdin: bytes.NewReader(whole.Bytes()),
		Policy: oneLimit(t, "fixed-window 7/minute", "address"),
	})
	if one.Policy.Denied != stdin.Policy.Denied {
		t.Errorf("a file: denied %v, standard input: %v", one.Policy.Denied, stdin.Policy.Denied)
	}
}

func TestClocksThatJumpAreCounted(t *testing.T) {
	const noon = int64(1_763_640_000)
	var b strings.Builder
	add := func(from int64, n int) {
		for i := range n {
			b.WriteString(hit{from + int64(i), 1}.line())
		}
	}
	add(noon, 100)
	add(noon+365*86400, 1) // one line from a clock that is a year ahead
	add(noon+100, 100)
	add(noon+8*3600, 100) // a quiet time is no jump
	add(noon-86400, 200)  // the clock is set back
	add(noon-7*86400, 3)  // three lines from long ago
	add(noon-86400+200, 10)
	r := do(t, simulate.Options{
		Logs: []string{write(t, "access.log", []byte(b.String()))}, Policy: oneLimit(t, "1000/minute", "address"),
	})
	if r.ClockJumps != 2 || r.Late != 31+3 || r.Requests != 514 {
		t.Errorf("%d jumps, %d late, %d requests; want 2, 34, 514", r.ClockJumps, r.Late, r.Requests)
	}
}

func TestOneWrongClockDoesNotKeepLogsFromBeingMerged(t *testing.T) {
	const noon = int64(1_763_640_000)
	var one, other strings.Builder
	for i := range int64(300) {
		one.WriteString(hit{noon + i, 1}.line())
		if i == 10 {
			one.WriteString(hit{noon + 365*86400, 1}.line())
		}
		other.WriteString(hit{noon + i, 1}.line())
	}
	r := do(t, simulate.Options{
		Logs:   []string{write(t, "a", []byte(one.String())), write(t, "b", []byte(other.String()))},
		Policy: oneLimit(t, "fixed-window 100/minute", "address"),
	})
	if r.ClockJumps != 1 || r.Late != 0 || r.To.Unix() != noon+299 || r.Policy.Denied.High != 601-500 {
		t.Errorf("%d jumps, %d late, until %v, denied %v", r.ClockJumps, r.Late, r.To, r.Policy.Denied)
	}
}
