package redisbackend_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/redisbackend"
)

// hidden is a client that says nothing of how it spreads keys.
type hidden struct{ redis.Scripter }

func TestNewFailsRatherThanCountInTheWrongPlace(t *testing.T) {
	client := newClient(t, "127.0.0.1:1")
	ring := redis.NewRing(&redis.RingOptions{})
	defer ring.Close()
	none, exists, err := pipelinerOf(ring, "AutoPipeline")
	if !exists {
		none = (*redis.Client)(nil)
	} else if err == nil {
		t.Error("a Ring has an auto-pipeliner by now: say so in docs/redis.md")
	}
	tagged := redisbackend.BareOptions{HashTag: "t"}
	for what, c := range map[string]struct {
		client  redis.Scripter
		options redisbackend.BareOptions
		want    string
	}{
		"no client":                  {nil, tagged, "nil"},
		"a Ring's auto-pipeliner":    {none, tagged, "nil"},
		"a client that is nil":       {(*redis.Client)(nil), tagged, "nil"},
		"a wrapper that is nil":      {(*hidden)(nil), tagged, "nil"},
		"a pipeline":                 {client.Pipeline(), tagged, "pass the client"},
		"a transaction":              {client.TxPipeline(), tagged, "pass the client"},
		"a hidden Ring":              {hidden{ring}, redisbackend.BareOptions{}, "pass the client that it wraps"},
		"a hidden client":            {hidden{client}, redisbackend.BareOptions{}, "pass the client that it wraps"},
		"an empty tag in the prefix": {ring, redisbackend.BareOptions{Prefix: "a{}b", HashTag: "t"}, `"a{}b"`},
		"half a tag in the prefix":   {client, redisbackend.BareOptions{Prefix: "a{b"}, `"a{b"`},
		"a prefix within another": {
			client, redisbackend.BareOptions{Prefix: "shop:a=b"}, `after a colon (got "shop:a=b")`,
		},
		"one of held units":     {client, redisbackend.BareOptions{Prefix: "shop:h+"}, `after a colon (got "shop:h+")`},
		"a tag that ends early": {ring, redisbackend.BareOptions{HashTag: "}"}, `"}"`},
		"a tag in braces":       {client, redisbackend.BareOptions{HashTag: "{t}"}, `"{t}"`},
	} {
		o := redisbackend.Options{Prefix: c.options.Prefix, HashTag: c.options.HashTag}
		_, bareErr := redisbackend.NewBare(c.client, c.options)
		_, err := redisbackend.New(c.client, o)
		for _, err := range []error{bareErr, err} {
			if got := fmt.Sprint(err); !strings.HasPrefix(got, "redisbackend: ") || !strings.Contains(got, c.want) {
				t.Errorf("%s: got %q, want an error with %q", what, got, c.want)
			}
		}
	}
}

// A Ring sends a script to the shard of its first key, whatever the others are.
func TestNoRingAdmitsMoreThanTheLimit(t *testing.T) {
	t.Parallel()
	ring := startRing(t)
	type embedding struct{ *redis.Ring }
	for what, b := range map[string]*redisbackend.Bare{
		"as it is":   newBare(ring),
		"embedded":   redisbackend.MustNewBare(embedding{ring}, redisbackend.BareOptions{Prefix: uniquePrefix()}),
		"with a tag": redisbackend.MustNewBare(ring, redisbackend.BareOptions{Prefix: uniquePrefix(), HashTag: "t"}),
		"hidden, with a tag": redisbackend.MustNewBare(
			hidden{ring}, redisbackend.BareOptions{Prefix: uniquePrefix(), HashTag: "t"},
		),
	} {
		const most = 10
		limit := limits.LeakyBucket(limits.PerDay(1), most)
		admitted := 0
		for i := range 60 {
			if take(t, b, charge("a", fmt.Sprint("other ", i), limit, 1), charge("hot", "k", limit, 1))[1].Allowed {
				admitted++
			}
		}
		redisbackend.WaitForGiveBacks(b)
		if admitted != most {
			t.Errorf("%s: %d of %d were admitted", what, admitted, most)
		}
	}
}
