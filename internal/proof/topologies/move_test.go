package topologies

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weir-go/weir/internal/proof/testrun"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
	"github.com/weir-go/weir/redisbackend"
)

// spent has a limit of each algorithm. None of their periods ends while a test runs.
var spent = func() []limits.Limit {
	rate := limits.Per(3, 360*24*time.Hour)
	return []limits.Limit{
		limits.TokenBucket(rate, 3), limits.LeakyBucket(rate, 3), limits.LeakyQueue(rate, 3),
		limits.FixedWindow(rate), limits.SlidingWindow(rate), limits.SlidingLog(rate),
		limits.AnchoredWindow(rate), limits.Ban(rate, 360*24*time.Hour),
		limits.Calendar(3, limits.Year), limits.Distinct(rate), limits.Concurrent(3),
	}
}()

// decider returns a backend on a server, which holds units for an hour.
func (s *server) decider(t testing.TB) *redisbackend.Bare {
	return redisbackend.MustNewBare(s.admin, redisbackend.BareOptions{HoldTime: time.Hour})
}

// denied returns how many of the spent limits deny the request n.
func denied(t testing.TB, b *redisbackend.Bare, n int) (denials int) {
	t.Helper()
	for i, limit := range spent {
		out := make([]limits.Decision, 1)
		ok(t, b.Take(t.Context(), []backends.Charge{{
			Scope: fmt.Sprint("scope", i), Key: "key", Limit: limit, Cost: 1, Value: uint64(n),
		}}, out))
		if !out[0].Allowed {
			denials++
		}
	}
	return denials
}

// ways are how an administrator moves keys to another server. Each returns the new server, or nil
// if it refused them.
var ways = []struct {
	name string
	move func(t testing.TB, from *server, to string, options []string) *server
}{
	{"DUMP", func(t testing.TB, from *server, to string, options []string) *server {
		target := startServer(t, to, options...)
		keys, err := from.admin.Keys(t.Context(), "*").Result()
		ok(t, err)
		for _, key := range keys {
			text, err := from.admin.Dump(t.Context(), key).Result()
			ok(t, err)
			left, err := from.admin.PTTL(t.Context(), key).Result()
			ok(t, err)
			err = target.admin.Restore(t.Context(), key, left, text).Err()
			switch {
			case err != nil && strings.Contains(err.Error(), "version or checksum"):
				return nil
			case err != nil:
				t.Fatal(err)
			}
		}
		return target
	}},
	{"`dump.rdb`", func(t testing.TB, from *server, to string, options []string) *server {
		ok(t, from.admin.Save(t.Context()).Err())
		text, err := os.ReadFile(filepath.Join(from.dir(t), "dump.rdb"))
		ok(t, err)
		dir := t.TempDir()
		ok(t, os.WriteFile(filepath.Join(dir, "dump.rdb"), text, 0o600))
		for range tries {
			if target := newServer(t, to, dir, options...); target.starts(t) {
				return target
			}
		}
		return nil
	}},
	{"REPLICAOF", func(t testing.TB, from *server, to string, options []string) *server {
		target := startServer(t, to, options...)
		ok(t, target.admin.ReplicaOf(t.Context(), "127.0.0.1", portOf(from.addr)).Err())
		follows := false
		until(t, "the replica follows, or has refused twice what it was sent", func() bool {
			follows = target.info(t, "replication", "master_link_status") == "up"
			sent, err := strconv.Atoi(from.info(t, "stats", "sync_full"))
			ok(t, err)
			return follows || sent > 2
		})
		ok(t, target.admin.ReplicaOf(t.Context(), "no", "one").Err())
		if !follows {
			return nil
		}
		return target
	}},
}

func (s *server) dir(t testing.TB) string {
	dir, err := s.admin.ConfigGet(t.Context(), "dir").Result()
	ok(t, err)
	return dir["dir"]
}

// moves returns which ways move spent limits from a server to another one, which then denies what
// the old one denied.
func moves(t testing.TB, from, to string, options ...string) (work []string) {
	for _, way := range ways {
		source := startServer(t, from)
		old := source.decider(t)
		for n := range 3 {
			if n := denied(t, old, n); n > 0 {
				t.Fatalf("%d limits denied what they allow", n)
			}
		}
		if n := denied(t, old, 3); n != len(spent) {
			t.Fatalf("%d limits denied, want %d", n, len(spent))
		}
		target := way.move(t, source, to, options)
		if target == nil {
			continue
		}
		source.kill()
		if n := denied(t, target.decider(t), 4); n != len(spent) {
			t.Errorf("%s: after the move %d limits deny, want %d", way.name, n, len(spent))
		}
		work = append(work, way.name)
	}
	return work
}

// words returns how the table says which ways work.
func words(work []string) string {
	switch len(work) {
	case 0:
		return "none"
	case len(ways):
		return "all"
	}
	return strings.Join(work, ", ") + " alone"
}

// The table of docs/redis.md says which ways work. After each that does, the new server denies
// what the old one denied, by all algorithms, and held units count.
func TestAMoveToAnotherServerCarriesTheCounts(t *testing.T) {
	testrun.FullOnly(t, "36 pairs of servers take a minute")
	var titles []string
	for _, program := range programs {
		titles = append(titles, title(t, program))
	}
	cells := make([][]string, len(programs))
	var mu sync.Mutex
	for i, from := range programs {
		cells[i] = make([]string, len(programs))
		for j, to := range programs {
			t.Run(from+" to "+to, func(t *testing.T) {
				t.Parallel()
				text := words(moves(t, from, to))
				if strings.HasPrefix(titles[j], "Valkey") && text != "all" {
					relaxed := words(moves(t, from, to, "--rdb-version-check", "relaxed"))
					if relaxed != text {
						text += "; " + relaxed + " if relaxed"
					}
				}
				mu.Lock()
				defer mu.Unlock()
				cells[i][j] = text
			})
		}
	}
	t.Cleanup(func() {
		if t.Failed() {
			return
		}
		head := "| from \\ to | " + strings.Join(titles, " | ") + " |"
		lines := []string{head}
		for i := range cells {
			lines = append(lines, "| "+titles[i]+" | "+strings.Join(cells[i], " | ")+" |")
		}
		t.Log("\n" + strings.Join(lines, "\n"))
		text, err := os.ReadFile("../../../docs/redis.md")
		ok(t, err)
		guide := strings.Split(string(text), "\n")
		if !slices.Contains(guide, head) {
			t.Log("docs/redis.md has a table of other versions")
			return
		}
		for _, line := range lines {
			if !slices.Contains(guide, line) {
				t.Errorf("docs/redis.md has no line %s", line)
			}
		}
	})
}
