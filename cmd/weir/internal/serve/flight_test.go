package serve

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-go/weir/internal/proof/freeport"
	"github.com/weir-go/weir/internal/proof/testrun"
)

// airport is weir, Envoys in front of it, and a program that counts what is in flight, set up as
// examples/envoy/flight says.
type airport struct {
	t      *testing.T
	path   string // of Envoy
	weirs  []*running
	envoys []*system
	kills  []func()
	now    atomic.Int64 // in flight
	peak   atomic.Int64
	took   atomic.Int64 // by status: 200
	denied atomic.Int64
	failed atomic.Int64
}

const flightLimit = 5

// newAirport starts everything, with a hold time of its own.
func newAirport(t *testing.T, hold string, weirs, envoys int, redis string) *airport {
	t.Helper()
	a := &airport{t: t, path: testrun.Program(t, "envoy")}
	limits := example(t, "flight/limits.yaml", "concurrent 20", fmt.Sprint("concurrent ", flightLimit),
		"hold_time: 10m", "hold_time: "+hold)
	dir := t.TempDir()
	file := filepath.Join(dir, "limits.yaml")
	if err := os.WriteFile(file, []byte(limits), 0o644); err != nil {
		t.Fatal(err)
	}
	for range weirs {
		config := Config{Paths: []string{file}, Drain: time.Second, Redis: redis, Budget: time.Minute}
		a.weirs = append(a.weirs, start(t, config))
	}
	app := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n := a.now.Add(1)
		defer a.now.Add(-1)
		for p := a.peak.Load(); n > p && !a.peak.CompareAndSwap(p, n); p = a.peak.Load() {
		}
		select {
		case <-r.Context().Done(): // its Envoy was killed
		case <-time.After(3 * time.Millisecond):
		}
		fmt.Fprintln(w, r.Header.Get("X-Request-Id"))
	}))
	t.Cleanup(app.Close)
	for range envoys {
		address, err := freeport.Address()
		if err != nil {
			t.Fatal(err)
		}
		s := &system{t: t, dir: t.TempDir(), url: "http://" + address}
		text := example(t, "flight/envoy.yaml", "port_value: 8000", "port_value: "+portOf(address),
			"port_value: 9000", "port_value: "+portOf(app.Listener.Addr().String()))
		one := "{endpoint: {address: {socket_address: {address: 127.0.0.1, port_value: 8081}}}}"
		var all []string
		for _, w := range a.weirs {
			all = append(all, strings.Replace(one, "8081", portOf(w.grpc), 1))
		}
		s.write("envoy.yaml", strings.Replace(text, one, strings.Join(all, ", "), 1))
		a.envoys, a.kills = append(a.envoys, s), append(a.kills, nil)
		a.begin(len(a.envoys) - 1)
	}
	return a
}

// begin starts an Envoy.
func (a *airport) begin(i int) {
	a.t.Helper()
	a.kills[i] = a.envoys[i].run(a.path, "-c", "envoy.yaml", "--use-dynamic-base-id", "--concurrency", "2", "-l", "error")
}

func portOf(address string) string { return address[strings.LastIndexByte(address, ':')+1:] }

// example returns a file of examples/envoy with changes.
func example(t *testing.T, name string, changes ...string) string {
	t.Helper()
	text, err := os.ReadFile("../../../../examples/envoy/" + name)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(changes); i += 2 {
		if !strings.Contains(string(text), changes[i]) {
			t.Fatalf("%s has no %q", name, changes[i])
		}
	}
	return strings.NewReplacer(changes...).Replace(string(text))
}

// left asks weir how many units are left.
func (a *airport) left() string {
	a.t.Helper()
	response, err := http.Post("http://"+a.weirs[0].check+"/json", "application/json", strings.NewReader(
		`{"domain": "models", "descriptors": [{"entries": [{"key": "user", "value": "ann"}], "hitsAddend": "0"}]}`))
	if err != nil {
		a.t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		a.t.Fatal(err)
	}
	_, left, _ := strings.Cut(strings.ReplaceAll(string(text), " ", ""), `"limitRemaining":`)
	left, _, _ = strings.Cut(left, ",")
	return strings.TrimRight(left, "}]")
}

// lands waits until nothing is in flight any more.
func (a *airport) lands() {
	a.t.Helper()
	want := fmt.Sprint(flightLimit)
	for end := time.Now().Add(time.Minute); a.left() != want; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			a.t.Fatalf("%q of %s units are left when all have ended", a.left(), want)
		}
	}
	if a.peak.Load() > flightLimit {
		a.t.Errorf("%d of %d requests were in flight at once", a.peak.Load(), flightLimit)
	}
	if a.denied.Load() == 0 {
		a.t.Error("no request was denied: the limit was never reached")
	}
}

