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

	"github.com/weir-go/weir/internal/ground/endings"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
)

// BareOptions are the options of [NewBare]. The zero value is ready to use. Its fields are those of
// [Options].
type BareOptions struct {
	Prefix   string
	HashTag  string
	Together []string
	HoldTime time.Duration
	Logger   *slog.Logger
}

// Bare keeps state in Redis, with nothing in front of it: a slow server makes decisions wait as
// long as their contexts allow. It is the part of a [Backend] for programs that compose their own.
// It is safe for concurrent use. The caller closes its client, after [Bare.Close].
type Bare struct {
	client        redis.Scripter
	lines         *lines
	now           func() time.Time // of tests; nil: the server's clock
	prefix        string
	tagged        map[string]bool // the scopes of Options.Together
	limits        encodedLimits
	calendarClock calendarClock

	requests sync.Pool // of *request

	returnable scopeSet // scopes whose units may be returned
	giveBacks  *giveBacks
	holds      *holds
}

// NewBare returns a bare backend on client, which is one that [New] takes, or an error that
// reports every mistake in the arguments. It does no I/O.
func NewBare(client redis.Scripter, options BareOptions) (*Bare, error) {
	if err := errors.Join(validateClient(client, options.HashTag), options.validate()); err != nil {
		return nil, err
	}
	return newBare(client, options), nil
}

// MustNewBare is [NewBare] for arguments that the program sets. It panics if they have a mistake.
func MustNewBare(client redis.Scripter, options BareOptions) *Bare {
	b, err := NewBare(client, options)
	if err != nil {
		panic(err)
	}
	return b
}

// newBare returns a backend on a client and options that are valid.
func newBare(client redis.Scripter, options BareOptions) *Bare {
	prefix := options.Prefix
	if prefix == "" {
		prefix = "weir"
	}
	prefix += ":"
	if options.HashTag != "" {
		prefix += "{" + options.HashTag + "}:"
	}
	client = direct(client)
	b := &Bare{client: client, lines: newLines(client, options.Logger), prefix: prefix}
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

// Close ends the renewal of units that are held, so they end within [Options].HoldTime. First it
// waits for the endings of requests, for give-backs and for releases, for a second each at most;
// units that have not been given back by then stay taken. It returns nil. The caller closes the
// client after that.
func (b *Bare) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), settleBudget)
	defer cancel()
	_ = endings.Await(ctx, b) // the others report their own errors
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

// Reset implements [backends.Resetter].
func (b *Bare) Reset(ctx context.Context, scope, key string) (err error) {
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

// Supports implements [backends.Supporter]. It reports whether the scripts know the
// algorithm of limit: all that this version of weir has.
func (b *Bare) Supports(limit limits.Limit) bool {
	a := int(limit.Algorithm())
	return a < len(algorithms) && algorithms[a].letter != 0
}

// HonoursDeadline reports that [Bare.Take] and [Bare.Peek] fail as soon as
// the deadline of their context has passed, whatever the client is doing: the client
// works on goroutines of the backend. Package remote asks, and then needs no goroutine
// of its own for a decision.
//
// The one exception is a process that runs late: its goroutines wait for five
// milliseconds or more until they run, so it does not read replies in time. While it is
// late and other replies come in, Take waits longer, for a second at most. A call on the
// caller's own goroutine that fails for this reason is repeated once.
func (b *Bare) HonoursDeadline() bool { return true }

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
func (b *Bare) instant() int64 {
	if b.now == nil {
		return 0
	}
	return b.now().UnixMicro()
}

var errLengths = errors.New("redisbackend: charges and decisions differ in length")

func (b *Bare) decide(ctx context.Context, charges []backends.Charge, out []limits.Decision, mode mode) error {
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

// decideRequest decides charges in the memory of r, and reports whether no call uses that any more.
func (b *Bare) decideRequest(
	ctx context.Context, r *request, charges []backends.Charge, out []limits.Decision, mode mode,
) (owned bool, err error) {
	if err := b.accountsOf(charges, r, mode); err != nil {
		return true, err
	}
	all, owned, err := b.decideAccounts(ctx, r, mode)
	if err != nil {
		return owned, fmt.Errorf("redisbackend: %w", err)
	}
	for i, owner := range r.accountOf {
		if charges[i].Shadow {
			out[i] = all[owner].shadow
		} else {
			out[i] = all[owner].enforced
		}
	}
	if b.lines.partitioner.Load() != nil {
		b.markTransient(charges, out)
	}
	if r.hasHeld && !mode.peeks {
		b.noteHeld(r, charges, out)
	}
	return true, nil
}

// request is the memory of a decision, pooled.
type request struct {
	merged    []backends.Account
	accounts  []account // the same, with names and encoded limits
	accountOf []int     // index of the account of each charge
	take      takeJob
	hasHeld   bool // some accounts are of concurrency limits
}

func (b *Bare) recycle(r *request) {
	clear(r.merged)
	clear(r.accounts)
	r.merged, r.accounts, r.accountOf, r.hasHeld = r.merged[:0], r.accounts[:0], r.accountOf[:0], false
	r.take.reset()
	b.requests.Put(r)
}

// decideAccounts decides all accounts, in one step if one partition keeps them all. It reports whether
// no call uses r any more.
func (b *Bare) decideAccounts(ctx context.Context, r *request, mode mode) (all []result, owned bool, err error) {
	if locate := b.lines.partitioner.Load(); locate != nil && len(r.accounts) > 1 {
		groups, err := groupsOf(r.accounts, *locate)
		if err != nil {
			return nil, true, err
		}
		if len(groups) > 1 {
			all, err := b.decideGroups(ctx, groups, r.accounts, mode)
			return all, true, err
		}
	}
	owned, err = b.step(ctx, &r.take, r.accounts, mode)
	if owned && len(r.accounts) > 1 && redis.HasErrorPrefix(err, "CROSSSLOT") && b.lines.learnSlots() {
		r.take.reset()
		return b.decideAccounts(ctx, r, mode)
	}
	if err != nil {
		return nil, owned, err
	}
	return r.take.results, true, nil
}

// step decides accounts that one partition keeps. It reports whether the caller owns a and accounts again.
func (b *Bare) step(ctx context.Context, t *takeJob, accounts []account, mode mode) (owned bool, err error) {
	if err := ctx.Err(); err != nil && !b.lines.mayBeLate(err) {
		return true, err
	}
	l, err := b.lines.lineOf(ctx, accounts[0].name)
	if err != nil {
		return true, err
	}
	t.prepare(ctx, b, accounts, mode)
	if owned, err = l.decide(ctx, t); err != nil {
		return owned, b.lines.blame(l.explained(err, accounts), l)
	}
	return true, nil
}
