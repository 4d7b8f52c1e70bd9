package redisbackend_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
	"github.com/weir-go/weir/redisbackend"
)

// slow is a server that takes 10 ms for each script, in virtual time, and notes which scripts it runs.
type slow struct {
	redis.Scripter
	mu    sync.Mutex
	calls []string
}

func (s *slow) EvalSha(ctx context.Context, digest string, keys []string, args ...any) *redis.Cmd {
	time.Sleep(10 * time.Millisecond)
	cmd := redis.NewCmd(ctx)
	reply, each, what := fmt.Sprint(args[0]), " 0", "ends"
	switch digest {
	case redisbackend.RenewDigest:
		what = "renews"
	case redisbackend.SettleDigest, redisbackend.ReleaseDigest:
	default:
		what = "takes"
		reply, each = fmt.Sprint(reply, " ", time.Now().UnixMicro()), " 1 0 0 0"
	}
	cmd.SetVal(reply + strings.Repeat(each, len(keys)))
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls = append(s.calls, what)
	return cmd
}

// A crowd that ends does not keep others from taking, nor does a crowd that takes keep others from ending.
func TestTakingsAndEndingsTakeTurnsAndRenewalsGoFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := new(slow)
		b := redisbackend.MustNewBare(server, redisbackend.BareOptions{HashTag: "one", HoldTime: 3 * time.Second})
		redisbackend.OneCall(b)
		limit := limits.SlidingWindow(limits.PerHour(1000))
		held := charge("uploads", "ann", limits.Concurrent(5), 1)
		d := take(t, b, held)[0]
		time.Sleep(1040 * time.Millisecond) // its renewal is due in 10 ms
		var all sync.WaitGroup
		begun := time.Now()
		for i := range 512 { // four calls of each kind
			all.Go(func() { take(t, b, charge("s", fmt.Sprint(i), limit, 1)) })
		}
		var endings []backends.Ending
		for i := range 512 {
			endings = append(endings, backends.Ending{Scope: "s", Key: fmt.Sprint(i), Limit: limit, Taken: 2, Final: 1})
		}
		all.Go(func() { settle(t, b, endings...) })
		all.Wait()
		server.mu.Lock()
		calls := slices.Clone(server.calls[1:]) // without that of what is held
		server.mu.Unlock()
		renewed := slices.Index(calls, "renews")
		if renewed < 0 || renewed > 3 {
			t.Errorf("a renewal that was due after one call of %v is at %d", calls, renewed)
		}
		rest := slices.DeleteFunc(slices.Clone(calls), func(what string) bool { return what == "renews" })
		longest, run := 0, 0
		for i := range rest {
			if run++; i > 0 && rest[i] != rest[i-1] {
				run = 1
			}
			longest = max(longest, run)
		}
		if took := time.Since(begun); longest > 2 || took > 110*time.Millisecond {
			t.Errorf("512 takings and 512 endings took %v: %v", took, calls)
		}
		end(t, b, held, d)
		ok(t, b.Close())
	})
}
