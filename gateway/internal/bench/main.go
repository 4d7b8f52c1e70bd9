// Bench compares the rate limit service of weir with envoyproxy/ratelimit, and with a server that
// decides nothing:
//
//	go run ./internal/bench -original /path/to/ratelimit -weir weir=/path/to/weir
//
// It starts redis-server and Envoy from the PATH, and each server as a process of its own. Rounds
// are interleaved. The tables have the median of the rounds, and of the ratios to the original in
// the same round, with their quartiles. The processor time of all is that of the server, the
// client, Envoy and Redis: on a machine that others use, too, it says more than what was done in a
// second. -rows chooses among the tables:
//
//	calls    calls of gRPC whose limits are never reached
//	denied   calls for 1,000 keys that are over their limit; the original has its local cache
//	envoy    requests of HTTP/1.1 through one Envoy, whose limits are never reached
//	busy     the same with two busy loops beside it
//
// The servers "nothing" and "memory" are this program: what gRPC itself costs, and the service
// without Redis. Through Envoy "nothing" is the floor of any service, and "no limit" is Envoy without
// the filter.
package main

import (
	"flag"
	"fmt"
	"log"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

var (
	original = flag.String("original", "",
		"the `program` of envoyproxy/ratelimit; \"\": it is left out")
	weirs   = flag.String("weir", "", "programs of weir, as `name=path`, separated by commas")
	rows    = flag.String("rows", "calls,denied,envoy,busy", "which `tables`")
	rounds  = flag.Int("rounds", 5, "how many `rounds`")
	lasting = flag.Duration("for", time.Second, "how long each `measurement` lasts")
	many    = flag.String("at", "1,16,128", "how many are `at` once; through Envoy at most 64")
	as      = flag.String("as", "", "what this process does; set by the program itself")
)

func main() {
	log.SetFlags(0)
	flag.Parse()
	if *as != "" {
		serve(*as)
		return
	}
	defer end()
	redis := startRedis()
	for row := range strings.SplitSeq(*rows, ",") {
		switch row {
		case "calls":
			all := append([]*server{startSelf("nothing"), startSelf("memory")}, startAll(redis, 0)...)
			for _, n := range []int{1, 2} {
				names := []string{"tenant", "path"}[:n]
				compare(fmt.Sprintf("calls, %d descriptors", n), all, 128, callers(names, 0))
			}
		case "denied":
			all := append([]*server{startSelf("nothing"), startSelf("memory")}, startAll(redis, 100<<20)...)
			compare("denied", all, 128, callers([]string{"denied"}, 1000))
		case "envoy", "busy":
			all := startEnvoy(append([]*server{startSelf("nothing")}, startAll(redis, 0)...))
			if row == "busy" {
				startSelf("busy")
				startSelf("busy")
			}
			compare(row, all, 64, clients())
		default:
			fail("-rows: there is no table %q", row)
		}
		end(redis)
	}
}

// fail ends this program, and the servers that it has started.
func fail(format string, arguments ...any) {
	log.Printf(format, arguments...)
	end()
	os.Exit(1)
}

// measurement is what a round has come to.
type measurement struct {
	perSecond, cpu float64 // decisions; microseconds a decision, of the server
	all            float64 // and of all programs together
	half, most     time.Duration
}

// load sends requests from so many callers at once to a server, and returns how long each waited.
type load func(s *server, at int) []time.Duration

func compare(title string, all []*server, most int, send load) {
	peer := slices.IndexFunc(all, func(s *server) bool { return s.name == "original" })
	fmt.Printf("\n| %s: at once | server | a second | p50 ms | p99 ms "+
		"| server µs each | all µs each | a second, of the original's | p99 of it | all µs of it |\n"+
		"|--:|---|--:|--:|--:|--:|--:|--:|--:|--:|\n", title)
	for text := range strings.SplitSeq(*many, ",") {
		at, err := strconv.Atoi(text)
		if err != nil {
			fail("-at: %v", err)
		}
		at = min(at, most)
		results := make([][]measurement, len(all))
		for range *rounds {
			for i, s := range all {
				results[i] = append(results[i], measure(s, at, send))
			}
		}
		for i, s := range all {
			of := func(f func(m measurement) float64) float64 {
				var values []float64
				for _, m := range results[i] {
					values = append(values, f(m))
				}
				return median(values)
			}
			beside := func(f func(m measurement) float64) string {
				if peer < 0 {
					return ""
				}
				var values []float64
				for j, m := range results[i] {
					values = append(values, f(m)/f(results[peer][j]))
				}
				slices.Sort(values)
				return fmt.Sprintf("%.2f (%.2f to %.2f)", median(values),
					values[len(values)/4], values[len(values)*3/4])
			}
			perSecond := func(m measurement) float64 { return m.perSecond }
			most := func(m measurement) float64 { return m.most.Seconds() }
			every := func(m measurement) float64 { return m.all }
			fmt.Printf("| %d | %s | %.0f | %.2f | %.2f | %.1f | %.1f | %s | %s | %s |\n",
				at, s.name, of(perSecond),
				1000*of(func(m measurement) float64 { return m.half.Seconds() }), 1000*of(most),
				of(func(m measurement) float64 { return m.cpu }), of(every),
				beside(perSecond), beside(most), beside(every))
		}
	}
}

func median(values []float64) float64 {
	values = slices.Sorted(slices.Values(values))
	return values[len(values)/2]
}

func measure(s *server, at int, send load) measurement {
	before, allBefore, begun := s.used(), usedByAll(), time.Now()
	waits := send(s, at)
	took, used, all := time.Since(begun), s.used()-before, usedByAll()-allBefore
	slices.Sort(waits)
	n := len(waits)
	return measurement{
		perSecond: float64(n) / took.Seconds(), cpu: float64(used.Microseconds()) / float64(n),
		all:  float64(all.Microseconds()) / float64(n),
		half: waits[n/2], most: waits[n*99/100],
	}
}
