package quota_test

import (
	"testing"

	"github.com/weir-go/weir/client/internal/quota"
)

// Answers that a cache has given, and answers that a server has given through a cache.
func TestCachesMarkTheAnswersThatTheyHadStored(t *testing.T) {
	for _, fields := range []string{
		"Age: 1", "Age: 0", "Age: 5\nX-Cache: MISS", "Age: 0\nAge: 0\nX-Cache: MISS",
		"X-From-Cache: 1",
		"Cache-Status: ExampleCache; hit", `Cache-Status: "Example Cache"; hit; ttl=376`,
		"Cache-Status: ExampleCache;hit=?1", "Cache-Status: Edge; fwd=miss, Origin; hit",
		"Cache-Status: Edge; fwd=miss\nCache-Status: Origin; hit",
		"X-Cache: HIT", "X-Cache: hit", "X-Cache: MISS, HIT", "X-Cache: HIT, MISS",
		"X-Cache: MISS\nX-Cache: HIT from proxy.example.com",
		"X-Cache: Hit from cloudfront", "X-Cache: RefreshHit from cloudfront",
		"X-Cache: TCP_MEM_HIT from a118-214-191-15 (AkamaiGHost/6.7.0.2-9183648)",
		"X-Cache: TCP_REMOTE_HIT", "X-Cache: HIT-STALE",
		"X-Cache-Status: HIT", "X-Cache-Status: STALE", "X-Cache-Status: UPDATING",
		"X-Cache-Status: REVALIDATED", "Cf-Cache-Status: HIT", "Cf-Cache-Status: REVALIDATED",
		"Akamai-Cache-Status: HitStale", "X-Vercel-Cache: PRERENDER", "X-Vercel-Cache: stale",
		"X-Varnish: 32770 3\nAge: 0",
	} {
		if !quota.FromCache(header(fields)) {
			t.Errorf("%q counts as an answer of the server", fields)
		}
	}
	for _, fields := range []string{
		"Content-Type: text/plain",
		"Cache-Status: ExampleCache; fwd=uri-miss; stored", "Cache-Status: ExampleCache; hit=?0",
		"Cache-Status: Cache; fwd=stale; fwd-status=304",
		`Cache-Status: "a hit"; detail="x; hit"`, "Cache-Status: Cache; hit,", "Cache-Status: ; hit",
		"Cache-Status: A; hit, ;x",
		"X-Cache: MISS", "X-Cache: MISS from whitehouse.example.com", "X-Cache: Miss from cloudfront",
		"X-Cache: TCP_REFRESH_MISS", "X-Cache: MISS, MISS", "X-Cache: HITPASS", "X-Cache: HITMISS",
		"X-Cache: CONFIG_NOCACHE", "X-Cache: ", "X-Cache: ,",
		"X-Cache-Status: MISS", "X-Cache-Status: EXPIRED", "X-Cache-Status: BYPASS", "X-Cache-Status: ",
		"Cf-Cache-Status: DYNAMIC", "Akamai-Cache-Status: Miss", "X-Vercel-Cache: REVALIDATED",
		"X-Varnish: 32772", "X-Varnish: 32772\nAge: 0", "X-Cache: MISS\nAge: 0", "X-Varnish: a b",
	} {
		if quota.FromCache(header(fields)) {
			t.Errorf("%q counts as an answer of a cache", fields)
		}
	}
}
