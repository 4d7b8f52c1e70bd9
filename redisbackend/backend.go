package redisbackend

import (
	"cmp"
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
	// Prefix starts the names of all keys in Redis. Two applications on one Redis need different
	// prefixes. It must not contain braces, nor one of "=!~+#" after a colon: they stand between
	// scope and key. If clients are free to invent the values of a
	// [limits.Distinct], add a secret to it, such as "shop-1f6be0c4": with one that they know, they
	// can look for values that count as one. "": "weir".
	Prefix string

	// Budget is how long a decision waits for Redis, an hour at most. After that the failure
	// policy of its rule decides. 0: 50ms.
	Budget time.Duration

	// OpenFor is how long Redis is left alone once it keeps failing, and then the time from one
	// probe to the next. A probe is one decision that asks Redis again. 0: 500ms.
	OpenFor time.Duration

	// Lease is how long a process may hold units of busy keys, 10ms to 1s, so that it decides them
	// without a round trip: see [remote.LeaseCache]. Small limits are not leased: with a Lease of
	// 1s a window leases if it allows more than 120 a second, 360 a minute or 21,600 an hour, see
	// [remote.Leased]. All instances need the same Lease. 0: Redis makes every decision.
	Lease time.Duration

	// Announce tells the other instances of denials that last a second or more, and this one of
	// theirs: see [Announcer]. The client must be able to subscribe, unlike a
	// [redis.AutoPipeliner] or a wrapper. false: denials stay in this process.
	Announce bool

	// HashTag keeps all states in one slot of a Redis Cluster, or one shard of a Ring, so that one
	// step decides all rules of a request. All load then falls on one server. It must not contain
	// braces. "": states spread over all servers.
	HashTag string

	// Together are scopes whose states of one key share a slot of a Redis Cluster, or a shard of a
	// Ring: the rules of one user, say. One step then decides these rules, and users still spread
	// over all servers. The hash tag is a digest of the key, so that no key names its slot.
	// The names of these states change: a process without the same Together does not find them. It
	// cannot be combined with HashTag. nil: none.
	Together []string

	// HoldTime is how long a unit of a concurrency limit is held after the latest sign of life of
	// its process, 3s to 1h. A process renews its units after a third of it. So units of a process
	// that has crashed count for HoldTime, and a process that cannot reach Redis for that long
	// loses its units. All processes on one Redis need the same HoldTime. 0: 30s.
	HoldTime time.Duration

	// Heartbeat counts the backends with this Prefix, one for each process: see
	// [Backend.Instances]. While Redis is away, fallbacks in memory then divide their limits by
	// that number. A backend sends one command every 3 seconds, from New to [Backend.Close]. All
	// instances need it, since those without it are not counted. false: they are not counted, and
	// Instances in the Config of a limiter is the number.
	Heartbeat bool

	// Wrap returns a backend around the one that asks Redis, inside the time budget, such as a
	// [stats.Backend] that measures. New calls it once. nil: none.
	Wrap func(backends.Backend) backends.Backend

	// Logger logs each change of Redis once. Warnings are "weir: backend degraded", with the
	// failure and its effect; "weir: backend fails from the start" if Redis never decided; and
	// that Redis has lost units that are held. "weir: backend recovered" is information. "weir:
	// instances are not counted: their number stays" is a warning, once four beats of Heartbeat
	// have failed, and "weir: instances are counted again" is information. Where
	// there is one server, "weir: a proxy spreads what one Redis server has to decide" is a warning,
	// see [Bare.Take], and "weir: one Redis server decides alone again" is information. Where
	// there are several servers, "weir: Redis server down" and "weir: Redis server replies only
	// with errors" are warnings, and "weir: Redis server answers again" is information. nil: the
	// logger that slog.Default returns at that time.
	Logger *slog.Logger
}

// Backend is a [backends.Backend] that keeps state in Redis and never makes a request wait long. A
// denial cache answers clients that go on after a denial. A breaker bounds the time of decisions
// and stops asking a Redis that keeps failing. It is safe for concurrent use.
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
// Any other type, such as a wrapper that hides its client, needs a HashTag: it might spread keys
// over servers, and each shard of a hidden Ring would admit every limit anew.
//
// The error reports every mistake in the arguments.
func New(client redis.Scripter, options Options) (*Backend, error) {
	return newBackend(client, options)
}

// MustNew is [New] for arguments that the program sets. It panics if they have a mistake.
func MustNew(client redis.Scripter, options Options) *Backend {
	return must(New(client, options))
}

