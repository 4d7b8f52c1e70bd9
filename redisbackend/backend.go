package redisbackend

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/weir-go/weir/core"
)

// Options are the options of [New]. The zero value is ready to use.
type Options struct {
	// Prefix is what the names of all keys in Redis start with, without braces.
	// Two applications on one Redis need two. "": "weir".
	Prefix string

	// HashTag, if set, keeps all states in one slot of a Redis Cluster, or one
	// shard of a Ring, so that the rules of a request are decided in one step
	// there too. All load then falls on one server. It is given without braces.
	HashTag string

	// Logger logs what becomes of one of several servers: "weir: Redis server given
	// up" and "weir: Redis server refuses" as warnings, "weir: Redis server answers
	// again" as information. nil: what slog.Default returns at that time.
	Logger *slog.Logger
}

// Backend is a [core.Backend] that keeps state in Redis. It is safe for
// concurrent use. One that [New] made has nothing to close: the client is the
// caller's.
type Backend struct {
	client redis.Scripter
	own    io.Closer // the client, if Open made it; otherwise nil
	lanes  *lanes
	prefix string
	now    func() time.Time // nil: the server's clock
	limits limits

	requests sync.Pool // of *request

	spread    spread // scopes whose units may be given back
	flights   flights
	giveBacks giveBacks
}

