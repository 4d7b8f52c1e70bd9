package redisbackend

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/weir-go/weir/internal/ground/slot"
)

// ErrEvicts is part of the error of [Backend.Check] if a server may drop live
// state when its memory is full.
var ErrEvicts = errors.New("the eviction policy drops live state, and with it what clients have used: set maxmemory-policy to noeviction")

// Check returns nil if every server of the client is reachable, takes writes, runs the
// scripts, has a clock that goes, is Redis 6.2 or later or Valkey, and evicts nothing; if a
// Cluster serves all its slots; and if no node of a Cluster is taken for a server that stands
// alone. Otherwise its error reports everything that is wrong. If errors.Is finds
// [ErrEvicts] in it, the server still decides. If the script ran, the
// error names the server that was found, such as Valkey 8.1.1.
//
// Call it when a program starts, or from a readiness probe. It is optional: a limiter
// also works if Check fails, and applies the [core.FailurePolicy] of its rules to decisions
// that fail.
//
// Check needs the command INFO, which decisions do not need, and CLUSTER INFO on a
// Cluster. An error about a forbidden command names it, and docs/redis.md lists the
// commands to allow.
//
// Check asks every master of a Cluster, and every shard in the RingOptions.Addrs of a
// Ring. Of any other client, such as an auto-pipeliner, it asks one server.
func (b *Bare) Check(ctx context.Context) error {
	err := b.checkAll(ctx)
	if err != nil {
		return fmt.Errorf("redisbackend: check: %w", err)
	}
	return nil
}

func (b *Bare) checkAll(ctx context.Context) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = panicked(v)
		}
	}()
	switch client := b.client.(type) {
	case cluster:
		return each(ctx, client, client.ForEachMaster, func(ctx context.Context, master *redis.Client) error {
			return b.checkMaster(ctx, client, master)
		})
	case ring:
		err := each(ctx, client, client.ForEachShard, func(ctx context.Context, shard *redis.Client) error {
			return check(ctx, shard, b.prefix+"check")
		})
		if up, all := client.Len(), len(client.Options().Addrs); up < all { // the client does not ask the others
			err = errors.Join(err, fmt.Errorf("%d of %d shards are up", up, all))
		}
		return err
	}
	return check(ctx, b.client, b.prefix+"check")
}

// each checks every server of a client and returns all errors.
func each(
	ctx context.Context, client redis.Scripter, forEach func(context.Context, func(context.Context, *redis.Client) error) error,
	check func(context.Context, *redis.Client) error,
) error {
	var mu sync.Mutex
	var errs []error
	err := forEach(ctx, func(ctx context.Context, server *redis.Client) (err error) {
		defer func() { // this is a goroutine of the client
			if v := recover(); v != nil {
				err = panicked(v)
			}
		}()
		if err := check(ctx, server); err != nil {
			mu.Lock()
			defer mu.Unlock()
			errs = append(errs, fmt.Errorf("%s: %w", server.Options().Addr, err))
		}
		return nil
	})
	if err != nil {
		err = howToAllow(withoutTLS(advised(err), client), "")
	}
	return errors.Join(append(errs, err)...)
}

// checkMaster asks a master about the state of its Cluster, and runs the check on a key that
// this master keeps.
func (b *Bare) checkMaster(ctx context.Context, client cluster, master *redis.Client) error {
	info, err := master.ClusterInfo(ctx).Result()
	if err != nil && strings.Contains(err.Error(), "run the 'cluster' command") { // as before Redis 7: CLUSTER INFO is meant
		return fmt.Errorf("%w: allow the user +cluster|info, and see docs/redis.md for what else it needs", err)
	} else if err != nil {
		return howToAllow(advised(err), "")
	}
	var errs []error
	if state := field(info, "cluster_state"); state != "ok" {
		errs = append(errs, fmt.Errorf("cluster_state is %q", state))
	}
	if served := field(info, "cluster_slots_ok"); served != fmt.Sprint(slot.Slots) {
		errs = append(errs, fmt.Errorf("%s of %d slots are served", served, slot.Slots))
	}
	key, err := b.keyAt(ctx, client, master)
	if err == nil {
		err = check(ctx, client, key)
	}
	return errors.Join(append(errs, err)...)
}

