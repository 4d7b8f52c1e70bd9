package examples

import (
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// floodFrom sends n requests, some at once, and returns how many were denied.
func floodFrom(t *testing.T, url string, n int) (refused int) {
	t.Helper()
	var senders sync.WaitGroup
	var mu sync.Mutex
	for i := range 8 {
		senders.Go(func() {
			for range (n + i) / 8 {
				a := send(t, "GET", url, "")
				if a.StatusCode == http.StatusTooManyRequests {
					mu.Lock()
					refused++
					mu.Unlock()
				}
			}
		})
	}
	senders.Wait()
	return refused
}

// isBlock fails unless a is how Cloudflare blocks.
func (a answer) isBlock(t *testing.T) {
	t.Helper()
	a.want(t, http.StatusTooManyRequests)
	a.field(t, "RateLimit", "")
	if seconds, _ := strconv.Atoi(a.Header.Get("Retry-After")); seconds < 500 || seconds > 600 ||
		!strings.HasPrefix(a.body, "error code: 1015") {
		t.Errorf("Retry-After %q, body %q, want a block of ten minutes", a.Header.Get("Retry-After"), a.body)
	}
}

// A limit of 2,000 is reached as one of 10,000 is, in less time.
const blockOfCloudflare = "BLOCK=ban 2000/1m for 10m"

func TestCloudflareBlocksAFlood(t *testing.T) {
	onBoth(t, "cloudflare", func(t *testing.T, url string) {
		if refused := floodFrom(t, url, 10_000); refused != 0 {
			t.Fatalf("%d of 10,000 requests were refused", refused)
		}
		send(t, "GET", url, "").isBlock(t)
	})
}

// The other instance has seen few requests of the address. Each of the flood counts in one
// instance only: neither asks Redis.
func TestABlockOfCloudflareIsKnownToAllInstances(t *testing.T) {
	addr := freeAddr(t)
	kill := startRedisServer(t, addr)
	program := build(t, "systems/cloudflare")
	env := []string{"REDIS_URL=redis://" + addr, blockOfCloudflare}
	one, other := launch(t, program, env...), launch(t, program, env...)
	send(t, "GET", other, "").want(t, http.StatusOK)
	if refused := floodFrom(t, one, 2000); refused != 0 {
		t.Fatalf("%d of 2000 requests were refused", refused)
	}
	send(t, "GET", one, "").isBlock(t)
	begun := time.Now()
	a, asked := send(t, "GET", other, ""), 1
	// In a minute it is asked 1,200 times at most: fewer than it would block by itself.
	for ; a.StatusCode == http.StatusOK && time.Since(begun) < time.Minute; time.Sleep(50 * time.Millisecond) {
		send(t, "GET", one, "").isBlock(t) // a message that was lost is repeated with a denial
		a = send(t, "GET", other, "")
		asked++
	}
	a.isBlock(t)
	t.Logf("the other instance knew after %v and %d requests", time.Since(begun), asked)

	kill() // nobody asks it
	send(t, "GET", one, "").isBlock(t)
	send(t, "GET", other, "").isBlock(t)
}

func TestCloudflareCountsCustomersExactly(t *testing.T) {
	addr := freeAddr(t)
	startRedisServer(t, addr)
	program := build(t, "systems/cloudflare")
	urls := []string{launch(t, program, "REDIS_URL=redis://"+addr), launch(t, program, "REDIS_URL=redis://"+addr)}
	begun, allowed := time.Now(), 0
	for i := range 640 {
		a := send(t, "GET", urls[i%2]+"/api/", "", "X-API-Key", "k-shop")
		if a.StatusCode == http.StatusOK {
			a.field(t, "RateLimit-Policy", `"customer";q=600;w=60`)
			allowed++
		} else {
			a.want(t, http.StatusTooManyRequests).field(t, "RateLimit", `"customer";r=0;t=`)
		}
	}
	if back := int(10*time.Since(begun).Seconds()) + 1; allowed < 600 || allowed > 600+back {
		t.Errorf("two instances allowed %d, want 600 and what has come back, %d at most", allowed, back)
	}
	send(t, "GET", urls[0]+"/api/", "", "X-API-Key", "k-bank").want(t, http.StatusOK)
}
