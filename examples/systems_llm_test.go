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

func completion(prompt string, most int) string {
	return fmt.Sprintf(`{"model":"echo","max_tokens":%d,"messages":[{"content":%q}]}`, most, prompt)
}

func complete(t *testing.T, url, tenant, prompt string, most int) answer {
	t.Helper()
	return send(t, "POST", url+"/v1/chat/completions", completion(prompt, most), "Authorization", "Bearer k-"+tenant)
}

// estimate returns how many tokens a completion is charged at its start.
func estimate(prompt string, most int) int { return len(completion(prompt, most)) + most }

// used returns how many tokens a completion has used, as the answer says.
func used(t *testing.T, a answer) int {
	t.Helper()
	var in, out int
	_, usage, _ := strings.Cut(a.body, `"usage":{`)
	if _, err := fmt.Sscanf(usage, `"prompt_tokens":%d,"completion_tokens":%d}`, &in, &out); err != nil {
		t.Errorf("the answer tells no usage: %s", a.body)
	}
	return in + out
}

// BerriAI/litellm#18730: with 100 tokens a minute, five requests at once used 663. Here they would
// use 1,300 of 1,000.
func TestParallelRequestsDoNotUseMoreTokensThanTheLimit(t *testing.T) {
	onBoth(t, "llm", func(t *testing.T, url string) {
		prompt := strings.Repeat("a ", 130)
		var all sync.WaitGroup
		var mu sync.Mutex
		allowed, tokens := 0, 0
		for range 5 {
			all.Go(func() {
				a := complete(t, url, "trial", prompt, 130) // at most 449
				mu.Lock()
				defer mu.Unlock()
				if a.StatusCode == http.StatusOK {
					allowed++
					tokens += used(t, a)
				}
			})
		}
		all.Wait()
		if allowed < 2 || tokens > 1000 {
			t.Errorf("%d of 5 were allowed and used %d tokens, want 2 at least and 1,000 tokens at most", allowed, tokens)
		}
		for range 5 { // those that were denied may use what the estimates have returned
			if a := complete(t, url, "trial", prompt, 130); a.StatusCode == http.StatusOK {
				tokens += used(t, a)
			}
		}
		if tokens > 1000 {
			t.Errorf("%d tokens were used, want 1,000 at most", tokens)
		}
	})
}

func TestTheGatewayChargesWhatWasUsed(t *testing.T) {
	onBoth(t, "llm", func(t *testing.T, url string) {
		a := complete(t, url, "pro", "hello world", 1000).want(t, http.StatusOK)
		most := estimate("hello world", 1000)
		a.field(t, "RateLimit", fmt.Sprintf(`"requests";r=599;t=60, "tokens";r=%d;t=60, "budget";r=%d;t=`, 100_000-most,
			1_000_000_000-20*most))
		a.field(t, "RateLimit-Policy", `"requests";q=600;w=60, "tokens";q=100000;qu="tokens";w=60, `+
			`"budget";q=1000000000;qu="money";w=`+secondsOf(limits.Month.From(15))+`, "streams";q=8;qu="concurrent-requests"`)
		if used(t, a) != 4 {
			t.Errorf("the answer is %q", a.body)
		}
		a = complete(t, url, "trial", strings.Repeat("x", 900), 100)
		if a.StatusCode != http.StatusTooManyRequests || a.Header.Get("Retry-After") != "" {
			t.Errorf("a request of more tokens than the limit ever allows: %s, Retry-After %q", a.Status,
				a.Header.Get("Retry-After"))
		}
		denied(t, func() answer { return complete(t, url, "trial", "x", 1) }).field(t, "RateLimit", `"requests";r=0;t=`)
		if a := complete(t, url, "nobody", "x", 1); a.StatusCode != http.StatusUnauthorized {
			t.Errorf("an unknown key: %s", a.Status)
		}
		other := strings.Replace(completion("x", 1), "echo", "huge", 1)
		a = send(t, "POST", url+"/v1/chat/completions", other, "Authorization", "Bearer k-pro")
		if a.StatusCode != http.StatusBadRequest {
			t.Errorf("a model without a price: %s", a.Status)
		}
	})
}

// In memory the rest has returned before the answer ends. Redis is told after the answer.
func TestTheGatewayReturnsWhatAnEstimateHasLeft(t *testing.T) {
	const most = 500 // tokens: of the estimate, which is above 1000, 4 are used
	ask := func(t *testing.T, url string) { complete(t, url, "pro", "hello world", 1000).want(t, http.StatusOK) }
	t.Run("memory", func(t *testing.T) {
		url := start(t, "systems/llm")
		ask(t, url)
		fields := complete(t, url, "pro", "x", 1).want(t, http.StatusOK).Header.Get("RateLimit")
		var requests, seconds, left int64
		if n, _ := fmt.Sscanf(fields, `"requests";r=%d;t=%d, "tokens";r=%d;`, &requests, &seconds, &left); n != 3 ||
			100_000-left > most {
			t.Errorf("an estimate keeps more than %d tokens: %s", most, fields)
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
				t.Fatalf("%d of %d tokens are left: the rest of an estimate has not returned", left(), before)
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
				r, err := http.NewRequestWithContext(t.Context(), "POST", url+"/v1/chat/completions", strings.NewReader(
					`{"model":"echo","messages":[{"content":"a b"}],"max_tokens":2,"pause_ms":60000}`))
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

func TestATenantAsksForWhatIsLeft(t *testing.T) {
	onBoth(t, "llm", func(t *testing.T, url string) {
		complete(t, url, "pro", "to be", 40).want(t, http.StatusOK)
		a := send(t, "GET", url+"/rate_limit", "", "Authorization", "Bearer k-pro")
		for _, want := range []string{`"requests":{"limit":600,"used":1,`, `"tokens":{"limit":100000,"used":4,`,
			`"budget":{"limit":1000000000,"used":80,`, `"unit":"tokens"`, `"unit":"money"`} {
			if a.StatusCode != http.StatusOK || !strings.Contains(a.body, want) {
				t.Errorf("%d: %s, want %s in it", a.StatusCode, a.body, want)
			}
		}
	})
}
