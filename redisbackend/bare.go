package redisbackend

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/weir/internal/ground/algorithm"
	"github.com/weir-go/weir/internal/ground/endings"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
	"github.com/weir-go/weir/redisbackend/internal/line"
	"github.com/weir-go/weir/redisbackend/internal/wire"
)

// BareOptions are the options of [NewBare]. The zero value is ready to use. [Options] describes
// the fields.
type BareOptions struct {
	Prefix    string
	HashTag   string
	Together  []string
	HoldTime  time.Duration
	Heartbeat bool
	Logger    *slog.Logger
}

func (o *BareOptions) validate() error {
	errs := []error{wire.ValidatePrefix(o.Prefix)}
	if strings.ContainsAny(o.HashTag, "{}") {
		errs = append(errs, fmt.Errorf(
			"redisbackend: hash tag: must have no braces (got %q)", o.HashTag))
	}
	if o.HashTag != "" && len(o.Together) > 0 {
		errs = append(errs, errors.New(
			"redisbackend: together: HashTag keeps all states in one slot: remove one of them"))
	}
	if o.HoldTime != 0 && (o.HoldTime < minHoldTime || o.HoldTime > maxHoldTime) {
		errs = append(errs, fmt.Errorf(
			"redisbackend: hold time: must be %v to %v, or 0 for %v (got %v)",
			minHoldTime, maxHoldTime, defaultHoldTime, o.HoldTime))
	}
	return errors.Join(errs...)
}

// Bare keeps state in Redis, without a breaker or cache in front: a slow server makes decisions
// wait as long as their contexts allow. It is the part of a [Backend] for programs that compose
// their own. It is safe for concurrent use. The caller closes its client, after [Bare.Close].
type Bare struct {
	client      redis.Scripter
	servers     *servers
	takings     *takings
	holds       *holds
	giveBacks   *giveBacks
	settlements settlements
	heartbeat   *heartbeat // nil: none
	lookout     *lookout   // nil: the client knows its servers
}

// NewBare returns a bare backend on client, which is one that [New] takes, or an error that
// reports every mistake in the arguments. It does no I/O.
func NewBare(client redis.Scripter, options BareOptions) (*Bare, error) {
	if err := errors.Join(validateClient(client, options.HashTag), options.validate()); err != nil {
		return nil, err
	}
	b := newBare(client, options)
	if options.Heartbeat {
		go b.heartbeat.run()
	}
	return b, nil
}

// MustNewBare is [NewBare] for arguments that the program sets. It panics if they have a mistake.
func MustNewBare(client redis.Scripter, options BareOptions) *Bare {
	return must(NewBare(client, options))
}

// newBare returns a backend on a client and options that are known to be valid. Its heartbeat does
// not run yet.
func newBare(client redis.Scripter, options BareOptions) *Bare {
	holdTime := cmp.Or(options.HoldTime, defaultHoldTime)
	client = line.Direct(client)
	s := &servers{
		lines:   line.NewLines(client, options.HashTag == "", denyWaiting, options.Logger),
		encoder: wire.NewEncoder(options.Prefix, options.HashTag, options.Together, holdTime),
	}
	b := &Bare{client: client, servers: s, holds: newHolds(s, holdTime, options.Logger)}
	b.giveBacks = newGiveBacks(b.holds)
	b.takings = newTakings(b.giveBacks)
	b.settlements = settlements{s, b.holds}
	b.lookout = newLookout(client, s.encoder.NameOf("check"), options.Logger)
	if options.Heartbeat {
		b.heartbeat = newHeartbeat(s)
	}
	return b
}

// Close stops the renewal of held units, which then end within [Options].HoldTime. Before that it
// waits for endings, give-backs and releases that are under way, a second at most for each kind.
// Units that have not been given back by then stay taken. With Heartbeat this process no longer
// counts as an instance. It returns nil. The caller closes the client afterwards.
func (b *Bare) Close() error {
	if b.heartbeat != nil {
		b.heartbeat.close()
	}
	ctx, cancel := context.WithTimeout(context.Background(), settleBudget)
	defer cancel()
	_ = endings.Await(ctx, b) // endings report their own errors
	ctx, cancel = context.WithTimeout(context.Background(), giveBackBudget)
	defer cancel()
	b.giveBacks.wait(ctx)
	b.holds.close()
	b.lookout.close(ctx)
	return nil
}

// Take implements [backends.Backend]. Its errors are those of the client, wrapped, and that a proxy
// spreads what one server has to decide. While requests come, b asks once a minute which server
// answers: for sixteen names, on four new connections. After answers of different servers it asks on
// sixteen more: if the first server answers again, decisions fail until one server answers alone, a
// minute later or more. It asks in the background, and only with a [redis.Client]. If the
// user may not call INFO it does not ask again, and says nothing.
func (b *Bare) Take(ctx context.Context, charges []backends.Charge, out []limits.Decision) error {
	if err := b.lookout.spreads(); err != nil {
		return err
	}
	return b.takings.decide(ctx, charges, out, false)
}

