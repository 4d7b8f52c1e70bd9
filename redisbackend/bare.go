package redisbackend

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/weir/internal/ground/algorithm"
	"github.com/weir-go/weir/internal/ground/endings"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
	"github.com/weir-go/weir/redisbackend/internal/line"
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

// Bare keeps state in Redis, without a breaker or cache in front: a slow server makes decisions
// wait as long as their contexts allow. It is the part of a [Backend] for programs that compose
// their own. It is safe for concurrent use. The caller closes its client, after [Bare.Close].
type Bare struct {
	client        redis.Scripter
	lines         *line.Lines
	now           func() time.Time // set by tests; nil: the server's clock decides
	prefix        string
	tagged        map[string]bool // scopes in Options.Together
	limits        encodedLimits
	calendarClock calendarClock

	requests sync.Pool // of *request

	returnable scopeSet // scopes whose units may be given back: see markTransient
	giveBacks  *giveBacks
	holds      *holds
	heartbeat  *heartbeat // nil: none
}

// NewBare returns a bare backend on client, which is one that [New] takes, or an error that
// reports every mistake in the arguments. It does no I/O.
func NewBare(client redis.Scripter, options BareOptions) (*Bare, error) {
	if err := errors.Join(validateClient(client, options.HashTag), options.validate()); err != nil {
		return nil, err
	}
	b := newBare(client, options)
	if options.Heartbeat {
		b.beginHeartbeat()
	}
	return b, nil
}

// MustNewBare is [NewBare] for arguments that the program sets. It panics if they have a mistake.
func MustNewBare(client redis.Scripter, options BareOptions) *Bare {
	return must(NewBare(client, options))
}

// newBare returns a backend on a client and options that are known to be valid.
func newBare(client redis.Scripter, options BareOptions) *Bare {
	prefix := options.Prefix
	if prefix == "" {
		prefix = "weir"
	}
	prefix += ":"
	if options.HashTag != "" {
		prefix += "{" + options.HashTag + "}:"
	}
	client = line.Direct(client)
	lines := line.NewLines(client, options.HashTag == "", denyWaiting, options.Logger)
	b := &Bare{client: client, lines: lines, prefix: prefix}
	for _, scope := range options.Together {
		if b.tagged == nil {
			b.tagged = make(map[string]bool)
		}
		b.tagged[scope] = true
	}
	b.giveBacks = newGiveBacks()
	b.holds = newHolds(b, cmp.Or(options.HoldTime, defaultHoldTime), options.Logger)
	b.requests.New = func() any { return new(request) }
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
	return nil
}

// Take implements [backends.Backend]. Its errors are those of the client, wrapped.
func (b *Bare) Take(ctx context.Context, charges []backends.Charge, out []limits.Decision) error {
	return b.decide(ctx, charges, out, mode{instant: b.instant()})
}

// Peek implements [backends.Peeker].
func (b *Bare) Peek(ctx context.Context, charges []backends.Charge, out []limits.Decision) error {
	return b.decide(ctx, charges, out, mode{true, b.instant()})
}

// Reset implements [backends.Resetter]. It resets the states of all kinds of limits. Units of
// concurrency limits stay held.
func (b *Bare) Reset(ctx context.Context, scope, key string) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("redisbackend: reset: %w", line.Panicked(v))
		}
	}()
	var errands []*line.Errand
	for kind := range marks {
		if algorithm.Kind(kind) == algorithm.Held {
			continue
		}
		e := b.newErrand(ctx, &resetScript, b.name(algorithm.Kind(kind), scope, key), 1, 1)
		e.Priority = line.Taking
		errands = append(errands, e)
	}
	if err := errors.Join(b.lines.SendAll(ctx, errands)...); err != nil {
		return fmt.Errorf("redisbackend: reset: %w", err)
	}
	return nil
}

// Supports implements [backends.Supporter]. It reports whether the scripts know the algorithm of
// limit. They know every algorithm of this version of weir.
func (b *Bare) Supports(limit limits.Limit) bool {
	a := int(limit.Algorithm())
	return a < len(algorithms) && algorithms[a].letter != 0
}