// fly sends requests of one user until stop is closed. Every n-th client leaves early, 0: none does.
func (a *airport) fly(stop <-chan struct{}, n int) {
	var group sync.WaitGroup
	for i := range 16 {
		group.Go(func() {
			client := &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: 1}}
			defer client.CloseIdleConnections()
			for k := 0; ; k++ {
				select {
				case <-stop:
					return
				default:
				}
				ctx, leave := context.WithCancel(context.Background())
				if n > 0 && (i+k)%n == 0 {
					time.AfterFunc(time.Duration(k%5)*time.Millisecond, leave)
				}
				a.ask(ctx, client, a.envoys[i%len(a.envoys)].url)
				leave()
			}
		})
	}
	group.Wait()
}

func (a *airport) ask(ctx context.Context, client *http.Client, url string) {
	r, _ := http.NewRequestWithContext(ctx, "GET", url+"/", nil)
	r.Header.Set("X-User", "ann")
	r.Header.Set("X-Request-Id", "mine") // Envoy makes another
	response, err := client.Do(r)
	if err != nil { // it has left, or its Envoy was killed
		a.failed.Add(1)
		return
	}
	defer response.Body.Close()
	body, _ := io.ReadAll(response.Body)
	switch {
	case response.StatusCode == 429:
		a.denied.Add(1)
	case response.StatusCode == 200 && strings.TrimSpace(string(body)) != "mine":
		a.took.Add(1)
	case response.StatusCode == 200:
		a.t.Error("a client has chosen its x-request-id")
	}
}

// atLeast waits for n more of something.
func (a *airport) atLeast(of *atomic.Int64, n int64) {
	for base := of.Load(); of.Load() < base+n && !a.t.Failed(); {
		time.Sleep(time.Millisecond)
	}
}

// flat returns lines without their indentation.
func flat(text string) (all string) {
	for line := range strings.Lines(text) {
		all += strings.TrimLeft(line, " ")
	}
	return all
}

func TestTheGuideShowsTheFilesOfTheExamples(t *testing.T) {
	files := blocks(t)
	for name, file := range map[string]string{
		"flight.yaml": "flight/limits.yaml", "money.yaml": "money/limits/limits.yaml",
		"prices.yaml": "money/limits/prices.yaml", "cost.yaml": "cost/limits.yaml",
	} {
		if shown := files[name]; shown != example(t, file) {
			t.Errorf("%s: the guide shows\n%s", name, shown)
		}
	}
	for name, file := range map[string]string{
		"route.yaml": "flight/envoy.yaml", "cost-route.yaml": "cost/envoy.yaml", "cost-filters.yaml": "cost/envoy.yaml",
	} {
		_, part, _ := strings.Cut(files[name], "\n")
		if shown := flat(part); shown == "" || !strings.Contains(flat(example(t, file)), shown) {
			t.Errorf("%s: the guide shows\n%s", name, shown)
		}
	}
}

func TestARealEnvoyTellsTheEndOfEachRequest(t *testing.T) {
	a := newAirport(t, "24h", 1, 1, "")
	stop := make(chan struct{})
	go func() {
		a.atLeast(&a.took, int64(testrun.Sized(200, 5000)))
		a.atLeast(&a.denied, 20)
		close(stop)
	}()
	a.fly(stop, 0)
	a.lands() // long before the hold time
}

// What is in flight never passes the limit while Envoys are killed and clients leave, and in the end
// nothing is left of it.
func TestEnvoysThatAreKilledLeaveNothingInFlight(t *testing.T) {
	testrun.FullOnly(t, "kills programs under load")
	for _, where := range []string{"memory", "Redis"} {
		t.Run(where, func(t *testing.T) {
			url, weirs := "", 1
			if where == "Redis" {
				url, weirs = redisServer(t), 2
			}
			a := newAirport(t, "3s", weirs, 2, url)
			stop, flown := make(chan struct{}), make(chan struct{})
			go func() {
				defer close(flown)
				a.fly(stop, 0)
			}()
			for i := range 2 {
				a.atLeast(&a.took, 200)
				a.atLeast(&a.denied, 50)
				a.kills[i]()
				a.begin(i)
			}
			a.atLeast(&a.took, 200)
			close(stop)
			<-flown
			a.lands()

			stop, peak := make(chan struct{}), a.peak.Load()
			go func() {
				a.atLeast(&a.failed, 100)
				close(stop)
			}()
			a.fly(stop, 2)
			a.peak.Store(peak) // a program learns late that its client has left
			a.lands()
		})
	}
}

// redisServer starts a server, and returns its URL.
func redisServer(t *testing.T) string {
	t.Helper()
	address, err := freeport.Address()
	if err != nil {
		t.Fatal(err)
	}
	server := testrun.Command(t, "redis-server", "--port", portOf(address), "--bind", "127.0.0.1", "--save", "",
		"--dir", t.TempDir())
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		server.Process.Kill()
		server.Wait()
	})
	for {
		conn, err := net.Dial("tcp", address)
		if err == nil {
			conn.Close()
			return "redis://" + address
		}
		time.Sleep(time.Millisecond)
	}
}
