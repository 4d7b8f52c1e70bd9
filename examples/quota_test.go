package examples

import (
	"encoding/json"
	"strconv"
	"testing"
	"time"
)

func TestQuota(t *testing.T) {
	at := start(t, "quota")
	type quota struct{ Limit, Used, Remaining, Reset int64 }
	ask := func(key string) map[string]quota {
		t.Helper()
		a := send(t, "GET", at+"/rate_limit", "", "X-API-Key", key).want(t, 200)
		a.field(t, "Content-Type", "application/json")
		a.field(t, "Cache-Control", "no-store")
		var answer struct{ Resources map[string]quota }
		if err := json.Unmarshal([]byte(a.body), &answer); err != nil || len(answer.Resources) != 2 {
			t.Fatalf("%v, said %q, want two resources", err, a.body)
		}
		return answer.Resources
	}
	used := func(key string, search, items int64) (reset int64) {
		t.Helper()
		q := ask(key)
		if s, i := q["search"], q["items"]; s.Limit != 30 || s.Used != search || s.Remaining != 30-search ||
			i.Limit != 500 || i.Used != items || i.Remaining != 500-items {
			t.Errorf("%s: got %+v, want %d searches and %d items", key, q, search, items)
		}
		return q["search"].Reset
	}
	for n := range 3 {
		send(t, "GET", at+"/search?"+strconv.Itoa(n), "", "X-API-Key", "ann").want(t, 200)
	}
	send(t, "GET", at+"/items", "", "X-API-Key", "ann").want(t, 200)
	reset := used("ann", 3, 1)
	if until := time.Until(time.Unix(reset, 0)); until < 50*time.Minute || until > time.Hour+time.Second {
		t.Errorf("the searches are whole in %v, want about an hour", until)
	}
	if again := used("ann", 3, 1); again != reset {
		t.Errorf("the reset moves from %d to %d", reset, again)
	}
	used("bob", 0, 0)
	used("eve", 0, 0) // by its address, whatever key it invents
	send(t, "GET", at+"/items", "", "X-API-Key", "eve").want(t, 200)
	used("mallory", 0, 1)
	used("ann", 3, 1)
	denied(t, func() answer { return send(t, "GET", at+"/search", "", "X-API-Key", "ann") })
	used("ann", 30, 1)
	denied(t, func() answer { return send(t, "GET", at+"/rate_limit", "", "X-API-Key", "ann") })
}
