package redisbackend

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/weir/limits"
)

// Options are the options of [New]. The zero value is ready to use.
type Options struct {
	// Prefix starts the names of all keys in Redis. It must not contain braces, nor a number
	// after a colon: the key "1:b:c" of prefix "shop" and scope "a" would be the key "c" of
	// prefix "shop:1:a" and scope "b". Two applications on one Redis need different prefixes.
	// "": "weir".
	Prefix string

	// HashTag, if set, keeps all states in one slot of a Redis Cluster, or one
	// shard of a Ring, so that the rules of a request are decided in one step
	// there too. All load then falls on one server. It must not contain braces.
	HashTag string

	// Together are scopes whose states of one key lie in one slot of a Redis Cluster, or one
	// shard of a Ring: the rules of one user, say. They are then decided in one step there
	// too, and users spread over all servers. The hash tag is a digest of the key, so that a
	// client does not choose its slot. Names change with it: states that other processes
	// keep without it are not found. It is of no use with HashTag. nil: none.
	Together []string

	// HoldTime is how long a unit of a concurrency limit is held after its process was
	// last heard of. A process renews what it holds from a third of it on. So units of a
	// process that has crashed count for that long, and a process that cannot reach Redis
	// for that long holds nothing there. All processes on one Redis need the same. It is
	// 3 s to 1 h. 0: 30 s.
	HoldTime time.Duration

	// Logger logs when Redis has lost units that are held (a warning), and when the
	// condition of one of several servers changes: "weir: Redis server down" and "weir:
	// Redis server replies only with errors" as warnings, "weir: Redis server answers
	// again" as information. nil: the logger that slog.Default returns at that time.
	Logger *slog.Logger
}

// Backend is a [limits.Backend] that keeps state in Redis. It is safe for
// concurrent use. The caller closes the client of a backend from [New], after [Backend.Close]
// if rules of it have an end.
type Backend struct {
	client        redis.Scripter
	own           io.Closer // the client, if Open made it; otherwise nil
	lines         *lines
	now           func() time.Time // of tests; nil: the server's clock
	prefix        string
	tagged        map[string]bool // the scopes of Options.Together
	limits        encodedLimits
	calendarClock calendarClock

	requests sync.Pool // of *request

	spread    spread // scopes whose units may be returned
	giveBacks *giveBacks
	holds     *holds
}

// New returns a backend on client, which may be a [redis.Client], with or
// without Sentinel, a [redis.ClusterClient], a [redis.Ring] or a
// [redis.AutoPipeliner], or a type that embeds one of the first three. It does
// no I/O.
//
// Any other type, such as a wrapper that hides the client it wraps, needs a HashTag. It may
// spread keys over servers, and each shard of a hidden Ring would admit every limit anew.
// New panics if there is none, if client is nil or a [redis.Pipeliner], or if an option
// is illegal.
func New(client redis.Scripter, options Options) *Backend {
	if err := validate(client, options); err != nil {
		panic("redisbackend: New: " + err.Error())
	}
	prefix := options.Prefix
	if prefix == "" {
		prefix = "weir"
	}
	prefix += ":"
	if options.HashTag != "" {
		prefix += "{" + options.HashTag + "}:"
	}
	client = direct(client)
	b := &Backend{client: client, lines: newLines(client, options.Logger), prefix: prefix}
	for _, scope := range options.Together {
		if b.tagged == nil {
			b.tagged = make(map[string]bool)
		}
		b.tagged[scope] = true
	}
	b.giveBacks = newGiveBacks()
	b.holds = newHolds(b, cmp.Or(options.HoldTime, defaultHoldTime), options.Logger)
	b.requests.New = func() any { return new(request) }
	if locate := partitionerOf(client); locate != nil && options.HashTag == "" {
		b.lines.partitioner.Store(&locate)
	}
	return b
}

// Take implements [limits.Backend]. Its errors are those of the client, wrapped.
func (b *Backend) Take(ctx context.Context, charges []limits.Charge, out []limits.Decision) error {
	return b.decide(ctx, charges, out, mode{instant: b.instant()})
}

// Peek implements [limits.Peeker].
func (b *Backend) Peek(ctx context.Context, charges []limits.Charge, out []limits.Decision) error {
	return b.decide(ctx, charges, out, mode{true, b.instant()})
}

// Reset implements [limits.Resetter].
func (b *Backend) Reset(ctx context.Context, scope, key string) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("redisbackend: reset: %w", panicked(v))
		}
	}()
	e := b.newErrand(ctx, &resetScript, b.name(scope, key), 1, 1)
	e.priority = taking
	if err := b.sendAll(ctx, []*errand{e})[0]; err != nil {
		return fmt.Errorf("redisbackend: reset: %w", err)
	}
	return nil
}

