package limitstest

import (
	"context"
	"maps"
	"math/big"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
)

// mutant is a backend with one defect: a change of what Exact does.
type mutant struct {
	name   string
	take   func(e *broken, charges []backends.Charge, out []limits.Decision) error // nil: Exact's
	peek   func(e *broken, charges []backends.Charge, out []limits.Decision) error
	reset  func(e *broken, scope, key string) error
	count  func(e *broken) (int, error)
	settle func(e *broken, ending backends.Ending, out *limits.Settlement) // nil: Exact's
	// endings for which there is no room are no error
	anyLength bool
	ended     func(e *broken, charges []backends.Charge, out []limits.Decision) error // take, if the context has ended
	caughtBy  []string                                                                // names of cases
}

// broken is Exact with the defect of a mutant, and what that needs to remember.
type broken struct {
	*Exact
	mutant
	maxKeys int       // 0: any number
	order   []account // in which accounts came
	limits  map[account]limits.Limit
	until   map[account]int64
	pending []backends.Charge
	taken   map[string]int // charges, by scope
	halves  overtaken      // by calls that are half done
}

// InProcess implements [backends.InProcess].
func (b *broken) InProcess() backends.Backend { return b }

// pause lets others overtake a call that is half done.
func (b *broken) pause() { b.halves.waitFor(b.halves.arrive() + 2) }

func (m mutant) harness(seed uint64) Harness {
	small := func(_ testing.TB, now func() time.Time, maxKeys int) backends.Backend {
		return &broken{Exact: NewExact(now), mutant: m, maxKeys: maxKeys, limits: map[account]limits.Limit{},
			until: map[account]int64{}, taken: map[string]int{}}
	}
	return Harness{
		Open:      func(t testing.TB, now func() time.Time) backends.Backend { return small(t, now, 0) },
		OpenSmall: small,
		Decisions: 6000,
		Seed:      seed,
	}
}

func (b *broken) Take(ctx context.Context, charges []backends.Charge, out []limits.Decision) error {
	if b.ended != nil && ctx.Err() != nil {
		return b.ended(b, charges, out)
	}
	if b.take == nil {
		return b.Exact.Take(ctx, charges, out)
	}
	return b.take(b, charges, out)
}

func (b *broken) Peek(ctx context.Context, charges []backends.Charge, out []limits.Decision) error {
	if b.peek == nil {
		return b.Exact.Peek(ctx, charges, out)
	}
	return b.peek(b, charges, out)
}

func (b *broken) Reset(ctx context.Context, scope, key string) error {
	if b.reset == nil {
		return b.Exact.Reset(ctx, scope, key)
	}
	return b.reset(b, scope, key)
}

func (b *broken) Count(ctx context.Context) (int, error) {
	if b.count == nil {
		return b.Exact.Count(ctx)
	}
	return b.count(b)
}

func (b *broken) Settle(ctx context.Context, endings []backends.Ending, out []limits.Settlement) error {
	if b.anyLength && len(endings) != len(out) {
		return nil
	}
	if b.settle == nil || len(endings) != len(out) {
		return b.Exact.Settle(ctx, endings, out)
	}
	for i, e := range endings {
		b.settle(b, e, &out[i])
	}
	return nil
}

// ends is what Exact does with an ending.
func (b *broken) ends(e backends.Ending, out *limits.Settlement) {
	one := make([]limits.Settlement, 1)
	_ = b.Exact.Settle(context.Background(), []backends.Ending{e}, one)
	*out = one[0]
}

// settling makes a mutant that ends other charges than it is asked to.
func settling(name string, change func(b *broken, e *backends.Ending), caughtBy ...string) mutant {
	return mutant{
		name: name,
		settle: func(b *broken, e backends.Ending, out *limits.Settlement) {
			change(b, &e)
			b.ends(e, out)
		},
		caughtBy: caughtBy,
	}
}

// exactly is what Exact does.
func (b *broken) exactly(charges []backends.Charge, out []limits.Decision) error {
	return b.Exact.Take(context.Background(), charges, out)
}

// locked calls f with the ledger, and the instant, under the lock.
func (b *broken) locked(f func(l ledger, now int64)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	f(b.ledger, b.now().UnixMicro())
}

// telling makes a mutant that takes what is right and tells something else.
func telling(name string, change func(c backends.Charge, d *limits.Decision), caughtBy ...string) mutant {
	return mutant{
		name: name,
		take: func(b *broken, charges []backends.Charge, out []limits.Decision) error {
			err := b.exactly(charges, out)
			for i := range charges {
				if err == nil {
					change(charges[i], &out[i])
				}
			}
			return err
		},
		caughtBy: caughtBy,
	}
}

// asking makes a mutant that decides other charges than it is asked to.
func asking(name string, change func(b *broken, c *backends.Charge), caughtBy ...string) mutant {
	return mutant{
		name: name,
		take: func(b *broken, charges []backends.Charge, out []limits.Decision) error {
			charges = append([]backends.Charge{}, charges...)
			for i := range charges {
				change(b, &charges[i])
			}
			return b.exactly(charges, out)
		},
		caughtBy: caughtBy,
	}
}

func deniedForAWhile(d *limits.Decision) bool { return !d.Allowed && d.RetryAfter != limits.Never }