// New returns a backend on client, which may be a [redis.Client], with or
// without Sentinel, a [redis.ClusterClient], a [redis.Ring] or a
// [redis.AutoPipeliner], or a type that embeds one of the first three. It does
// no I/O.
//
// Any other type, such as a wrapper that hides what it wraps, needs a HashTag: it
// may spread keys over servers, and a Ring does so without a word, at a multiple
// of every limit. New panics if there is none, if client is nil or a
// [redis.Pipeliner], or if an option contains braces.
func New(client redis.Scripter, options Options) *Backend {
	if err := mistakes(client, options); err != nil {
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
	b := &Backend{client: client, lanes: newLanes(client, options.Logger), prefix: prefix}
	b.requests.New = func() any { return new(request) }
	if where := placementOf(client); where != nil && options.HashTag == "" {
		b.lanes.where.Store(&where)
	}
	return b
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

// mode is what take.lua is to do.
type mode uint8

const (
	modeTake mode = iota
	modePeek
	modeShare // take, and tell what there was before
)

// modes are the arguments that say so.
var modes = [...]string{modeTake: "take", modePeek: "peek", modeShare: "share"}

var errLengths = errors.New("redisbackend: charges and decisions differ in length")

func (b *Backend) decide(ctx context.Context, charges []core.Charge, out []core.Decision, mode mode) error {
	if len(charges) != len(out) {
		return errLengths
	}
	if len(charges) == 0 {
		return nil
	}
	if err := ctx.Err(); err != nil && !b.lanes.mayBeLate(err) {
		return fmt.Errorf("redisbackend: %w", err)
	}
	r := b.requests.Get().(*request)
	defer b.release(r)
	if err := b.group(charges, r); err != nil {
		return err
	}
	b.noteSpread(r, mode)
	all, err := b.settle(ctx, r, mode)
	b.noteSpread(r, mode) // how keys are spread may have been found out just now
	if err != nil {
		return fmt.Errorf("redisbackend: %w", err)
	}
	for i, owner := range r.owners {
		if charges[i].Shadow {
			out[i] = all[owner].shadow
		} else {
			out[i] = all[owner].enforced
		}
	}
	b.markTransient(charges, out)
	return nil
}

// request is what a decision needs, pooled.
type request struct {
	grouped  []core.Account
	accounts []account // the same, as scripts read them
	owners   []int     // index of the account of each charge
	all      []settled
	ask      *ask // nil: somebody still sends it
}

func (b *Backend) release(r *request) {
	clear(r.grouped)
	clear(r.accounts)
	*r = request{r.grouped[:0], r.accounts[:0], r.owners[:0], r.all[:0], r.ask}
	b.requests.Put(r)
}

// settle decides all accounts, in one step if they are kept in one place.
func (b *Backend) settle(ctx context.Context, r *request, mode mode) ([]settled, error) {
	accounts, instant := r.accounts, b.instant()
	if where := b.lanes.where.Load(); where != nil && len(accounts) > 1 {
		groups, err := groupsOf(accounts, *where)
		if err != nil {
			return nil, err
		}
		if len(groups) > 1 {
			return b.takeInTurn(ctx, accounts, groups, mode, instant)
		}
	}
	l, err := b.lanes.of(ctx, accounts[0].name)
	if err != nil {
		return nil, err
	}
	if r.ask == nil {
		r.ask = new(ask)
	}
	a := r.ask
	a.prepare(ctx, b, accounts, mode, instant)
	back, err := l.decide(ctx, a, accounts)
	if !back {
		r.ask = nil
		return nil, b.lanes.blame(err, l)
	}
	defer a.reset()
	if err != nil && len(accounts) > 1 && redis.HasErrorPrefix(err, "CROSSSLOT") {
		if hiding, ok := b.client.(processor); ok { // a Cluster behind a client that does not say so
			where := bySlot(hiding)
			b.lanes.where.Store(&where)
			return b.settle(ctx, &request{accounts: accounts}, mode)
		}
	}
	if err != nil {
		return nil, b.lanes.blame(ofOneKey(err), l)
	}
	if a.refusedBy > 0 {
		r.all = refusal(a, accounts, r.all)
	} else {
		r.all = read(a.now, a.numbers, accounts, mode, r.all)
	}
	return r.all, nil
}

// arguments appends KEYS and ARGV of take.lua.
func (b *Backend) arguments(accounts []account, mode mode, instant int64, keys []string, args []any) ([]string, []any) {
	for i := range accounts {
		a := &accounts[i]
		keys = append(keys, a.name)
		args = append(args, a.limit.text, a.units())
	}
	if mode != modeTake || instant != 0 {
		args = append(args, modes[mode])
	}
	if instant != 0 {
		args = append(args, instant)
	}
	return keys, args
}

// instant is what scripts are given: 0 for the server's own.
func (b *Backend) instant() int64 {
	if b.now == nil {
		return 0
	}
	return b.now().UnixMicro()
}

// settled is what take.lua says of one account.
type settled struct {
	enforced, shadow core.Decision

	// With [modeShare] only:
	before  core.Decision // Remaining, ResetAfter and EffectiveWindow without the charges
	alone   time.Duration // RetryAfter of the shadow charges without the enforced ones
	takenAt int64
}

// read appends what a reply of take.lua says of each account.
func read(now int64, rest []any, accounts []account, mode mode, all []settled) []settled {
	for i := range accounts {
		a, s := &accounts[i], settled{}
		s.enforced, rest = decision(now, rest[:a.numbers()]), rest[a.numbers():]
		if a.HasShadow {
			s.shadow, rest = decision(now, rest[:a.numbers()]), rest[a.numbers():]
		}
		if mode == modeShare {
			s.before = core.Decision{Remaining: number(rest[0]), ResetAfter: wait(number(rest[1])), EffectiveWindow: wait(number(rest[2]))}
			s.alone, s.takenAt, rest = wait(number(rest[3])), number(rest[4]), rest[5:]
		}
		all = append(all, s)
	}
	return all
}

// number is a number of a reply that has been looked at.
func number(v any) int64 { return v.(int64) }

// numbers is how many numbers make a decision on a.
func (a *account) numbers() int {
	if a.limit.limit.Algorithm() == core.AlgorithmLeakyQueue {
		return 4
	}
	return 3
}

// never is the wait of a decision that take.lua says will never be another.
const never = 1<<53 - 1

// decision reads remaining, reset after, and effective window or minus retry
// after; and the delay of a queue.
func decision(now int64, reply []any) core.Decision {
	var room [4]int64
	part := room[:len(reply)]
	for i, v := range reply {
		part[i] = number(v)
	}
	d := core.Decision{Allowed: part[2] >= 0, Remaining: part[0], ResetAfter: wait(part[1]), At: now}
	switch {
	case d.Allowed:
		d.EffectiveWindow = wait(part[2])
	case part[2] == -never:
		d.RetryAfter, d.EffectiveWindow = core.Never, core.Never
	default:
		d.RetryAfter = wait(-part[2])
		d.EffectiveWindow = d.RetryAfter
	}
	if len(part) > 3 {
		d.Delay = wait(part[3])
	}
	return d
}

// wait converts microseconds; less than none is never.
func wait(us int64) time.Duration {
	if us < 0 {
		return core.Never
	}
	return time.Duration(min(us, core.Never.Microseconds())) * time.Microsecond
}
