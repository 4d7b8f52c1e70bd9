package client_test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/client"
)

// A path that is always denied is asked once a second. Another is asked ten times a second.
func TestAPathThatIsAlwaysDeniedDoesNotHoldBackItsHost(t *testing.T) {
	for name, denials := range map[string]int{"all of them": 1 << 30, "ten of them": 10} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var mu sync.Mutex
				denied, good := 0, 0
				server := scripted(func(_ int, r *http.Request) *http.Response {
					mu.Lock()
					defer mu.Unlock()
					if r.URL.Path == "/limited" && denied < denials {
						denied++
						return answer(429)
					}
					return answer(200)
				})
				c := newClient(t, server, client.Options{})
				ask := func(path string, every time.Duration) {
					for end := time.Now().Add(90 * time.Second); time.Now().Before(end); time.Sleep(every) {
						go func() {
							response, err := get(c, "http://a"+path)
							mu.Lock()
							defer mu.Unlock()
							if err == nil && response.StatusCode == 200 && path == "/good" {
								good++
							}
						}()
					}
				}
				var wg sync.WaitGroup
				wg.Go(func() { ask("/limited", time.Second) })
				wg.Go(func() { ask("/good", 100*time.Millisecond) })
				wg.Wait()
				time.Sleep(time.Minute)
				mu.Lock()
				defer mu.Unlock()
				if good < 890 || denied > 20 {
					t.Errorf("%d of 900 requests to another path were answered, %d denied", good, denied)
				}
			})
		})
	}
}

// The limit is that of the host: each path is denied now and then.
func TestThePathsOfALimitedHostStayTogether(t *testing.T) {
	for _, paths := range []int{1, 3, 1000} {
		t.Run(fmt.Sprint(paths), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				random := rand.New(rand.NewPCG(1, 2))
				limited := nginx{rate: 20, burst: 20, nodelay: true}.new()
				server := &network{server: limited, latency: 20 * time.Millisecond, random: random}
				c := newClient(t, server, client.Options{})
				var wg sync.WaitGroup
				for i := range 32 {
					wg.Go(func() {
						for n := range 40 {
							get(c, fmt.Sprintf("http://a/%d", (i*40+n*7)%paths))
						}
					})
				}
				wg.Wait()
				if buckets, _ := c.Buckets(); buckets > 1 {
					t.Errorf("%d buckets", buckets)
				}
			})
		})
	}
}

// A thousand other hosts need all buckets while a request for a path that is apart is in flight.
func TestAHostIsKeptWhileAPathOfItIsInUse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answers, serves, asked := make(chan struct{}), atomic.Bool{}, atomic.Int32{}
		server := scripted(func(_ int, r *http.Request) *http.Response {
			switch {
			case r.URL.Host != "a":
				return answer(429, "Retry-After", "3600")
			case r.URL.Path == "/good":
				return answer(200)
			case !serves.Load():
				return answer(429)
			}
			asked.Add(1)
			<-answers
			return answer(200)
		})
		c := newClient(t, server, client.Options{MaxInFlight: 1, Attempts: 1, MaxWait: time.Hour})
		for range 3 {
			get(c, "http://a/limited")
			time.Sleep(time.Minute)
			get(c, "http://a/good")
		}
		if buckets, _ := c.Buckets(); buckets != 2 {
			t.Fatalf("%d buckets, want that of the host and that of the path", buckets)
		}
		var wg sync.WaitGroup
		serves.Store(true)
		wg.Go(func() { get(c, "http://a/limited") })
		synctest.Wait()
		for i := range 2000 {
			get(c, fmt.Sprintf("http://host-%d.example", i))
		}
		wg.Go(func() { get(c, "http://a/limited") })
		synctest.Wait()
		if n := asked.Load(); n != 1 {
			t.Errorf("%d requests for the path are in flight, want 1 as MaxInFlight says", n)
		}
		close(answers)
		wg.Wait()
	})
}