// keyAt returns a name that a master keeps.
func (b *Bare) keyAt(ctx context.Context, client cluster, master *redis.Client) (string, error) {
	prefix, _, _ := strings.Cut(b.prefix, "{") // a hash tag would keep all in one slot
	for i := range 16 * slot.Slots {
		key := fmt.Sprint(prefix, "check:", i)
		if keeper, err := client.MasterForKey(ctx, key); err != nil {
			return "", err
		} else if keeper == master {
			return key, nil
		}
	}
	return "", errors.New("keeps no slot")
}

// check runs the check script on the server that keeps key.
func check(ctx context.Context, client redis.Scripter, key string) error {
	var clock time.Time
	for first := true; ; first = false {
		var found findings
		c := scriptCall{script: &checkScript, keys: []string{key}, receiver: &found, most: maxText}
		if first { // a server that knows the script does not show whether it may be sent
			c.run(ctx, client, "eval", checkScript.source)
		} else {
			run(ctx, client, &c)
		}
		if c.err != nil {
			return howToAllow(withoutTLS(c.err, client), key)
		}
		if !first {
			var err error
			if _, ok := client.(single); ok && cmp.Or(field(found.info, "redis_mode"), field(found.info, "server_mode")) == "cluster" { // Valkey has the latter
				err = errors.New(useCluster)
			}
			if err = errors.Join(err, judge(found.info), judgeClock(clock, found.now)); err != nil {
				err = fmt.Errorf("%s: %w", product(found.info), err)
			}
			return err
		}
		clock = found.now
		time.Sleep(time.Millisecond) // a clock need not tell all microseconds apart
	}
}

// findings is what check.lua replies.
type findings struct {
	now  time.Time
	info string // its sections server and memory
}

// receive implements [receiver].
func (f *findings) receive(r *reply) error {
	us, ok := r.number()
	if !ok || us < 0 {
		return errForeign
	}
	f.now, f.info = time.UnixMicro(us), r.rest()
	return nil
}

// clockTolerance is by how much the clocks of a server and of this process may differ.
const clockTolerance = 24 * time.Hour

// judgeClock returns what is wrong with the clock of a server, which scripts have read twice. Some
// servers that speak the protocol of Redis have one that stands still in scripts: nothing would ever
// come back.
func judgeClock(first, second time.Time) error {
	if !second.After(first) {
		return errors.New("the clock stands still: TIME in two scripts, a millisecond apart, replied the same")
	}
	if off := time.Until(second).Abs(); off > clockTolerance {
		return fmt.Errorf("the clock is %v off this machine's: set one of them", off.Round(time.Minute))
	}
	return nil
}

// judge returns what is wrong with a server, by the sections server and memory of its INFO.
func judge(info string) error {
	var errs []error
	var major, minor int
	if field(info, "valkey_version") == "" {
		if _, err := fmt.Sscanf(field(info, "redis_version"), "%d.%d", &major, &minor); err != nil || major < 6 || major == 6 && minor < 2 {
			errs = append(errs, errors.New("needs Redis 6.2 or later, or Valkey"))
		}
	}
	if policy := field(info, "maxmemory_policy"); policy != "noeviction" {
		errs = append(errs, fmt.Errorf("maxmemory-policy is %q: %w", policy, ErrEvicts))
	}
	return errors.Join(errs...)
}

// product returns the name and the version of a server, by the section server of its INFO. Servers that
// speak like Redis tell a redis_version, besides their own.
func product(server string) string {
	for _, p := range []struct{ name, version string }{
		{"Valkey", "valkey_version"}, {"Dragonfly", "dragonfly_version"}, {"Garnet", "garnet_version"},
	} {
		if version := field(server, p.version); version != "" {
			return p.name + " " + version
		}
	}
	name := "Redis "
	if strings.Contains(server, "\nfeatures:") { // which KeyDB alone has
		name = "KeyDB "
	}
	return name + field(server, "redis_version")
}

// field returns the value of a line of INFO.
func field(info, name string) string {
	for line := range strings.Lines(info) {
		if value, ok := strings.CutPrefix(line, name+":"); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}