// mutants has the defects of all backends. Those of one algorithm stand beside its file.
var mutants = append(endMutants, []mutant{
	{
		name: "a denied request consumes what there is",
		take: func(b *broken, charges []backends.Charge, out []limits.Decision) error {
			err := b.exactly(charges, out)
			for i, c := range charges {
				if err == nil && !out[i].Allowed && out[i].Remaining > 0 {
					c.Cost = out[i].Remaining
					_ = b.exactly([]backends.Charge{c}, make([]limits.Decision, 1))
				}
			}
			return err
		},
		caughtBy: []string{
			"a denied request takes nothing", "RetryAfter is the least wait that works",
			"a token bucket drains one unit every p over q", "everything at once is decided as by the definitions",
		},
	},
	telling("an allowed decision is transient", func(_ backends.Charge, d *limits.Decision) {
		d.Transient = true
	}, "a token bucket drains one unit every p over q", "one charge at a time is decided as by the definitions"),
	telling("what the caller's decisions had of transience stays", func(_ backends.Charge, d *limits.Decision) {
		d.Transient = d.Allowed
	}, "a fixed window starts at a whole multiple of its period"),
	telling("RetryAfter is 1µs too long", func(_ backends.Charge, d *limits.Decision) {
		if deniedForAWhile(d) {
			d.RetryAfter += us
			d.EffectiveWindow += us
		}
	}, "RetryAfter is the least wait that works", "a sliding window weighs the window before",
		"one charge at a time is decided as by the definitions"),
	telling("RetryAfter is 1µs too short", func(_ backends.Charge, d *limits.Decision) {
		if deniedForAWhile(d) {
			d.RetryAfter -= us
			d.EffectiveWindow -= us
		}
	}, "RetryAfter is the least wait that works", "a sliding log counts every taking for one period",
		"a denied group is allowed after the longest of its waits", "a leaky bucket gives the numbers of a token bucket"),
	telling("RetryAfter is the wait until the key is fresh", func(_ backends.Charge, d *limits.Decision) {
		if deniedForAWhile(d) {
			d.RetryAfter, d.EffectiveWindow = d.ResetAfter, d.ResetAfter
		}
	}, "RetryAfter is the least wait that works", "a bucket stops its clock at the last taking"),
	telling("a cost that never fits is given a finite wait", func(_ backends.Charge, d *limits.Decision) {
		if d.RetryAfter == limits.Never {
			d.RetryAfter, d.EffectiveWindow = d.ResetAfter+us, d.ResetAfter+us
		}
	}, "RetryAfter is the least wait that works", "charges of one key in one group are one charge",
		"a shadow charge never stands in the way"),
	telling("waits are counted in float64 seconds", func(_ backends.Charge, d *limits.Decision) {
		if deniedForAWhile(d) {
			at := float64(d.At) / 1e6
			d.RetryAfter = time.Duration((at+d.RetryAfter.Seconds()-at)*1e6) * us
			d.EffectiveWindow = d.RetryAfter
		}
	}, "a bucket works in the year 2200", "windows work in the year 2200", "a bucket drains one unit in 366 days",
		"fractions of a microsecond add up"),
	telling("Remaining is one too many on a denial", func(_ backends.Charge, d *limits.Decision) {
		if !d.Allowed {
			d.Remaining++
		}
	}, "Remaining is the largest cost that is allowed now", "a fixed window starts at a whole multiple of its period"),
	telling("Remaining is one too few", func(c backends.Charge, d *limits.Decision) {
		d.Remaining = max(0, d.Remaining-1)
	}, "Remaining is the largest cost that is allowed now", "a store with room for every key is exact"),
	telling("Remaining may be negative", func(c backends.Charge, d *limits.Decision) {
		if !d.Allowed {
			d.Remaining -= c.Cost
		}
	}, "Remaining is the largest cost that is allowed now", "a fixed window of the same period keeps its count"),
	telling("ResetAfter is never less than 1s", func(_ backends.Charge, d *limits.Decision) {
		d.ResetAfter = max(d.ResetAfter, sec)
	}, "after ResetAfter a key is as never charged", "the shortest window lasts a millisecond",
		"a state lives to its last microsecond"),
	telling("EffectiveWindow is the period", func(c backends.Charge, d *limits.Decision) {
		if d.Allowed {
			d.EffectiveWindow = c.Limit.Rate().Period
		}
	}, "EffectiveWindow is the wait for one unit where there is none",
		"a sliding window of one unit waits for it to leave whole"),
	telling("EffectiveWindow of a denial is not its RetryAfter", func(_ backends.Charge, d *limits.Decision) {
		if !d.Allowed {
			d.EffectiveWindow = d.ResetAfter
		}
	}, "EffectiveWindow is the wait for one unit where there is none", "a group takes of every algorithm at once"),
	{
		name: "a charge that fits in a denied group is given a delay",
		take: func(b *broken, charges []backends.Charge, out []limits.Decision) error {
			err := b.exactly(charges, out)
			for i, c := range charges {
				if err == nil && out[i].Allowed && c.Cost > 0 && c.Limit.Algorithm().Delays() && out[i].Delay == 0 {
					for j := range out {
						if !out[j].Allowed && !charges[j].Shadow {
							out[i].Delay = out[i].ResetAfter
						}
					}
				}
			}
			return err
		},
		caughtBy: []string{"charges are taken together or not at all",
			"a shadow charge takes nothing when the others are denied", "groups are decided as by the definitions"},
	},
	{
		name: "a field of out is left as it was",
		take: func(b *broken, charges []backends.Charge, out []limits.Decision) error {
			delay := make([]time.Duration, len(out))
			for i := range out {
				delay[i] = out[i].Delay
			}
			err := b.exactly(charges, out)
			for i := range out {
				if out[i].Delay == 0 {
					out[i].Delay = delay[i]
				}
			}
			return err
		},
		caughtBy: []string{"a token bucket drains one unit every p over q",
			"a backend keeps neither of the slices it is given"},
	},
	telling("the wrong source is named", func(_ backends.Charge, d *limits.Decision) { d.Source = limits.SourceFallback },
		"a token bucket drains one unit every p over q", "shadow charges alone are each on their own"),
	{
		name: "the decisions of a group are in another order",
		take: func(b *broken, charges []backends.Charge, out []limits.Decision) error {
			err := b.exactly(charges, out)
			if len(out) == 2 || len(out) == 50 {
				out[0], out[1] = out[1], out[0]
			}
			return err
		},
		caughtBy: []string{"out has the decisions in the order of the charges",
			"a shadow charge comes after an enforced one of the same key"},
	},
	telling("a look at a full key is denied", func(c backends.Charge, d *limits.Decision) {
		if c.Cost == 0 && d.Remaining == 0 {
			d.Allowed = false
		}
	}, "a cost of 0 is always allowed and takes nothing", "a smaller burst leaves the level as it is"),
	asking("the key is joined with its scope",
		func(_ *broken, c *backends.Charge) { c.Scope, c.Key = "", c.Scope+":"+c.Key },
		"scope and key are never joined so that two pairs collide"),
	asking("the key is joined with its scope after escaping", func(_ *broken, c *backends.Charge) {
		c.Scope, c.Key = "", strings.ReplaceAll(c.Scope, ":", "%3a")+":"+c.Key
	}, "scope and key are never joined so that two pairs collide"),
	asking("the scope is ignored", func(_ *broken, c *backends.Charge) { c.Scope = "" },
		"scope and key are never joined so that two pairs collide"),
	asking("the key ends at a NUL", func(_ *broken, c *backends.Charge) { c.Key, _, _ = strings.Cut(c.Key, "\x00") },
		"scope and key are never joined so that two pairs collide"),
	asking("the key is made valid UTF-8", func(_ *broken, c *backends.Charge) {
		c.Scope, c.Key = strings.ToValidUTF8(c.Scope, "\uFFFD"), strings.ToValidUTF8(c.Key, "\uFFFD")
	}, "scope and key are never joined so that two pairs collide"),
	asking("a long key is cut", func(_ *broken, c *backends.Charge) { c.Key = c.Key[:min(len(c.Key), 65_535)] },
		"scope and key are never joined so that two pairs collide"),
	asking("a negative cost counts as nothing", func(_ *broken, c *backends.Charge) { c.Cost = max(0, c.Cost) },
		"an invalid charge is an error and takes nothing"),
	asking("an invalid limit allows", func(_ *broken, c *backends.Charge) {
		if c.Limit.Validate() != nil {
			c.Limit, c.Cost = tenPerMinute, 0
		}
	}, "an invalid charge is an error and takes nothing"),
	asking("a key keeps its first limit", func(b *broken, c *backends.Charge) {
		a := accountOf(*c)
		if first, ok := b.limits[a]; ok {
			c.Limit = first
		}
		b.limits[a] = c.Limit
	}, "a smaller burst leaves the level as it is", "a larger burst leaves the level as it is",
		"another rate counts the units in use as taken now",
		"an invalid charge is an error and takes nothing", "a bucket becomes a log and a bucket again",
		"a limit changes while the clock is stopped",
		"one charge at a time is decided as by the definitions while limits change"),
	{
		name: "a changed limit starts afresh",
		take: func(b *broken, charges []backends.Charge, out []limits.Decision) error {
			b.locked(func(l ledger, _ int64) {
				for _, c := range charges {
					if a := (accountOf(c)); l[a].limit != c.Limit {
						delete(l, a)
					}
				}
			})
			return b.exactly(charges, out)
		},
		caughtBy: []string{
			"an equal rate written otherwise carries the level over",
			"another algorithm of the same rate counts the units in use as taken now",
			"a fixed window of another period counts the units in use in its current window",
			"a fixed window becomes a sliding one and a fixed one again",
			"a sliding window of the same period keeps both counts", "a sliding log of the same period keeps its takings",
			"units in use count up to the new maximum",
			"an anchored window of the same period keeps its start and its count",
			"an anchored window of another period counts the units in use as taken now",
			"a fixed window becomes an anchored one and a fixed one again",
			"a full store never allows too much while limits change",
			"a full store never allows too much while limits change and the clock steps back",
			"everything at once is decided as by the definitions",
		},
	},
	{
		name: "a limit that has changed is converted anew at each denial",
		take: func(b *broken, charges []backends.Charge, out []limits.Decision) error {
			var before ledger
			b.locked(func(l ledger, _ int64) { before = maps.Clone(l) })
			err := b.exactly(charges, out)
			b.locked(func(l ledger, _ int64) {
				for i, c := range charges {
					a := accountOf(c)
					if u, live := before[a]; live && u.limit != c.Limit && !(out[i].Allowed && c.Cost > 0) {
						l[a] = u
					}
				}
			})
			return err
		},
		caughtBy: []string{
			"another rate counts the units in use as taken now",
			"one charge at a time is decided as by the definitions while limits change",
			"a smaller fixed window takes less off what is owed",
			"a limit that changes while it denies ends its denials within a period of the new one",
		},
	},
	{
		name: "a limit that comes back starts over",
		take: func(b *broken, charges []backends.Charge, out []limits.Decision) error {
			b.forgetChanges(charges, func(c *change) bool { return !c.taken })
			return b.exactly(charges, out)
		},
		caughtBy: []string{
			"one charge at a time is decided as by the definitions while limits change",
			"limits that alternate lock out no key that goes on asking",
		},
	},
	{
		name: "what a smaller maximum could not count is hidden from a larger one",
		take: func(b *broken, charges []backends.Charge, out []limits.Decision) error {
			b.locked(func(l ledger, now int64) {
				for _, c := range charges {
					a := accountOf(c)
					if u, ok := l[a]; ok && sameCounting(u.limit, c.Limit) && !u.carriesTo(c.Limit, now) {
						u.change = nil
						l[a] = u
					}
				}
			})
			return b.exactly(charges, out)
		},
		caughtBy: []string{"a smaller maximum in between hides nothing from a larger one"},
	},
	{
		name: "a peek converts what it finds",
		take: (*broken).exactly,
		peek: func(b *broken, charges []backends.Charge, out []limits.Decision) error {
			looks := slices.Clone(charges)
			for i := range looks {
				looks[i].Cost = 0
			}
			if err := b.exactly(looks, out); err != nil {
				return err
			}
			return b.Exact.Peek(context.Background(), charges, out)
		},
		caughtBy: []string{"a peek under another limit changes nothing"},
	},
	{
		name: "a taking forgets what a smaller limit could not count",
		take: func(b *broken, charges []backends.Charge, out []limits.Decision) error {
			b.forgetChanges(charges, func(c *change) bool { return c.taken })
			return b.exactly(charges, out)
		},
		caughtBy: []string{"limits that alternate give nothing away"},
	},
	{
		name: "a state that is fresh is converted like any other",
		take: func(b *broken, charges []backends.Charge, out []limits.Decision) error {
			b.locked(func(l ledger, now int64) {
				for _, c := range charges {
					a := accountOf(c)
					if u, ok := l[a]; ok && u.isFresh(now) && u.limit != c.Limit && c.Limit.Validate() == nil {
						l[a] = fresh(c.Limit, now).plus(now, 1)
					}
				}
			})
			return b.exactly(charges, out)
		},
		caughtBy: []string{"fresh state does not care about a changed limit"},
	},
	{
		name: "a clock that steps back is not stopped",
		take: func(b *broken, charges []backends.Charge, out []limits.Decision) error {
			b.locked(dontStop)
			return b.exactly(charges, out)
		},
		caughtBy: []string{
			"a bucket stops its clock at the last taking", "a leaky queue adds the step to its delay",
			"a fixed window stops its clock at the start of the window",
			"a sliding window stops its clock at the start of the window", "a sliding log stops its clock at the last taking",
			"an anchored window stops its clock at its start",
			"a period of the calendar stops its clock at its start",
			"one charge at a time is decided as by the definitions while the clock steps back",
			"instants are the clock's, in whole microseconds",
		},
	},
	{
		name: "what is ahead of the clock is forgotten",
		take: func(b *broken, charges []backends.Charge, out []limits.Decision) error {
			b.locked(func(l ledger, now int64) {
				maps.DeleteFunc(l, func(_ account, u usage) bool { return u.at > now })
			})
			return b.exactly(charges, out)
		},
		caughtBy: []string{
			"a full store never allows too much while the clock steps back", "a bucket stops its clock at the last taking",
			"a bucket that finds its clock more than a second back starts again from its last level",
		},
	},
	{
		name: "a clock that steps back is stopped for as long as it takes",
		take: func(b *broken, charges []backends.Charge, out []limits.Decision) error {
			now := b.now().UnixMicro()
			b.mu.Lock()
			defer b.mu.Unlock()
			for _, c := range charges {
				if u, ok := b.ledger[accountOf(c)]; ok && u.at-now > maxStepBack(u.limit) {
					now = u.at
				}
			}
			changes, err := b.ledger.take(now, charges, out)
			maps.Copy(b.ledger, changes)
			return err
		},
		caughtBy: []string{
			"a bucket that finds its clock more than a second back starts again from its last level",
			"a window that finds its clock far back counts its units as taken now",
			"a log that finds its clock far back counts its units as taken now", "a limit changes while the clock is far back",
			"an anchored window that finds its clock far back counts its units as taken now",
			"a calendar changes while the clock is far back",
		},
	},
	{
		name: "a denial does not rebase a state that is far ahead of the clock",
		take: func(b *broken, charges []backends.Charge, out []limits.Decision) error {
			now := b.now().UnixMicro()
			b.mu.Lock()
			defer b.mu.Unlock()
			changes, err := b.ledger.take(now, charges, out)
			for i, c := range charges {
				if !out[i].Allowed {
					delete(changes, accountOf(c))
				}
			}
			maps.Copy(b.ledger, changes)
			return err
		},
		caughtBy: []string{"a bucket that finds its clock more than a second back starts again from its last level",
			"a log that finds its clock far back counts its units as taken now"},
	},
	{
		name: "a changed limit counts at most half of what is in use",
		take: func(b *broken, charges []backends.Charge, out []limits.Decision) error {
			b.locked(func(l ledger, now int64) {
				for _, c := range charges {
					a := accountOf(c)
					if u, ok := l[a]; ok && u.limit != c.Limit && !sameCounting(u.limit, c.Limit) && !u.isFresh(now) {
						x := max(now, u.at)
						l[a] = fresh(c.Limit, x).plus(x, min(u.inUse(x), c.Limit.Burst())/2)
					}
				}
			})
			return b.exactly(charges, out)
		},
		caughtBy: []string{"limits that alternate give nothing away",
			"a change of limit leaves the units in use as they are"},
	},
	{
		name: "fresh state is forgotten while others are late",
		take: func(b *broken, charges []backends.Charge, out []limits.Decision) error {
			now := b.now().UnixMicro()
			b.mu.Lock()
			defer b.mu.Unlock()
			if len(b.ledger) < 64 { // looking at all of many takes too long
				b.ledger.dropFresh(now)
			}
			changes, err := b.ledger.take(now, charges, out)
			maps.Copy(b.ledger, changes)
			return err
		},
		caughtBy: []string{"a stalled caller gets no second budget when its key has been displaced"},
	},
	{
		name: "a late caller finds the state of when it read the clock",
		take: func(b *broken, charges []backends.Charge, out []limits.Decision) error {
			now := b.now().UnixMicro()
			b.mu.Lock()
			defer b.mu.Unlock()
			for _, c := range charges {
				a := accountOf(c)
				if u := b.ledger[a]; u.at > now {
					delete(b.ledger, a)
				}
			}
			changes, err := b.ledger.take(now, charges, out)
			maps.Copy(b.ledger, changes)
			return err
		},
		caughtBy: []string{"a fixed or anchored window never admits more than its units to late callers of a full store"},
	},
	{
		name: "a late caller does not stop the clock",
		take: func(b *broken, charges []backends.Charge, out []limits.Decision) error {
			now := b.now().UnixMicro()
			b.mu.Lock()
			defer b.mu.Unlock()
			dontStop(b.ledger, now)
			changes, err := b.ledger.take(now, charges, out)
			maps.Copy(b.ledger, changes)
			return err
		},
		caughtBy: []string{"a bucket balances while the clock moves",
			"a fixed window admits exactly its units while the clock moves"},
	},
	{
		name: "a step back lengthens the spread",
		take: func(b *broken, charges []backends.Charge, out []limits.Decision) error {
			err := b.exactly(charges, out)
			b.locked(func(l ledger, now int64) {
				for i, c := range charges {
					if step := l[accountOf(c)].at - now; step > 0 && err == nil && out[i].Remaining > 0 && out[i].Allowed &&
						isBucket(c.Limit) {
						out[i].EffectiveWindow += duration(step)
					}
				}
			})
			return err
		},
		caughtBy: []string{"a bucket stops its clock at the last taking", "a leaky queue adds the step to its delay"},
	},
	{
		name: "a denial moves the instant at which the clock stops",
		take: func(b *broken, charges []backends.Charge, out []limits.Decision) error {
			err := b.exactly(charges, out)
			b.locked(func(l ledger, now int64) {
				for i, c := range charges {
					if u := l[accountOf(c)]; err == nil && !out[i].Allowed && u.level != nil && u.at < now {
						u.level, u.at = u.levelAt(now), now
						l[accountOf(c)] = u
					}
				}
			})
			return err
		},
		caughtBy: []string{"a denial does not move the instant at which the clock stops",
			"one charge at a time is decided as by the definitions while the clock steps back"},
	},
	{
		name: "instants are milliseconds",
		take: func(b *broken, charges []backends.Charge, out []limits.Decision) error {
			b.mu.Lock()
			defer b.mu.Unlock()
			now := b.now().UnixMilli() * 1000
			changes, err := b.ledger.take(now, charges, out)
			maps.Copy(b.ledger, changes)
			return err
		},
		caughtBy: []string{
			"instants are the clock's, in whole microseconds", "a day is a UTC day", "fractions of a microsecond add up",
			"a bucket drains a million units each microsecond", "a sliding window of 7 per 3ms rounds its weight down",
			"a sliding log of ten thousand units works within a millisecond",
			"a sliding log works over 366 days and in the year 2200",
			"a sliding window of a thousand million units in 366 days is exact", "a bucket takes 100 years to drain",
		},
	},
	{
		name: "instants are rounded up",
		take: func(b *broken, charges []backends.Charge, out []limits.Decision) error {
			b.mu.Lock()
			defer b.mu.Unlock()
			changes, err := b.ledger.take(b.now().Add(999).UnixMicro(), charges, out)
			maps.Copy(b.ledger, changes)
			return err
		},
		caughtBy: []string{"instants are the clock's, in whole microseconds"},
	},
	{
		name: "windows start an hour late",
		take: func(b *broken, charges []backends.Charge, out []limits.Decision) error {
			b.mu.Lock()
			defer b.mu.Unlock()
			shift := 90*sec.Microseconds() + 13*hour.Microseconds()
			changes, err := b.ledger.take(b.now().UnixMicro()-shift, charges, out)
			maps.Copy(b.ledger, changes)
			for i := range out {
				out[i].At += shift
			}
			return err
		},
		caughtBy: []string{"a fixed window starts at a whole multiple of its period",
			"the longest window is aligned with the epoch", "a day is a UTC day"},
	},
	{
		name: "a time to live is rounded down to milliseconds",
		take: expiring(func(d limits.Decision) time.Duration { return d.ResetAfter / ms * ms }),
		caughtBy: []string{
			"a state lives to its last microsecond", "fractions of a microsecond add up",
			"after ResetAfter a key is as never charged",
		},
	},
	{
		name:     "a time to live is never more than a minute",
		take:     expiring(func(d limits.Decision) time.Duration { return min(d.ResetAfter, mins) }),
		caughtBy: []string{"no key is forgotten while it is live", "a bucket drains one unit in 366 days"},
	},
	{
		name: "a time to live counts from the first taking",
		take: func(b *broken, charges []backends.Charge, out []limits.Decision) error {
			b.locked(func(l ledger, now int64) {
				for _, c := range charges {
					if until, ok := b.until[accountOf(c)]; ok && now >= until {
						delete(l, accountOf(c))
						delete(b.until, accountOf(c))
					}
				}
			})
			err := b.exactly(charges, out)
			for i, c := range charges {
				if _, ok := b.until[accountOf(c)]; !ok && err == nil && out[i].ResetAfter > 0 {
					b.until[accountOf(c)] = out[i].At + out[i].ResetAfter.Microseconds()
				}
			}
			return err
		},
		caughtBy: []string{"charging often does not make a key fresh early",
			"a sliding log counts every taking for one period"},
	},
	{
		name: "a rest gives more than the maximum",
		take: func(b *broken, charges []backends.Charge, out []limits.Decision) error {
			b.locked(func(l ledger, now int64) {
				for _, c := range charges {
					a := accountOf(c)
					if u, ok := l[a]; ok && isBucket(u.limit) && u.isFresh(now) && c.Limit == u.limit {
						credit := ratio(u.limit.Rate().Units, micros(u.limit), min(now-u.freshAt(), 2*micros(u.limit)))
						l[a] = usage{limit: u.limit, at: now, level: new(big.Rat).Neg(credit)}
					}
				}
			})
			err := b.exactly(charges, out)
			b.locked(func(l ledger, now int64) {
				for i, c := range charges {
					if u, ok := l[accountOf(c)]; ok && u.level != nil && u.level.Sign() < 0 && err == nil {
						out[i].Allowed = true
						out[i].Remaining = c.Limit.Burst() - floor(u.level)
					}
				}
			})
			return err
		},
		caughtBy: []string{"a long rest gives no more than the maximum"},
	},
	{
		name: "it looks, and then takes",
		take: func(b *broken, charges []backends.Charge, out []limits.Decision) error {
			if err := validate(charges, out); err != nil {
				return err
			}
			if err := b.Exact.Peek(context.Background(), charges, out); err != nil {
				return err
			}
			for i := range out {
				if !out[i].Allowed && !charges[i].Shadow {
					return nil
				}
			}
			b.pause()
			b.locked(func(l ledger, now int64) {
				for i, c := range charges {
					if a := (accountOf(c)); out[i].Allowed && c.Cost > 0 {
						found, x := l[a].foundBy(c.Limit, now)
						l[a] = found.plus(x, c.Cost)
						c.Cost = 0
						delay := out[i].Delay
						out[i], _ = decide(l[a], c, now, false)
						out[i].Delay = delay
					}
				}
			})
			return nil
		},
		caughtBy: []string{
			"exactly the limit is admitted to many callers at once", "exactly the limit is admitted at any cost",
			"exactly the limit of each of many keys is admitted",
			"two limits in one request admit exactly the smaller", "looks, peeks and shadows take nothing from callers at once",
			"calls on one key are as if made one after another",
		},
	},
	{
		name: "it reads, and then writes",
		take: func(b *broken, charges []backends.Charge, out []limits.Decision) error {
			b.mu.Lock()
			now, before := b.now().UnixMicro(), maps.Clone(b.ledger)
			b.mu.Unlock()
			b.pause()
			changes, err := before.take(now, charges, out)
			b.mu.Lock()
			maps.Copy(b.ledger, changes)
			b.mu.Unlock()
			return err
		},
		caughtBy: []string{
			"exactly the limit is admitted to many callers at once", "groups in any order neither deadlock nor take in part",
			"groups are as if made one after another",
		},
	},
	{
		name: "charges are taken one after another",
		take: func(b *broken, charges []backends.Charge, out []limits.Decision) error {
			if err := validate(charges, out); err != nil {
				return err
			}
			for i := range charges {
				if err := b.exactly(charges[i:i+1], out[i:i+1]); err != nil {
					return err
				}
				b.pause()
			}
			return nil
		},
		caughtBy: []string{
			"charges are taken together or not at all", "a group takes of every algorithm at once",
			"charges of one key in one group are one charge",
			"a group is decided at one instant", "a shadow charge takes nothing when the others are denied",
			"two limits in one request admit exactly the smaller",
			"groups are decided as by the definitions", "groups are as if made one after another",
		},
	},
	{
		name: "costs of one key are added up modulo 2⁶⁴",
		take: func(b *broken, charges []backends.Charge, out []limits.Decision) error {
			if err := validate(charges, out); err != nil || len(charges) < 2 {
				return b.exactly(charges, out)
			}
			sum := charges[0]
			for _, c := range charges[1:] {
				if c.Scope != sum.Scope || c.Key != sum.Key || c.Shadow != sum.Shadow {
					return b.exactly(charges, out)
				}
				sum.Cost += c.Cost
			}
			sum.Cost = max(0, sum.Cost)
			err := b.exactly([]backends.Charge{sum}, out[:1])
			for i := range out {
				out[i] = out[0]
			}
			return err
		},
		caughtBy: []string{"charges of one key in one group are one charge"},
	},
	asking("a shadow stands in the way", func(_ *broken, c *backends.Charge) { c.Shadow = false },
		"a shadow charge never stands in the way", "shadow charges alone are each on their own",
		"a shadow charge comes after an enforced one of the same key"),
	asking("a shadow is not counted", func(_ *broken, c *backends.Charge) {
		if c.Shadow {
			c.Cost = 0
		}
	}, "a shadow charge never stands in the way", "shadow charges alone are each on their own",
		"a bucket works in the year 2200"),
	{
		name: "a shadow takes even when the others are denied",
		take: func(b *broken, charges []backends.Charge, out []limits.Decision) error {
			err := b.exactly(charges, out)
			for i, c := range charges {
				if c.Shadow && err == nil {
					for j := range out {
						if !out[j].Allowed && !charges[j].Shadow {
							_ = b.exactly(charges[i:i+1], out[i:i+1])
							break
						}
					}
				}
			}
			return err
		},
		caughtBy: []string{"a shadow charge takes nothing when the others are denied",
			"groups are decided as by the definitions"},
	},
	{
		name: "room for too many decisions is no error",
		take: func(b *broken, charges []backends.Charge, out []limits.Decision) error {
			return b.exactly(charges, out[:min(len(out), len(charges))])
		},
		caughtBy: []string{"charges and decisions of unequal number are an error"},
	},
	{
		name: "no charges are refused",
		take: func(b *broken, charges []backends.Charge, out []limits.Decision) error {
			if len(charges) == 0 {
				return context.Canceled
			}
			return b.exactly(charges, out)
		},
		caughtBy: []string{"no charges are no error"},
	},
	{
		name: "charges are kept and written later",
		take: func(b *broken, charges []backends.Charge, out []limits.Decision) (err error) {
			_ = b.exactly(b.pending, make([]limits.Decision, len(b.pending)))
			b.pending = charges
			b.locked(func(l ledger, now int64) { _, err = l.take(now, charges, out) })
			return err
		},
		caughtBy: []string{"a backend keeps neither of the slices it is given"},
	},
	{
		name: "a peek takes",
		peek: func(b *broken, charges []backends.Charge, out []limits.Decision) error {
			return b.exactly(charges, out)
		},
		caughtBy: []string{
			"a peek answers like a take and takes nothing", "looks, peeks and shadows take nothing from callers at once",
			"everything at once is decided as by the definitions",
		},
	},
	{
		name: "a peek tells what would remain",
		peek: func(b *broken, charges []backends.Charge, out []limits.Decision) (err error) {
			b.locked(func(l ledger, now int64) { _, err = l.take(now, charges, out) })
			return err
		},
		caughtBy: []string{"a peek answers like a take and takes nothing",
			"everything at once is decided as by the definitions"},
	},
	{
		name:  "a reset does nothing",
		reset: func(*broken, string, string) error { return nil },
		caughtBy: []string{"Reset makes a key fresh and leaves the others",
			"everything at once is decided as by the definitions"},
	},
	{
		name: "a reset forgets the whole scope",
		reset: func(b *broken, scope, _ string) error {
			b.locked(func(l ledger, _ int64) {
				maps.DeleteFunc(l, func(a account, _ usage) bool { return a.scope == scope })
			})
			return nil
		},
		caughtBy: []string{"Reset makes a key fresh and leaves the others"},
	},
	{
		name:     "Count counts what is fresh",
		count:    func(b *broken) (int, error) { return len(b.ledger), nil },
		caughtBy: []string{"Count counts the keys that are live"},
	},
	{
		name: "a call whose context has ended is half done",
		ended: func(b *broken, charges []backends.Charge, out []limits.Decision) error {
			_ = b.exactly(charges[:1], out[:1])
			return context.Canceled
		},
		caughtBy: []string{"a call whose context has ended is never half done"},
	},
	{
		name: "the oldest key makes room",
		take: displacing(0),
		caughtBy: []string{
			"a flood of new keys gives no key a fresh budget",
			"a flood of new keys gives no key a new value", "a full store never allows too much",
			"a full store never allows too much while limits change", "no key is forgotten while it is live",
		},
	},
	{
		name:     "the oldest key makes room one key too early",
		take:     displacing(1),
		caughtBy: []string{"a store with room for every key is exact", "fresh keys make room for new ones"},
	},
	{
		name: "what was displaced under more than 32 limits is forgotten",
		take: func(b *broken, charges []backends.Charge, out []limits.Decision) error {
			err := b.exactly(charges, out)
			b.locked(func(l ledger, _ int64) {
				choices := map[limits.Limit]bool{}
				var soonest account
				for a, u := range l {
					choices[u.limit] = true
					if l[soonest].limit == (limits.Limit{}) || u.freshAt() < l[soonest].freshAt() {
						soonest = a
					}
				}
				if b.maxKeys > 0 && len(choices) > 32 {
					delete(l, soonest)
				}
			})
			return err
		},
		caughtBy: []string{"a flood under many limits gives no key a fresh budget"},
	},
	{
		name: "a flood denies new keys for ever",
		take: func(b *broken, charges []backends.Charge, out []limits.Decision) error {
			err := b.exactly(charges, out)
			for i, c := range charges {
				b.limits[accountOf(c)] = c.Limit
				if err == nil && b.maxKeys > 0 && len(b.limits) > b.maxKeys && c.Cost > 0 {
					out[i].Allowed, out[i].Remaining, out[i].RetryAfter = false, 0, mins
				}
			}
			return err
		},
		caughtBy: []string{"a flood is forgotten when it is over", "fresh keys make room for new ones"},
	},
	{
		name: "a flood in one scope denies in another",
		take: starving(func(b *broken, c backends.Charge) bool {
			return b.maxKeys > 0 && b.taken["flood"] > b.maxKeys && c.Scope != "flood"
		}),
		caughtBy: []string{"a flood of keys in one scope leaves the regulars of another alone"},
	},
}...)