// Supports implements [limits.Supporter]. It reports whether the scripts know the
// algorithm of limit: all that this version of weir has.
func (b *Backend) Supports(limit limits.Limit) bool {
	a := int(limit.Algorithm())
	return a < len(algorithms) && algorithms[a].letter != 0
}

// HonoursDeadline reports that [Backend.Take] and [Backend.Peek] fail as soon as
// the deadline of their context has passed, whatever the client is doing: the client
// works on goroutines of the backend. Package remote asks, and then needs no goroutine
// of its own for a decision.
//
// The one exception is a process that runs late: its goroutines wait for five
// milliseconds or more until they run, so it does not read replies in time. While it is
// late and other replies come in, Take waits longer, for a second at most. A call on the
// caller's own goroutine that fails for this reason is repeated once.
func (b *Backend) HonoursDeadline() bool { return true }

// mode says how a request is decided.
type mode struct {
	peeks   bool
	instant int64 // that the script is given; 0: it uses the server's clock
}

// name is the name of a mode in take.lua.
func (m mode) name() string {
	if m.peeks {
		return "peek"
	}
	return "take"
}

// instant returns the instant that scripts are given.
func (b *Backend) instant() int64 {
	if b.now == nil {
		return 0
	}
	return b.now().UnixMicro()
}

var errLengths = errors.New("redisbackend: charges and decisions differ in length")

func (b *Backend) decide(ctx context.Context, charges []limits.Charge, out []limits.Decision, mode mode) error {
	if len(charges) != len(out) {
		return errLengths
	}
	if len(charges) == 0 {
		return nil
	}
	r := b.requests.Get().(*request)
	back, err := b.decideRequest(ctx, r, charges, out, mode)
	if back {
		b.recycle(r)
		if err != nil && b.calendarClock.learn(err) {
			r = b.requests.Get().(*request)
			if back, err = b.decideRequest(ctx, r, charges, out, mode); back {
				b.recycle(r)
			}
		}
	}
	return err
}

// decideRequest decides charges in the memory of r, and reports whether no call uses that any more.
func (b *Backend) decideRequest(ctx context.Context, r *request, charges []limits.Charge, out []limits.Decision, mode mode) (back bool, err error) {
	if err := b.accountsOf(charges, r, mode); err != nil {
		return true, err
	}
	all, back, err := b.decideAccounts(ctx, r, mode)
	if err != nil {
		return back, fmt.Errorf("redisbackend: %w", err)
	}
	for i, owner := range r.owners {
		if charges[i].Shadow {
			out[i] = all[owner].shadow
		} else {
			out[i] = all[owner].enforced
		}
	}
	if b.lines.partitioner.Load() != nil {
		b.markTransient(charges, out)
	}
	if r.holds && !mode.peeks {
		b.hold(r, charges, out)
	}
	return true, nil
}

// request is the memory of a decision, pooled.
type request struct {
	merged   []limits.Account
	accounts []account // the same, with names and encoded limits
	owners   []int     // index of the account of each charge
	ask      ask
	holds    bool // some accounts are of concurrency limits
}

func (b *Backend) recycle(r *request) {
	clear(r.merged)
	clear(r.accounts)
	r.merged, r.accounts, r.owners, r.holds = r.merged[:0], r.accounts[:0], r.owners[:0], false
	r.ask.reset()
	b.requests.Put(r)
}

// decideAccounts decides all accounts, in one step if one partition keeps them all. It reports whether
// no call uses r any more.
func (b *Backend) decideAccounts(ctx context.Context, r *request, mode mode) (all []result, back bool, err error) {
	if locate := b.lines.partitioner.Load(); locate != nil && len(r.accounts) > 1 {
		groups, err := groupsOf(r.accounts, *locate)
		if err != nil {
			return nil, true, err
		}
		if len(groups) > 1 {
			all, err := b.decideSpread(ctx, groups, r.accounts, mode)
			return all, true, err
		}
	}
	back, err = b.step(ctx, &r.ask, r.accounts, mode)
	if back && len(r.accounts) > 1 && redis.HasErrorPrefix(err, "CROSSSLOT") && b.lines.learnSlots() {
		r.ask.reset()
		return b.decideAccounts(ctx, r, mode)
	}
	if err != nil {
		return nil, back, err
	}
	return r.ask.results, true, nil
}

// step decides accounts that one partition keeps. It reports whether the caller owns a and accounts again.
func (b *Backend) step(ctx context.Context, a *ask, accounts []account, mode mode) (back bool, err error) {
	if err := ctx.Err(); err != nil && !b.lines.mayBeLate(err) {
		return true, err
	}
	l, err := b.lines.of(ctx, accounts[0].name)
	if err != nil {
		return true, err
	}
	a.prepare(ctx, b, accounts, mode)
	if back, err = l.decide(ctx, a); err != nil {
		return back, b.lines.blame(l.explained(err, accounts), l)
	}
	return true, nil
}
