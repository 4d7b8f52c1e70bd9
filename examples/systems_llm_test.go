package examples

import (
	"bufio"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
)

func complete(t *testing.T, url, tenant, prompt string, most int) answer {
	t.Helper()
	body := fmt.Sprintf(`{"prompt": %q, "max_tokens": %d}`, prompt, most)
	return send(t, "POST", url+"/v1/completions", body, "Authorization", "Bearer k-"+tenant)
}

// used returns how many tokens a completion has used.
func used(prompt string, a answer) int {
	return len(strings.Fields(prompt)) + strings.Count(a.body, "data: ")
}

// BerriAI/litellm#18730: with 100 tokens a minute, five requests at once used 663.
func TestParallelRequestsDoNotUseMoreTokensThanTheLimit(t *testing.T) {
	onBoth(t, "llm", func(t *testing.T, url string) {
		const prompt = "to be or not to be" // 18 bytes, 6 tokens
		var all sync.WaitGroup
		var mu sync.Mutex
		allowed, tokens := 0, 0
		for range 5 {
			all.Go(func() {
				a := complete(t, url, "trial", prompt, 15) // at most 33
				mu.Lock()
				defer mu.Unlock()
				if a.StatusCode == http.StatusOK {
					allowed++
					tokens += used(prompt, a)
				}
			})
		}
		all.Wait()
		if allowed < 3 || tokens > 100 {
			t.Errorf("%d of 5 were allowed and used %d tokens, want 3 at least and 100 tokens at most", allowed, tokens)
		}
		for range 5 { // those that were denied may use what the estimates have returned
			if a := complete(t, url, "trial", prompt, 15); a.StatusCode == http.StatusOK {
				tokens += used(prompt, a)
			}
		}
		if tokens > 100 {
			t.Errorf("%d tokens were used, want 100 at most", tokens)
		}
	})
}

func TestTheGatewayChargesWhatWasUsed(t *testing.T) {
	onBoth(t, "llm", func(t *testing.T, url string) {
		a := complete(t, url, "pro", "hello world", 1000).want(t, http.StatusOK)
		a.field(t, "RateLimit", `"requests";r=599;t=60, "tokens";r=98989;t=60, "budget";r=999979780;t=`)
		a.field(t, "RateLimit-Policy", `"requests";q=600;w=60, "tokens";q=100000;w=60, `+
			`"budget";q=1000000000;w=`+secondsOf(limits.Month.From(15))+`, "streams";q=8;qu="concurrent-requests"`)
		if used("hello world", a) != 4 {
			t.Errorf("the answer is %q", a.body)
		}
		a = complete(t, url, "trial", strings.Repeat("x", 90), 20)
		if a.StatusCode != http.StatusTooManyRequests || a.Header.Get("Retry-After") != "" {
			t.Errorf("a request of more tokens than the limit ever allows: %s, Retry-After %q", a.Status,
				a.Header.Get("Retry-After"))
		}
		denied(t, func() answer { return complete(t, url, "trial", "x", 1) }).field(t, "RateLimit", `"requests";r=0;t=`)
		if a := complete(t, url, "nobody", "x", 1); a.StatusCode != http.StatusUnauthorized {
			t.Errorf("an unknown key: %s", a.Status)
		}
	})
}