// Peek implements [backends.Peeker].
func (b *Bare) Peek(ctx context.Context, charges []backends.Charge, out []limits.Decision) error {
	if err := b.lookout.spreads(); err != nil {
		return err
	}
	return b.takings.decide(ctx, charges, out, true)
}

// Settle implements [backends.Settler]. It takes a second at most. It returns an error only if
// endings and out differ in length: each [limits.Settlement] has the error of its ending. If a
// reply is lost the ending is not sent again, since the server may have settled it.
func (b *Bare) Settle(
	ctx context.Context, endings []backends.Ending, out []limits.Settlement,
) error {
	return b.settlements.settle(ctx, endings, out)
}

// Lends implements [backends.Lender].
func (b *Bare) Lends() bool { return true }

// Reset implements [backends.Resetter]. It resets the states of all kinds of limits. Units of
// concurrency limits stay held.
func (b *Bare) Reset(ctx context.Context, scope, key string) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("redisbackend: reset: %w", line.Panicked(v))
		}
	}()
	var errands []*line.Errand
	for _, name := range b.servers.encoder.AllNames(scope, key) {
		e := b.servers.errand(ctx, &resetScript, name, 1, 1)
		e.Priority = line.Taking
		errands = append(errands, e)
	}
	if err := errors.Join(b.servers.lines.SendAll(ctx, errands)...); err != nil {
		return fmt.Errorf("redisbackend: reset: %w", err)
	}
	return nil
}

// Check returns nil if the client and its servers are fit for use. Each server must be reachable,
// be Redis 6.2 or later or Valkey, take writes, run the scripts, evict nothing, and have a clock
// that goes and differs by less than a day. A Cluster must serve all its slots, and a
// [redis.Client] must not be connected to a node of one. Otherwise the error reports everything
// that is wrong. If errors.Is finds [ErrEvicts] in it, the server still decides. If the script
// ran, the error names the server, such as Valkey 8.1.1.
//
// Check also finds a proxy that spreads names or connections over several servers, each of which
// would admit every limit. Of a server that is no master of a Cluster it asks on sixteen connections
// of its own, and closes them.
//
// Call it when a program starts, and log the error. Do not fail a readiness probe because of it: a
// limiter works without Redis, too, and applies the [core.FailurePolicy] of its rules.
//
// Check needs the command INFO, which decisions do not need, and CLUSTER INFO on a Cluster. An
// error about a forbidden command names it, and docs/redis.md lists the commands to allow.
//
// It also finds a proxy that sends scripts to several servers, each of which would admit every
// limit: it asks which server answers for sixteen names, and on sixteen connections. A client that
// hides its Options is asked by names alone.
//
// Check asks every master of a Cluster, and every shard in the RingOptions.Addrs of a Ring. Of any
// other client, such as an auto-pipeliner, it asks one server.
func (b *Bare) Check(ctx context.Context) error {
	k := checker{b.client, &b.servers.encoder.Names}
	if err := k.all(ctx); err != nil {
		return fmt.Errorf("redisbackend: check: %w", err)
	}
	return nil
}

// Supports implements [backends.Supporter]. It reports whether the scripts know the algorithm of
// limit. They know every algorithm of this version of weir.
func (b *Bare) Supports(limit limits.Limit) bool {
	return wire.Supports(limit)
}

// Digest implements [backends.Digester]. The number depends on the Prefix, which may be a secret.
func (b *Bare) Digest(scope, key, value string) uint64 {
	return b.servers.encoder.Digest(scope, key, value)
}

// Instances implements [backends.InstanceCounter]: see [Backend.Instances].
func (b *Bare) Instances() int {
	if b.heartbeat == nil {
		return 0
	}
	return int(b.heartbeat.instances.Load())
}

// ServerOf implements [backends.Divided].
func (b *Bare) ServerOf(scope, key string, limit limits.Limit) any {
	name := b.servers.encoder.Name(algorithm.Of(limit.Algorithm()).Kind, scope, key)
	if server := b.servers.lines.ServerNow(name); server != nil {
		return server
	}
	return nil
}

// HonoursDeadline returns true: [Bare.Take] and [Bare.Peek] fail as soon as the deadline of their
// context has passed, whatever the client is doing. Calls run on goroutines of the backend. So
// package remote needs no goroutine of its own for a decision.
//
// The exception is a process that is short of CPU: its goroutines wait five milliseconds or more
// until they run, so that it reads replies late. Meanwhile Take waits longer, a second at most, as
// long as other replies come in. A call on the caller's own goroutine that fails for this reason
// is repeated once.
func (b *Bare) HonoursDeadline() bool { return true }