// starving takes, and denies one in twenty of the charges that starve.
func starving(starves func(*broken, backends.Charge) bool) func(*broken, []backends.Charge, []limits.Decision) error {
	return func(b *broken, charges []backends.Charge, out []limits.Decision) error {
		err := b.exactly(charges, out)
		for i, c := range charges {
			if b.taken[c.Scope]++; err == nil && b.taken[c.Scope]%20 == 0 && starves(b, c) {
				out[i].Allowed, out[i].RetryAfter = false, mins
			}
		}
		return err
	}
}

// expiring takes, and forgets a key as long after its last taking as ttl says.
func expiring(ttl func(limits.Decision) time.Duration) func(*broken, []backends.Charge, []limits.Decision) error {
	return func(b *broken, charges []backends.Charge, out []limits.Decision) error {
		b.mu.Lock()
		defer b.mu.Unlock()
		now := b.now().UnixMicro()
		for _, c := range charges {
			a := accountOf(c)
			if until, ok := b.until[a]; ok && now >= until {
				delete(b.ledger, a)
			}
		}
		changes, err := b.ledger.take(now, charges, out)
		maps.Copy(b.ledger, changes)
		for i, c := range charges {
			if a := (accountOf(c)); changes[a].limit == c.Limit {
				b.until[a] = now + ttl(out[i]).Microseconds()
			}
		}
		return err
	}
}