// In memory the rest has returned before the answer ends. Redis is told after the answer.
func TestTheGatewayReturnsWhatAnEstimateHasLeft(t *testing.T) {
	const estimate, most = 1011, 500 // tokens: "hello world" and 1000, of which 4 are used
	ask := func(t *testing.T, url string) { complete(t, url, "pro", "hello world", 1000).want(t, http.StatusOK) }
	t.Run("memory", func(t *testing.T) {
		url := start(t, "systems/llm")
		ask(t, url)
		fields := complete(t, url, "pro", "x", 1).want(t, http.StatusOK).Header.Get("RateLimit")
		var requests, seconds, left int64
		if n, _ := fmt.Sscanf(fields, `"requests";r=%d;t=%d, "tokens";r=%d;`, &requests, &seconds, &left); n != 3 ||
			100_000-left > most {
			t.Errorf("an estimate of %d tokens keeps more than %d: %s", estimate, most, fields)
		}
	})
	t.Run("redis", func(t *testing.T) {
		addr := freeAddr(t)
		startRedisServer(t, addr)
		url := start(t, "systems/llm", "REDIS_URL=redis://"+addr)
		peeker := redisOf(t, addr, "llm").(backends.Peeker)
		left := func() int64 {
			out := make([]limits.Decision, 1)
			tokens := backends.Charge{
				Scope: "tokens", Key: "pro", Limit: limits.SlidingWindow(limits.PerMinute(100_000)), Cost: 1,
			}
			if err := peeker.Peek(t.Context(), []backends.Charge{tokens}, out); err != nil {
				t.Fatal(err)
			}
			return out[0].Remaining
		}
		for deadline := time.Now().Add(time.Minute); ; {
			before := left()
			ask(t, url)
			for again := time.Now().Add(5 * time.Second); time.Now().Before(again); time.Sleep(10 * time.Millisecond) {
				if before-left() < most {
					return
				}
			}
			// A refund that Redis does not hear of within a second is lost. The next one need not be.
			if time.Now().After(deadline) {
				t.Fatalf("%d of %d tokens are left: the rest of an estimate of %d has not returned", left(), before,
					estimate)
			}
		}
	})
}

func TestTheGatewayHoldsEightStreams(t *testing.T) {
	onBoth(t, "llm", func(t *testing.T, url string) {
		stop := make(chan struct{})
		var streams sync.WaitGroup
		started := make(chan struct{})
		for range 8 {
			streams.Go(func() {
				r, err := http.NewRequestWithContext(t.Context(), "POST", url+"/v1/completions",
					strings.NewReader(`{"prompt": "a b", "max_tokens": 2, "pause_ms": 60000}`))
				if err != nil {
					t.Error(err)
				}
				r.Header.Set("Authorization", "Bearer k-pro")
				response, err := http.DefaultClient.Do(r)
				if err != nil {
					t.Error(err)
					return
				}
				defer response.Body.Close()
				bufio.NewReader(response.Body).ReadString('\n')
				started <- struct{}{}
				<-stop
			})
		}
		for range 8 {
			<-started
		}
		a := complete(t, url, "pro", "x", 1).want(t, http.StatusTooManyRequests)
		a.field(t, "Retry-After", "1")
		if !strings.Contains(a.body, `"violated-policies":["streams"]`) {
			t.Errorf("the denial says %s", a.body)
		}
		close(stop) // the clients leave
		streams.Wait()
		for complete(t, url, "pro", "x", 1).StatusCode != http.StatusOK { // until the server has noticed
		}
	})
}

func TestTheGatewayEndsWithTheBudgetOfTheMonth(t *testing.T) {
	addr := freeAddr(t)
	startRedisServer(t, addr)
	url, redis := start(t, "systems/llm", "REDIS_URL=redis://"+addr), redisOf(t, addr, "llm")
	budget := limits.Calendar(1_000_000_000, limits.Month.From(15))
	use(t, redis, backends.Charge{Scope: "budget", Key: "pro", Limit: budget, Cost: 999_999_950})
	// A busy machine may answer without Redis, from memory that knows nothing of the charge.
	// "pro" may send 600 a minute: a denial by that rule is not the one to wait for.
	a := complete(t, url, "pro", "xx", 1)
	for deadline := time.Now().Add(time.Minute); !strings.Contains(a.body, `"budget"`) && time.Now().Before(deadline); {
		a = complete(t, url, "pro", "xx", 1)
	}
	a.want(t, http.StatusTooManyRequests)
	if !strings.Contains(a.body, `"violated-policies":["budget"]`) {
		t.Errorf("the denial says %s", a.body)
	}
	complete(t, url, "trial", "xx", 1).want(t, http.StatusOK)
}
