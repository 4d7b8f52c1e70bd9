package main

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/weir-go/weir/benchmarks/table"
	"github.com/weir-go/weir/shed"
)

const (
	realBusy    = 2                    // concurrent requests that determine the capacity
	realService = 5 * time.Millisecond // processor time of a request
	realSLO     = 250 * time.Millisecond
	realStretch = 10 * time.Second // duration of each load
)

// inHandler ends the names of servers whose handlers do the work themselves, without a pause. Other
// handlers pass the work to a worker and wait, as for a database.
const inHandler = ", work in the handler"

// reportShedReal prints one run on real processors: a server with one processor, and a generator
// with the others. There are no targets: the figures depend on this machine at this moment.
func reportShedReal(int) error {
	fmt.Printf("## shedreal: %v of a processor for each request, one processor\n\n"+
		"Poisson arrivals for %v of each load, latencies from the intended start, SLO %v. The "+
		"capacity is what the server does at full load, one after the other.\n\n",
		realService, realStretch, realSLO)
	t := table.Table{Heads: []string{"goodput ÷ capacity, by load"}}
	loads := []float64{0.5, 0.8, 1, 1.5, 3}
	for _, load := range loads {
		t.Heads = append(t.Heads, fmt.Sprintf("%g", load), "p99, ms", "shed")
	}
	for _, name := range []string{"nothing", "weir", "nothing" + inHandler, "weir" + inHandler} {
		server, address, err := startReal(name)
		if err != nil {
			return err
		}
		client := &http.Client{
			Transport: &http.Transport{MaxIdleConnsPerHost: 1000}, Timeout: 2 * time.Second,
		}
		capacity := fullSpeed(client, address)
		row := []string{fmt.Sprintf("%s, capacity %.0f a second", name, capacity)}
		for _, load := range loads {
			x := offer(client, address, load*capacity)
			row = append(row, fmt.Sprintf("%.3f", float64(x.good)/realStretch.Seconds()/capacity),
				table.Number(x.p99()), percent(float64(x.shed)/float64(max(1, x.offered))))
			time.Sleep(2 * time.Second)
		}
		t.Add(row...)
		server.Process.Kill()
		server.Wait()
	}
	t.Print(os.Stdout)
	return nil
}

// startReal starts a server as a process with one processor, and returns its address.
func startReal(name string) (*exec.Cmd, string, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, "", err
	}
	server := exec.Command(self, "child", "shedreal", name)
	server.Env = append(os.Environ(), "GOMAXPROCS=1")
	server.Stderr = os.Stderr
	out, err := server.StdoutPipe()
	if err != nil {
		return nil, "", err
	}
	if err := server.Start(); err != nil {
		return nil, "", err
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		return nil, "", fmt.Errorf("shedreal: the server did not start: %w", err)
	}
	return server, "http://" + line[:len(line)-1], nil
}

// workShedReal runs the server.
func workShedReal(name string) {
	name, own := strings.CutSuffix(name, inHandler)
	work := jobOf(calibrate(), own)
	var handler http.Handler = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		work()
		w.WriteHeader(http.StatusNoContent)
	})
	if name == "weir" {
		handler = shed.Handler(shed.MustNew(shed.Options[*http.Request]{}), handler)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fail("shedreal: %v", err)
	}
	fmt.Println(listener.Addr())
	fail("shedreal: %v", http.Serve(listener, handler))
}

// jobOf returns the job of a handler: it does the work, or waits until the worker has done it.
func jobOf(rounds int, own bool) func() {
	if own {
		return func() { burn(rounds) }
	}
	jobs := make(chan chan struct{})
	go func() {
		for done := range jobs {
			burn(rounds)
			close(done)
		}
	}()
	return func() {
		done := make(chan struct{})
		jobs <- done
		<-done
	}
}

func burn(rounds int) {
	x := uint64(1)
	for range rounds {
		x = x*6364136223846793005 + 1442695040888963407
	}
	runtime.KeepAlive(x)
}

// calibrate returns how many rounds take realService, from the fastest of many tries, since other
// processes may use the processor.
func calibrate() int {
	const rounds = 500_000
	fastest := time.Hour
	for range 100 {
		start := time.Now()
		burn(rounds)
		fastest = min(fastest, time.Since(start))
	}
	return int(float64(rounds) * float64(realService) / float64(fastest))
}

// fullSpeed returns the requests per second with realBusy concurrent requests.
func fullSpeed(client *http.Client, address string) float64 {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
	defer cancel()
	var mu sync.Mutex
	var done sync.WaitGroup
	n := 0
	for range realBusy {
		done.Go(func() {
			for ctx.Err() == nil {
				if response, err := client.Get(address); err == nil {
					response.Body.Close()
					mu.Lock()
					n++
					mu.Unlock()
				}
			}
		})
	}
	done.Wait()
	return float64(n) / 3
}

// tally counts the requests of one load by result.
type tally struct {
	mu                  sync.Mutex
	offered, good, shed int
	latencies           []time.Duration
}

func (x *tally) p99() float64 {
	if len(x.latencies) == 0 {
		return 0
	}
	slices.Sort(x.latencies)
	return float64(x.latencies[len(x.latencies)*99/100].Milliseconds())
}

// offer sends requests at random times, regardless of earlier answers.
func offer(client *http.Client, address string, rate float64) *tally {
	x := new(tally)
	random := rand.New(rand.NewPCG(1, 1))
	var done sync.WaitGroup
	start := time.Now()
	gap := func() time.Duration { return time.Duration(random.ExpFloat64() / rate * float64(time.Second)) }
	for at := time.Duration(0); at < realStretch; at += gap() {
		intended := start.Add(at)
		time.Sleep(time.Until(intended))
		x.offered++
		done.Go(func() {
			response, err := client.Get(address)
			took := time.Since(intended)
			x.mu.Lock()
			defer x.mu.Unlock()
			switch {
			case err != nil:
			case response.StatusCode == http.StatusServiceUnavailable:
				x.shed++
			default:
				x.latencies = append(x.latencies, took)
				if took <= realSLO {
					x.good++
				}
			}
			if err == nil {
				response.Body.Close()
			}
		})
	}
	done.Wait()
	return x
}
