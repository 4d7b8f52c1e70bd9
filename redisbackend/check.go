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
	"github.com/weir-go/weir/redisbackend/internal/line"
	"github.com/weir-go/weir/redisbackend/internal/wire"
)

// ErrEvicts is part of the error of [Backend.Check] if a server may evict live state when its
// memory is full. Clients then get their whole limit again.
var ErrEvicts = errors.New(
	"the eviction policy drops live state: set maxmemory-policy to noeviction")

// checker checks the servers of a client.
type checker struct {
	client redis.Scripter
	names  *wire.Names
}

// all checks all servers.
func (k *checker) all(ctx context.Context) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = line.Panicked(v)
		}
	}()
	switch client := k.client.(type) {
	case line.Cluster:
		checkMaster := func(ctx context.Context, master *redis.Client) error {
			return k.checkMaster(ctx, client, master)
		}
		return errors.Join(
			each(ctx, client, client.ForEachMaster, checkMaster), checkRouting(client))
	case line.Ring:
		checkShard := func(ctx context.Context, shard *redis.Client) error {
			return check(ctx, shard, k.names.NameOf("check"))
		}
		err := each(ctx, client, client.ForEachShard, checkShard)
		up, shards := client.Len(), len(client.Options().Addrs)
		if up < shards { // ForEachShard leaves out shards that are down
			err = errors.Join(err, fmt.Errorf("%d of %d shards are up", up, shards))
		}
		return err
	}
	return check(ctx, k.client, k.names.NameOf("check"))
}

// each checks every server of a client and joins the errors.
func each(
	ctx context.Context, client redis.Scripter,
	forEach func(context.Context, func(context.Context, *redis.Client) error) error,
	check func(context.Context, *redis.Client) error,
) error {
	var mu sync.Mutex
	var errs []error
	err := forEach(ctx, func(ctx context.Context, server *redis.Client) (err error) {
		defer func() { // this is a goroutine of the client
			if v := recover(); v != nil {
				err = line.Panicked(v)
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
		err = howToAllow(line.WithoutTLS(line.Advised(err), client), "")
	}
	return errors.Join(append(errs, err)...)
}

// checkMaster checks what a master says of its Cluster, and then the master itself with a key that
// it keeps.
func (k *checker) checkMaster(ctx context.Context, client line.Cluster, master *redis.Client) error {
	info, err := master.ClusterInfo(ctx).Result()
	switch {
	case err != nil && strings.Contains(err.Error(), "run the 'cluster' command"):
		return fmt.Errorf("%w: allow the user +cluster|info", err) // Redis 6 names no subcommand
	case err != nil:
		return howToAllow(line.Advised(err), "")
	}
	var errs []error
	if state := field(info, "cluster_state"); state != "ok" {
		errs = append(errs, fmt.Errorf("cluster_state is %q", state))
	}
	if served := field(info, "cluster_slots_ok"); served != fmt.Sprint(slot.Slots) {
		errs = append(errs, fmt.Errorf("%s of %d slots are served", served, slot.Slots))
	}
	key, err := k.keyAt(ctx, client, master)
	if err == nil {
		err = check(ctx, client, key)
	}
	return errors.Join(append(errs, err)...)
}

// keyAt returns a name that a master keeps.
func (k *checker) keyAt(ctx context.Context, client line.Cluster, master *redis.Client) (string, error) {
	prefix, _, _ := strings.Cut(k.names.NameOf(""), "{") // a hash tag would keep all in one slot
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

// check runs the check script twice on the server that keeps key.
func check(ctx context.Context, client redis.Scripter, key string) error {
	var clock time.Time
	for first := true; ; first = false {
		var found findings
		c := line.ScriptCall{Script: &checkScript, Keys: []string{key}, Receiver: &found, Most: line.MaxText}
		if first { // EVAL also shows whether scripts may be sent
			c.Run(ctx, client, "eval", checkScript.Source)
		} else {
			line.Run(ctx, client, &c)
		}
		if c.Err != nil {
			return howToAllow(line.WithoutTLS(c.Err, client), key)
		}
		if !first {
			mode := cmp.Or(field(found.info, "redis_mode"), field(found.info, "server_mode"))
			err := errors.Join(judgeServers(ctx, client, key, mode == "cluster"),
				judge(found.info), judgeClock(clock, found.now))
			if err != nil {
				err = fmt.Errorf("%s: %w", product(found.info), err)
			}
			return err
		}
		clock = found.now
		time.Sleep(time.Millisecond) // clocks may be coarser than a microsecond
	}
}

// findings is the reply of check.lua.
type findings struct {
	now  time.Time
	info string // the sections server and memory of INFO
}

// Receive implements [line.Receiver].
func (f *findings) Receive(r *line.Reply) error {
	us, ok := r.Number()
	if !ok || us < 0 {
		return line.ErrForeign
	}
	f.now, f.info = time.UnixMicro(us), r.Rest()
	return nil
}

// clockTolerance is how far the clock of a server may be from the one of this machine.
const clockTolerance = 24 * time.Hour

// judgeClock returns an error if the clock of a server is wrong. Scripts have read it twice. Some
// servers that speak the protocol of Redis have a clock that stands still in scripts: no unit
// would ever be returned.
func judgeClock(first, second time.Time) error {
	if !second.After(first) {
		return errors.New("the clock stands still: two scripts read the same TIME, 1 ms apart")
	}
	if off := time.Until(second).Abs(); off > clockTolerance {
		off = off.Round(time.Minute)
		return fmt.Errorf("the clock is %v off this machine's: set one of them", off)
	}
	return nil
}

// judge returns an error if a server is too old or evicts, by the sections server and memory of
// its INFO.
func judge(info string) error {
	var errs []error
	var major, minor int
	if field(info, "valkey_version") == "" {
		_, err := fmt.Sscanf(field(info, "redis_version"), "%d.%d", &major, &minor)
		if err != nil || major < 6 || major == 6 && minor < 2 {
			errs = append(errs, errors.New("needs Redis 6.2 or later, or Valkey"))
		}
	}
	if policy := field(info, "maxmemory_policy"); policy != "noeviction" {
		errs = append(errs, fmt.Errorf("maxmemory-policy is %q: %w", policy, ErrEvicts))
	}
	return errors.Join(errs...)
}

// product returns the name and version of a server, by the section server of its INFO. Servers
// that imitate Redis have a redis_version besides their own.
func product(server string) string {
	for _, p := range []struct{ name, version string }{
		{"Valkey", "valkey_version"},
		{"Dragonfly", "dragonfly_version"},
		{"Garnet", "garnet_version"},
	} {
		if version := field(server, p.version); version != "" {
			return p.name + " " + version
		}
	}
	name := "Redis "
	if strings.Contains(server, "\nfeatures:") { // only KeyDB has this field
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