// Instances implements [backends.InstanceCounter]: see [Backend.Instances].
func (b *Bare) Instances() int {
	if b.heartbeat == nil {
		return 0
	}
	return int(b.heartbeat.instances.Load())
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

// mode is how a request is decided.
type mode struct {
	peeks   bool
	instant int64 // at which the script decides; 0: it reads the server's clock
}

// name returns the name of m in take.lua.
func (m mode) name() string {
	if m.peeks {
		return "peek"
	}
	return "take"
}

// instant returns the instant at which scripts decide; 0: they read the server's clock.
func (b *Bare) instant() int64 {
	if b.now == nil {
		return 0
	}
	return b.now().UnixMicro()
}

var errLengths = errors.New("redisbackend: charges and decisions differ in length")

func (b *Bare) decide(
	ctx context.Context, charges []backends.Charge, out []limits.Decision, mode mode,
) error {
	if len(charges) != len(out) {
		return errLengths
	}
	if len(charges) == 0 {
		return nil
	}
	r := b.requests.Get().(*request)
	owned, err := b.decideRequest(ctx, r, charges, out, mode)
	if owned {
		b.recycle(r)
		if err != nil && b.calendarClock.learn(err) {
			r = b.requests.Get().(*request)
			if owned, err = b.decideRequest(ctx, r, charges, out, mode); owned {
				b.recycle(r)
			}
		}
	}
	return err
}

// decideRequest decides charges in the memory of r. owned is false if a call may still use r.
func (b *Bare) decideRequest(
	ctx context.Context, r *request, charges []backends.Charge, out []limits.Decision, mode mode,
) (owned bool, err error) {
	if err := b.accountsOf(charges, r, mode); err != nil {
		return true, err
	}
	results, owned, err := b.decideAccounts(ctx, r, mode)
	if err != nil {
		return owned, fmt.Errorf("redisbackend: %w", err)
	}
	for i, at := range r.accountOf {
		if charges[i].Shadow {
			out[i] = results[at].shadow
		} else {
			out[i] = results[at].enforced
		}
	}
	if b.lines.Partition() != nil {
		b.markTransient(charges, out)
	}
	if r.hasHeld && !mode.peeks {
		b.noteHeld(r, charges, out)
	}
	return true, nil
}

// request is the memory of a decision. Decisions reuse it.
type request struct {
	merged    []backends.Account
	accounts  []account // merged, with names and encoded limits
	accountOf []int     // index of the account of each charge
	take      takeJob
	hasHeld   bool // a concurrency limit is charged
}

func (b *Bare) recycle(r *request) {
	clear(r.merged)
	clear(r.accounts)
	r.merged, r.accounts, r.accountOf = r.merged[:0], r.accounts[:0], r.accountOf[:0]
	r.hasHeld = false
	r.take.reset()
	b.requests.Put(r)
}

// decideAccounts decides the accounts of r: in one step if one partition keeps all, otherwise
// group by group. owned is false if a call may still use r.
func (b *Bare) decideAccounts(
	ctx context.Context, r *request, mode mode,
) (results []result, owned bool, err error) {
	if locate := b.lines.Partition(); locate != nil && len(r.accounts) > 1 {
		groups, err := groupsOf(r.accounts, locate)
		if err != nil {
			return nil, true, err
		}
		if len(groups) > 1 {
			results, err := b.decideGroups(ctx, groups, r.accounts, mode)
			return results, true, err
		}
	}
	owned, err = b.step(ctx, &r.take, r.accounts, mode)
	crosses := owned && len(r.accounts) > 1 && redis.HasErrorPrefix(err, "CROSSSLOT")
	if crosses && b.lines.LearnSlots() {
		r.take.reset()
		return b.decideAccounts(ctx, r, mode)
	}
	if err != nil {
		return nil, owned, err
	}
	return r.take.results, true, nil
}

// step decides accounts that one partition keeps. owned is false if a call may still use t and
// accounts.
func (b *Bare) step(
	ctx context.Context, t *takeJob, accounts []account, mode mode,
) (owned bool, err error) {
	if err := ctx.Err(); err != nil && !b.lines.MayBeLate(err) {
		return true, err
	}
	l, err := b.lines.LineOf(ctx, accounts[0].name)
	if err != nil {
		return true, err
	}
	t.prepare(ctx, b, accounts, mode)
	if owned, err = l.Decide(ctx, &t.Job); err != nil {
		return owned, b.lines.Blame(explained(l.WithoutTLS(err), accounts), l)
	}
	return true, nil
}
