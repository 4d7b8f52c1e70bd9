package redisbackend

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/weir/internal/ground/isnil"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
	"github.com/weir-go/weir/remote"
)

// Options are the options of [New] and [Open]. The zero value is ready to use.
type Options struct {
	// Prefix starts the names of all keys in Redis. It must not contain braces, nor a number
	// after a colon: the key "1:b:c" of prefix "shop" and scope "a" would be the key "c" of
	// prefix "shop:1:a" and scope "b". Two applications on one Redis need different prefixes.
	// "": "weir".
	Prefix string

	// Budget is how long a decision waits for Redis, an hour at most. Then the failure policy of
	// its rule decides. 0: 50ms.
	Budget time.Duration

	// OpenFor is how long Redis is left alone when it keeps failing, before one decision asks
	// it again, and between one such probe and the next. 0: 1s.
	OpenFor time.Duration

	// Lease is how long a process may hold units of busy keys, 10ms to 1s, so that it decides
	// them without a round trip: see [remote.LeaseCache]. It has to be the same on all
	// instances. 0: Redis makes every decision.
	Lease time.Duration

	// Announce tells the other instances of denials that last a second or more, and this one of
	// theirs: see [Announcer]. The client must be one that can subscribe, so not a
	// [redis.AutoPipeliner] or a wrapper. false: denials stay in this process.
	Announce bool

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

	// Wrap returns a backend around the one that asks Redis, inside the time budget: one that
	// measures, such as a [stats.Backend]. New calls it once. nil: none.
	Wrap func(backends.Backend) backends.Backend

	// Logger logs each change of Redis once. "weir: backend degraded" is a warning, with the
	// failure and what follows, and "weir: backend recovered" is information. It is "weir:
	// backend fails from the start" if Redis has never decided. It also logs when Redis has
	// lost units that are held (a warning), and when the condition of one of several servers
	// changes: "weir: Redis server down" and "weir: Redis server replies only with errors" as
	// warnings, "weir: Redis server answers again" as information. nil: the logger that
	// slog.Default returns at that time.
	Logger *slog.Logger
}

// Backend is a [backends.Backend] that keeps state in Redis and never makes a request wait long. A
// denial cache answers who goes on after a denial, a breaker bounds the time of decisions and stops
// asking a Redis that keeps failing: see package remote. It is safe for concurrent use.
//
// Limiters on one Backend share the memory that decides while Redis fails.
type Backend struct {
	bare      *Bare
	stack     *remote.Stack
	announcer *Announcer // nil: none
	own       io.Closer  // the client, if Open made it; otherwise nil
}

// New returns a backend on client, which may be a [redis.Client], with or without Sentinel, a
// [redis.ClusterClient], a [redis.Ring] or a [redis.AutoPipeliner], or a type that embeds one of
// the first three. It does no I/O. The caller closes the client, after [Backend.Close].
//
// Any other type, such as a wrapper that hides the client it wraps, needs a HashTag. It may
// spread keys over servers, and each shard of a hidden Ring would admit every limit anew.
//
// The error reports every mistake in the arguments.
func New(client redis.Scripter, options Options) (*Backend, error) {
	return newBackend(client, options)
}

// MustNew is [New] for arguments that the program sets. It panics if they have a mistake.
func MustNew(client redis.Scripter, options Options) *Backend {
	b, err := New(client, options)
	if err != nil {
		panic(err)
	}
	return b
}

func newBackend(client redis.Scripter, o Options) (*Backend, error) {
	err := errors.Join(validateClient(client, o.HashTag), o.validate())
	subscriber, subscribes := client.(redis.UniversalClient)
	if o.Announce && !subscribes && client != nil {
		err = errors.Join(err, fmt.Errorf("redisbackend: announce: a %T cannot subscribe: pass the client that it wraps", client))
	}
	if err != nil {
		return nil, err
	}
	b := &Backend{bare: newBare(client, o.bare())}
	inner := backends.Backend(b.bare)
	if o.Wrap != nil {
		if inner = o.Wrap(inner); isnil.Of(inner) {
			return nil, fmt.Errorf("redisbackend: wrap: returned nil (got %T): return a backend around the one it gets", inner)
		}
	}
	stack := o.stack()
	if o.Announce {
		b.announcer = MustNewAnnouncer(subscriber, AnnouncerOptions{Prefix: o.Prefix, Logger: o.Logger})
		stack.Announcer = b.announcer
	}
	b.stack, err = remote.NewStack(inner, stack)
	return b, err
}

func (o *Options) bare() BareOptions {
	return BareOptions{Prefix: o.Prefix, HashTag: o.HashTag, Together: o.Together, HoldTime: o.HoldTime, Logger: o.Logger}
}

func (o *Options) stack() remote.StackOptions {
	return remote.StackOptions{Budget: o.Budget, OpenFor: o.OpenFor, Lease: o.Lease, Logger: o.Logger}
}

// validate returns every mistake in o.
func (o *Options) validate() error {
	bare := o.bare()
	errs := []error{bare.validate()}
	if err := o.stack().Validate(); err != nil { // the fields have the same names here
		errs = append(errs, errors.New(strings.ReplaceAll(err.Error(), "remote: ", "redisbackend: ")))
	}
	return errors.Join(errs...)
}

// Take implements [backends.Backend]. Its errors are those of package remote, and those of the
// client, wrapped.
func (b *Backend) Take(ctx context.Context, charges []backends.Charge, out []limits.Decision) error {
	return b.stack.Take(ctx, charges, out)
}

// Peek implements [backends.Peeker]. It asks Redis, within the time budget.
func (b *Backend) Peek(ctx context.Context, charges []backends.Charge, out []limits.Decision) error {
	return b.stack.Peek(ctx, charges, out)
}

// Reset implements [backends.Resetter]. It has no time budget but ctx.
func (b *Backend) Reset(ctx context.Context, scope, key string) error {
	return b.stack.Reset(ctx, scope, key)
}

// Settle implements [backends.Settler]. It has no time budget but ctx.
func (b *Backend) Settle(ctx context.Context, endings []backends.Ending, out []limits.Settlement) error {
	return b.stack.Settle(ctx, endings, out)
}

// Unwrap returns the [remote.Stack] around Redis, which has a [Bare] in it.
func (b *Backend) Unwrap() backends.Backend { return b.stack }

// Status returns the state of the breaker, for health checks and metrics: see
// [remote.Breaker.Status].
func (b *Backend) Status() backends.BreakerStatus { return b.stack.Status() }

// Leases returns what this process holds of busy keys, and has done with leases: see
// [remote.LeaseCache.Counts]. Without [Options].Lease it returns the zero value.
func (b *Backend) Leases() backends.LeaseCounts { return b.stack.Leases() }

// Announcer returns the announcer of [Options].Announce, for the denial cache of another backend
// and for its counts; nil without it. Close of the backend closes it.
func (b *Backend) Announcer() *Announcer { return b.announcer }

// Check returns nil if Redis will do: see [Bare.Check].
func (b *Backend) Check(ctx context.Context) error { return b.bare.Check(ctx) }

// Close ends all that the backend has begun: [Bare.Close] says what it waits for. It closes the
// announcer, and the client if [Open] made it; the caller closes the client of [New] after that.
// Decisions fail then, except for those from memory. Close may be called while decisions are made.
func (b *Backend) Close() error {
	err := b.bare.Close()
	if b.announcer != nil {
		err = errors.Join(err, b.announcer.Close())
	}
	if b.own != nil {
		err = errors.Join(err, b.own.Close())
	}
	return err
}
