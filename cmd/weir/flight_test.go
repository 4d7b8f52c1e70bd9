//go:build unix

package main

import (
	"encoding/json"
	"fmt"
	"net/http"
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

// runway is two processes of weir serve on one Redis, and requests that take a unit of either when they
// begin, and return it at their end.
type runway struct {
	t     *testing.T
	weirs [2]*ground
	hold  time.Duration

	mu       sync.Mutex
	inFlight map[string]time.Time // when each asked
	peak     int

	took, denied, failed atomic.Int64
}

// ground is a process that is killed and started again at the same address.
type ground struct {
	address string
	begin   func() *process
	running *process
}

const runwayLimit = 5

func newRunway(t *testing.T, hold time.Duration) *runway {
	t.Helper()
	r := &runway{t: t, hold: hold, inFlight: make(map[string]time.Time)}
	file := filepath.Join(t.TempDir(), "limits.yaml")
	const text = `domain: d
on_failure: closed # on a machine that stalls memory would allow more
descriptors:
  - {key: user, rate_limit: {algorithm: concurrent 5, hold_time: HOLD, holder: id}}
  - {key: long, rate_limit: {algorithm: concurrent 5, hold_time: 24h, holder: id}}
`
	if err := os.WriteFile(file, []byte(strings.Replace(text, "HOLD", hold.String(), 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	redis := free(t)
	_, port, _ := strings.Cut(redis, ":")
	begin(t, t.TempDir(), nil, "redis-server", "--port", port, "--bind", "127.0.0.1", "--save", "").
		log.wait(t, "eady to accept connections")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for i := range r.weirs {
		g := &ground{address: free(t)}
		g.begin = func() *process {
			p := begin(t, t.TempDir(), []string{asCommand + "=1"}, self, "serve", "--check", g.address, "--grpc", "",
				"--operator", "", "--redis", "redis://"+redis, "--redis-budget", "1m", file)
			p.log.wait(t, "serve: ready")
			return p
		}
		g.running = g.begin()
		r.weirs[i] = g
	}
	return r
}

func free(t *testing.T) string {
	t.Helper()
	address, err := freeport.Address()
	if err != nil {
		t.Fatal(err)
	}
	return address
}

// kill ends a process by SIGKILL.
func (g *ground) kill() {
	g.running.Process.Kill()
	err := <-g.running.ended
	g.running.ended <- err
}

func (g *ground) restart() { g.running = g.begin() }

// ask asks a process for hits of a holder, negative to return units. It returns the status, 0 if the process does
// not answer, and how many units are left.
func (r *runway) ask(weir int, key, id string, hits int) (status, left int) {
	entries := fmt.Sprintf(`{"key":%q,"value":"ann"}`, key)
	if id != "" {
		entries += fmt.Sprintf(`,{"key":"id","value":%q}`, id)
	}
	body := fmt.Sprintf(`{"domain":"d","descriptors":[{"entries":[%s],"hitsAddend":"%d","isNegativeHits":%t}]}`,
		entries, max(hits, -hits), hits < 0)
	response, err := http.Post("http://"+r.weirs[weir].address+"/json", "application/json", strings.NewReader(body))
	if err != nil {
		return 0, 0
	}
	defer response.Body.Close()
	var answer struct {
		Statuses []struct{ LimitRemaining int }
	}
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil || len(answer.Statuses) != 1 {
		return 0, 0
	}
	return response.StatusCode, answer.Statuses[0].LimitRemaining
}

// fly sends requests until stop is closed. The end of each is told until a process hears it.
func (r *runway) fly(stop <-chan struct{}) {
	var group sync.WaitGroup
	for i := range 12 {
		group.Go(func() {
			for k := i; ; k++ {
				select {
				case <-stop:
					return
				default:
				}
				id, asked := fmt.Sprint(i, "-", k), time.Now()
				switch status, _ := r.ask(k%2, "user", id, 1); status {
				case 200:
					r.begins(id, asked)
					time.Sleep(2 * time.Millisecond) // as long as the request lasts
					r.ends(id)
					for n := k; ; n++ {
						if status, _ := r.ask(n%2, "user", id, -1); status == 200 {
							break
						}
						time.Sleep(time.Millisecond)
					}
					r.took.Add(1)
				case 429:
					r.denied.Add(1)
				default:
					r.failed.Add(1)
					time.Sleep(time.Millisecond)
				}
			}
		})
	}
	group.Wait()
}

// begins notes a request that may run. One that is older than the hold time is no longer counted.
func (r *runway) begins(id string, asked time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.inFlight[id] = asked
	n := 0
	for _, asked := range r.inFlight {
		if time.Since(asked) < r.hold {
			n++
		}
	}
	r.peak = max(r.peak, n)
}

func (r *runway) ends(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.inFlight, id)
}

// more waits for n more of something.
func (r *runway) more(of *atomic.Int64, n int64) {
	for base := of.Load(); of.Load() < base+n; {
		time.Sleep(time.Millisecond)
	}
}

// counts asks until a process answers 200: a holder takes and returns once, however often it asks.
func (r *runway) counts(weir int, key, id string, hits int) {
	r.t.Helper()
	for end := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		status, _ := r.ask(weir, key, id, hits)
		if status == 200 {
			return
		}
		if time.Now().After(end) {
			r.t.Fatalf("status %d for %d hits of %s", status, hits, id)
		}
	}
}

// has waits until so many units are left.
func (r *runway) has(weir int, key string, want int) {
	r.t.Helper()
	for end := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		status, left := r.ask(weir, key, "", 0)
		if status != 0 && left == want {
			return
		}
		if time.Now().After(end) {
			r.t.Fatalf("status %d, %d units of %s are left, want %d", status, left, key, want)
		}
	}
}

// What is in flight is in Redis: weir may be killed, and another process takes what ends.
func TestAServiceThatIsKilledLeavesNothingInFlight(t *testing.T) {
	testrun.FullOnly(t, "kills processes under load")
	r := newRunway(t, 2*time.Second)
	for _, id := range []string{"a", "b"} {
		r.counts(0, "long", id, 1)
	}
	stop, flown := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(flown)
		r.fly(stop)
	}()
	for i := range r.weirs {
		r.more(&r.took, 200)
		r.more(&r.denied, 50)
		r.weirs[i].kill()
		r.more(&r.took, 100) // by the other one
		r.weirs[i].restart()
	}
	r.more(&r.took, 200)
	for _, weir := range r.weirs {
		weir.kill()
	}
	r.more(&r.failed, 50)
	for _, weir := range r.weirs {
		weir.restart()
	}
	r.more(&r.took, 200)
	close(stop)
	<-flown
	if r.peak > runwayLimit {
		t.Errorf("%d requests were in flight at once, want at most %d", r.peak, runwayLimit)
	}
	r.has(0, "user", runwayLimit) // once units whose process was killed have ended
	t.Logf("%d requests ran, %d at once at most; %d were denied, %d not answered",
		r.took.Load(), r.peak, r.denied.Load(), r.failed.Load())

	r.has(1, "long", runwayLimit-2)
	for _, id := range []string{"a", "b", "a", "c"} {
		r.counts(1, "long", id, -1)
	}
	r.has(0, "long", runwayLimit)
}
