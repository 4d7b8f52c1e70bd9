package client_test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
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