// forgetChanges forgets what the accounts of charges keep of changes.
func (b *broken) forgetChanges(charges []backends.Charge, which func(*change) bool) {
	b.locked(func(l ledger, _ int64) {
		for _, c := range charges {
			if u, ok := l[accountOf(c)]; ok && u.change != nil && which(u.change) {
				u.change = nil
				l[accountOf(c)] = u
			}
		}
	})
}

// displacing takes, and forgets the oldest keys when there are too many.
func displacing(tooEarly int) func(*broken, []backends.Charge, []limits.Decision) error {
	return func(b *broken, charges []backends.Charge, out []limits.Decision) error {
		maxKeys := b.maxKeys - tooEarly
		if b.maxKeys == 0 {
			maxKeys = 200
		}
		err := b.exactly(charges, out)
		b.locked(func(l ledger, now int64) {
			l.dropFresh(now)
			for _, c := range charges {
				b.order = append(b.order, accountOf(c))
			}
			for len(l) > maxKeys {
				delete(l, b.order[0])
				b.order = b.order[1:]
			}
		})
		return err
	}
}

// dontStop moves what is ahead of the clock back to now.
func dontStop(l ledger, now int64) {
	for a, u := range l {
		if u.at > now && !u.isFresh(now) && isRate(u.limit) {
			u.at = now
			if u.level == nil && u.takings == nil && u.limit.Algorithm() != limits.AlgorithmAnchoredWindow {
				u.at = windowStart(now, u.limit)
			}
			for i := range u.takings {
				u.takings[i].at = min(u.takings[i].at, now)
			}
			l[a] = u
		}
	}
}
