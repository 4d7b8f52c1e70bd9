package examples

import (
	"encoding/json"
	"net/http"
	"regexp"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
)

func asBot(t *testing.T, bot, method, url string) answer {
	t.Helper()
	return send(t, method, url, "", "Authorization", "Bot b-"+bot)
}

var decimals = regexp.MustCompile(`^[0-9]+\.[0-9]{3}$`)

// deniedBy fails unless a is how Discord denies by a bucket.
func (a answer) deniedBy(t *testing.T, bucket, scope string, most time.Duration) {
	t.Helper()
	a.want(t, http.StatusTooManyRequests)
	a.field(t, "X-RateLimit-Bucket", bucket)
	a.field(t, "X-RateLimit-Remaining", "0")
	a.field(t, "X-RateLimit-Scope", scope)
	a.field(t, "X-RateLimit-Global", "")
	for _, name := range []string{"X-RateLimit-Reset", "X-RateLimit-Reset-After"} {
		if got := a.Header.Get(name); !decimals.MatchString(got) {
			t.Errorf("%s %q has no three decimals", name, got)
		}
	}
	var said struct {
		Wait   float64 `json:"retry_after"`
		Global bool
	}
	after, _ := strconv.ParseFloat(a.Header.Get("X-RateLimit-Reset-After"), 64)
	if err := json.Unmarshal([]byte(a.body), &said); err != nil || said.Global || said.Wait <= 0 ||
		said.Wait > after+0.001 || after > most.Seconds() {
		t.Errorf("X-RateLimit-Reset-After %v, and the body says %s (%v)", after, a.body, err)
	}
}

func TestRelatedRoutesOfDiscordShareABucket(t *testing.T) {
	onBoth(t, "discord", func(t *testing.T, url string) {
		a := asBot(t, "ann", "POST", url+"/channels/1/messages").want(t, http.StatusOK)
		a.field(t, "X-RateLimit-Limit", "5")
		a.field(t, "X-RateLimit-Remaining", "4")
		a.field(t, "X-RateLimit-Bucket", "messages")
		a.field(t, "X-RateLimit-Scope", "")
		asBot(t, "ann", "PATCH", url+"/channels/1/messages/7").want(t, http.StatusOK).
			field(t, "X-RateLimit-Bucket", "messages")
		a = denied(t, func() answer { return asBot(t, "ann", "PATCH", url+"/channels/1/messages/8") })
		a.deniedBy(t, "messages", "user", 5*time.Second)
		asBot(t, "ann", "POST", url+"/channels/2/messages").want(t, http.StatusOK)
		asBot(t, "bob", "POST", url+"/channels/1/messages").want(t, http.StatusOK)
		asBot(t, "ann", "GET", url+"/channels/1/messages").want(t, http.StatusOK).field(t, "X-RateLimit-Bucket",
			"reads")
	})
}

func TestBotsOfDiscordShareTheBucketOfAGuild(t *testing.T) {
	onBoth(t, "discord", func(t *testing.T, url string) {
		for range 3 {
			asBot(t, "ann", "POST", url+"/guilds/1/emojis").want(t, http.StatusOK)
		}
		asBot(t, "bob", "POST", url+"/guilds/1/emojis").deniedBy(t, "emojis", "shared", time.Minute)
		asBot(t, "bob", "POST", url+"/guilds/2/emojis").want(t, http.StatusOK)
	})
}

// Channels are many, so no bucket of one denies.
func TestDiscordLimitsABotOverEverything(t *testing.T) {
	onBoth(t, "discord", func(t *testing.T, url string) {
		var asked sync.WaitGroup
		var mu sync.Mutex
		var global answer
		for i := 0; global.Response == nil && i < 10_000; i += 400 { // a slow machine may need another go
			for j := range 400 {
				asked.Go(func() {
					a := asBot(t, "ann", "GET", url+"/channels/"+strconv.Itoa(i+j))
					mu.Lock()
					defer mu.Unlock()
					if a.StatusCode == http.StatusTooManyRequests {
						global = a
					} else {
						a.field(t, "X-RateLimit-Bucket", "reads") // whatever is left of the global limit
						a.field(t, "X-RateLimit-Remaining", "99")
					}
				})
			}
			asked.Wait()
		}
		if global.Response == nil {
			t.Fatal("400 requests at once are never denied")
		}
		global.want(t, http.StatusTooManyRequests)
		global.field(t, "X-RateLimit-Global", "true")
		global.field(t, "X-RateLimit-Scope", "global")
		asBot(t, "bob", "GET", url+"/channels/1").want(t, http.StatusOK)
	})
}

func TestInvalidRequestsBanAnAddressFromDiscord(t *testing.T) {
	addr := freeAddr(t)
	startRedisServer(t, addr)
	url, redis := start(t, "systems/discord", "REDIS_URL=redis://"+addr), redisOf(t, addr, "discord")
	for range 3 {
		asBot(t, "ann", "POST", url+"/guilds/1/emojis").want(t, http.StatusOK)
	}
	ban := limits.Ban(limits.Per(10_000, 10*time.Minute), time.Hour)
	use(t, redis, backends.Charge{Scope: "invalid", Key: "127.0.0.1", Limit: ban, Cost: 9_998})
	for range 10 { // others have used up what is shared
		asBot(t, "bob", "POST", url+"/guilds/1/emojis").want(t, http.StatusTooManyRequests)
	}
	for range 2 {
		if a := asBot(t, "nobody", "GET", url+"/channels/1"); a.StatusCode != http.StatusUnauthorized {
			t.Fatalf("an unknown bot: %s", a.Status)
		}
	}
	banned := asBot(t, "ann", "GET", url+"/channels/1")
	for banned.StatusCode == http.StatusOK { // Redis is told of the end after the answer
		banned = asBot(t, "ann", "GET", url+"/channels/1")
	}
	banned.want(t, http.StatusTooManyRequests).field(t, "X-RateLimit-Bucket", "")
	if seconds, _ := strconv.Atoi(banned.Header.Get("Retry-After")); seconds < 3500 || seconds > 3600 {
		t.Errorf("Retry-After %d, want an hour", seconds)
	}
}