func newBackend(client redis.Scripter, o Options) (*Backend, error) {
	err := errors.Join(validateClient(client, o.HashTag), o.validate())
	subscriber, subscribes := client.(redis.UniversalClient)
	if o.Announce && !subscribes && client != nil {
		err = errors.Join(err, fmt.Errorf(
			"redisbackend: announce: a %T cannot subscribe: pass the client that it wraps", client))
	}
	if err != nil {
		return nil, err
	}
	b := &Backend{bare: newBare(client, o.bare())}
	inner := backends.Backend(b.bare)
	if o.Wrap != nil {
		if inner = o.Wrap(inner); isnil.Of(inner) {
			return nil, fmt.Errorf(
				"redisbackend: wrap: returned nil (got %T): return a backend", inner)
		}
	}
	stack := o.stack()
	if o.Announce {
		b.announcer = MustNewAnnouncer(subscriber,
			AnnouncerOptions{Prefix: o.Prefix, Logger: o.Logger})
		stack.Announcer = b.announcer
	}
	if b.stack, err = remote.NewStack(inner, stack); err != nil {
		return nil, err
	}
	if o.Heartbeat {
		go b.bare.heartbeat.run()
	}
	return b, nil
}

func (o *Options) bare() BareOptions {
	return BareOptions{
		Prefix: o.Prefix, HashTag: o.HashTag, Together: o.Together,
		HoldTime: o.HoldTime, Heartbeat: o.Heartbeat, Logger: o.Logger,
	}
}

// defaultOpenFor is shorter than that of package remote: Redis decides again within a second after a
// replica has taken over.
const defaultOpenFor = 500 * time.Millisecond

func (o *Options) stack() remote.StackOptions {
	return remote.StackOptions{
		Budget: o.Budget, OpenFor: cmp.Or(o.OpenFor, defaultOpenFor), Lease: o.Lease, Logger: o.Logger,
	}
}

// validate returns every mistake in o.
func (o *Options) validate() error {
	bare := o.bare()
	errs := []error{bare.validate()}
	if err := o.stack().Validate(); err != nil { // its fields have the same names
		text := strings.ReplaceAll(err.Error(), "remote: ", "redisbackend: ")
		errs = append(errs, errors.New(text))
	}
	return errors.Join(errs...)
}

// Take implements [backends.Backend]. Its errors are those of package remote, and wrapped ones of
// the client.
func (b *Backend) Take(
	ctx context.Context, charges []backends.Charge, out []limits.Decision,
) error {
	return b.stack.Take(ctx, charges, out)
}

// Peek implements [backends.Peeker]. It asks Redis, within the time budget.
func (b *Backend) Peek(
	ctx context.Context, charges []backends.Charge, out []limits.Decision,
) error {
	return b.stack.Peek(ctx, charges, out)
}

// Reset implements [backends.Resetter]. Only ctx bounds its time.
func (b *Backend) Reset(ctx context.Context, scope, key string) error {
	return b.stack.Reset(ctx, scope, key)
}

// Settle implements [backends.Settler]. Only ctx bounds its time, to a second at most.
func (b *Backend) Settle(
	ctx context.Context, endings []backends.Ending, out []limits.Settlement,
) error {
	return b.stack.Settle(ctx, endings, out)
}

// Unwrap returns the [remote.Stack] around Redis. Its innermost backend is a [Bare].
func (b *Backend) Unwrap() backends.Backend { return b.stack }

// Status returns the state of the breaker: "closed" while Redis makes the decisions, or "open" while
// it is left alone because it keeps failing. It does no I/O: see [remote.Breaker.Status]. Use it for
// metrics and alerts. Readiness should not depend on it: while it is "open", the failure policy of
// each rule answers, and on other instances it is "open", too.
func (b *Backend) Status() backends.BreakerStatus { return b.stack.Status() }

// Leases returns the units of busy keys that this process holds, and counts of its leases: see
// [remote.LeaseCache.Counts]. Without [Options].Lease it returns the zero value.
func (b *Backend) Leases() backends.LeaseCounts { return b.stack.Leases() }

// Instances implements [backends.InstanceCounter]. It returns how many backends with
// [Options].Heartbeat shared the Prefix when Redis last answered: it stays the same while Redis is
// away. It returns 0 without Heartbeat, and until Redis has answered once.
//
// The number rises with the next beat of this process, within 3 seconds. It falls later: to the
// largest of the latest four counts, once four beats in a row were answered. A backend counts
// until it is closed, or for 10 seconds after its latest beat. So the number never falls because
// Redis has lost its data and others are not back yet.
func (b *Backend) Instances() int { return b.bare.Instances() }

// Announcer returns the announcer of [Options].Announce, for its counts and for the denial cache
// of another backend. It is nil without Announce. [Backend.Close] closes it.
func (b *Backend) Announcer() *Announcer { return b.announcer }

// Check returns nil if the server is fit for use: see [Bare.Check].
func (b *Backend) Check(ctx context.Context) error { return b.bare.Check(ctx) }

// Close ends all that the backend has begun: see [Bare.Close]. It closes the announcer, and the
// client if [Open] made it; the caller closes the client of [New] afterwards. After that decisions
// fail, except for those from memory. Close may be called while decisions are made.
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
