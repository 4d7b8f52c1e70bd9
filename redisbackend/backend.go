package redisbackend

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/weir-go/weir/core"
)

// Options are the options of [New]. The zero value is ready to use.
type Options struct {
	// Prefix is what the names of all keys in Redis start with. Two
	// applications on one Redis need two. "": "weir".
	Prefix string

	// HashTag, if set, keeps all states in one slot of a Redis Cluster, or one
	// shard of a Ring, so that the rules of a request are decided in one step
	// there too. All load then falls on one server.
	HashTag string
}

// Backend is a [core.Backend] that keeps state in Redis. It is safe for
// concurrent use and has nothing to close: the client is the caller's.
type Backend struct {
	client redis.Scripter
	prefix string
	now    func() time.Time // nil: the server's clock
	slack  time.Duration    // that a state outlives its use
	limits limits
}

// slack covers what the clock that expires keys, in milliseconds, may be ahead
// of the one that scripts read.
const slack = time.Second

// New returns a backend on client, which may be a [redis.Client], with or
// without Sentinel, a [redis.ClusterClient], a [redis.Ring] or a
// [redis.AutoPipeliner]. It does no I/O. It panics if client is nil.
func New(client redis.Scripter, options Options) *Backend {
	if client == nil {
		panic("redisbackend: New: the client is nil")
	}
	prefix := options.Prefix
	if prefix == "" {
		prefix = "weir"
	}
	prefix += ":"
	if options.HashTag != "" {
		prefix += "{" + options.HashTag + "}:"
	}
	return &Backend{client: client, prefix: prefix, slack: slack}
}

// Take implements [core.Backend]. Its errors are those of the client, wrapped.
func (b *Backend) Take(ctx context.Context, charges []core.Charge, out []core.Decision) error {
	return b.decide(ctx, charges, out, modeTake)
}

// Peek implements [core.Peeker].
func (b *Backend) Peek(ctx context.Context, charges []core.Charge, out []core.Decision) error {
	return b.decide(ctx, charges, out, modePeek)
}

// Reset implements [core.Resetter].
func (b *Backend) Reset(ctx context.Context, scope, key string) error {
	if err := resetScript.run(ctx, b.client, []string{b.name(scope, key)}).Err(); err != nil {
		return fmt.Errorf("redisbackend: reset: %w", err)
	}
	return nil
}

// The modes of take.lua.
const (
	modeTake = "take"
	modePeek = "peek"
)

var errLengths = errors.New("redisbackend: charges and decisions differ in length")

func (b *Backend) decide(ctx context.Context, charges []core.Charge, out []core.Decision, mode string) error {
	if len(charges) != len(out) {
		return errLengths
	}
	if len(charges) == 0 {
		return nil
	}
	var (
		accountRoom [4]account
		ownerRoom   [4]int
	)
	accounts, owners, err := b.accountsOf(charges, accountRoom[:0], ownerRoom[:0])
	if err != nil {
		return err
	}
	keys, args := b.arguments(accounts, mode)
	reply, err := takeScript.run(ctx, b.client, keys, args...).Int64Slice()
	if err != nil {
		return fmt.Errorf("redisbackend: %w", err)
	}
	return answer(reply, accounts, owners, charges, out)
}

// arguments returns KEYS and ARGV of take.lua.
func (b *Backend) arguments(accounts []account, mode string) (keys []string, args []any) {
	keys = make([]string, 0, len(accounts))
	args = append(make([]any, 0, 3+6*len(accounts)), b.instant(), mode, b.slack.Milliseconds())
	for i := range accounts {
		a := &accounts[i]
		keys = append(keys, a.name)
		kind, shadow := a.limit.kind, ""
		if a.shadows {
			shadow = strconv.FormatInt(a.shadow, 10)
		}
		if a.shadows || a.enforced == 0 || a.enforced > a.charge.Limit.Burst() {
			kind = ""
		}
		args = append(args, a.limit.text, a.enforced, shadow, kind, a.limit.most, a.limit.p)
	}
	return keys, args
}

func (b *Backend) instant() int64 {
	if b.now == nil {
		return 0
	}
	return b.now().UnixMicro()
}

// answer sets out to what take.lua replied.
func answer(reply []int64, accounts []account, owners []int, charges []core.Charge, out []core.Decision) error {
	want := 1
	for i := range accounts {
		want += partLength
		if accounts[i].shadows {
			want += partLength
		}
	}
	if len(reply) != want {
		return fmt.Errorf("redisbackend: the script replied with %d numbers instead of %d", len(reply), want)
	}
	now, rest := reply[0], reply[1:]
	for i := range accounts {
		var part [2]core.Decision
		part[0], rest = decision(now, rest), rest[partLength:]
		if accounts[i].shadows {
			part[1], rest = decision(now, rest), rest[partLength:]
		}
		for j, owner := range owners {
			if owner != i {
				continue
			}
			if charges[j].Shadow {
				out[j] = part[1]
			} else {
				out[j] = part[0]
			}
		}
	}
	return nil
}

// partLength is how many numbers make a decision.
const partLength = 5

func decision(now int64, part []int64) core.Decision {
	return core.Decision{
		Allowed:         part[1] == 0,
		Remaining:       part[0],
		RetryAfter:      wait(part[1]),
		ResetAfter:      wait(part[2]),
		EffectiveWindow: wait(part[3]),
		Delay:           wait(part[4]),
		At:              now,
	}
}

func wait(us int64) time.Duration {
	if us < 0 {
		return core.Never
	}
	return time.Duration(us) * time.Microsecond
}
