package interleave_test

import (
	"time"

	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
	"github.com/weir-go/weir/memory"
)

var (
	window = limits.FixedWindow(limits.PerMinute(4))
	bucket = limits.TokenBucket(limits.PerMinute(4), 4)
	queue  = limits.LeakyQueue(limits.PerMinute(4), 4)
	log    = limits.SlidingLog(limits.PerMinute(4))
	held   = limits.Concurrent(2)
	ban    = limits.Ban(limits.PerMinute(4), time.Hour)
)

func charge(key string, l limits.Limit, n int64) backends.Charge {
	return backends.Charge{Scope: "scope", Key: key, Limit: l, Cost: n}
}

func take(charges ...backends.Charge) call { return call{charges: charges} }
func (c call) later(d time.Duration) call  { c.after = d; return c }
func (c call) peeks() call                 { c.peek = true; return c }

// ends ends the n-th call of its task, which is c.
func (c call) ends(n int, final int64) call { c.settles, c.final = n, final; return c }

// open opens a Memory for so many keys.
func open(keys int) func(now func() time.Time) backends.Backend {
	return func(now func() time.Time) backends.Backend {
		return memory.MustNew(memory.Options{MaxKeys: keys, Clock: now})
	}
}

// known is looks by which a store learns limits.
func known(limits ...limits.Limit) (calls []call) {
	for _, l := range limits {
		calls = append(calls, take(charge("", l, 0)))
	}
	return calls
}

// filled is a charge on each of n keys.
func filled(n int) (calls []call) {
	for i := range n {
		calls = append(calls, take(charge("key"+string(rune('a'+i)), window, 1)))
	}
	return calls
}

// scenes are small: two or three tasks with up to three calls each.
func scenes() []scene {
	const sec = time.Second
	one := func(l limits.Limit, n int64) call { return take(charge("k", l, n)) }
	ended := func(l limits.Limit, n int64) call { // with an end
		c := one(l, n)
		c.charges[0].Lasts = sec
		return c
	}
	key := func(k string, n int64) call { return take(charge(k, window, n)) }
	a, b := charge("a", window, 1), charge("b", bucket, 1) // on two shards of large
	small, full, large := open(16), open(1), open(1<<14)
	return []scene{
		{name: "first takings", open: small, tasks: [][]call{
			{one(window, 1), one(window, 2)}, {one(window, 2), one(window, 1)},
		}},
		{name: "take, take", open: small, setup: known(window), tasks: [][]call{
			{one(window, 1), one(window, 2), one(window, 1)},
			{one(window, 2), one(window, 1), one(window, 1)},
		}},
		{name: "take, take later", slow: true, open: small, setup: known(bucket), tasks: [][]call{
			{one(bucket, 2), one(bucket, 1), one(bucket, 1)},
			{one(bucket, 1), one(bucket, 2).later(20 * sec), one(bucket, 1)},
		}},
		{name: "take, refund and charge", open: small, setup: known(window), tasks: [][]call{
			{ended(window, 2), ended(window, 2).ends(1, 1), ended(window, 1)},
			{ended(window, 1), ended(window, 1).ends(1, 3), ended(window, 1)},
		}},
		{name: "take, refund of a bucket", slow: true, open: small, setup: known(bucket), tasks: [][]call{
			{ended(bucket, 3), ended(bucket, 3).ends(1, 0), ended(bucket, 2)},
			{ended(bucket, 1), ended(bucket, 2).later(5 * sec), ended(bucket, 1)},
		}},
		{name: "take, refund of a log", slow: true, open: small, setup: known(log), tasks: [][]call{
			{ended(log, 2), ended(log, 2).ends(1, 1), ended(log, 1)},
			{ended(log, 1).later(sec), ended(log, 2), ended(log, 1)},
		}},
		{name: "refund, reset", open: small, setup: known(window), tasks: [][]call{
			{ended(window, 2), ended(window, 2).ends(1, 1), one(window, 1)},
			{{reset: "k"}, one(window, 3), one(window, 1)},
		}},
		{name: "take, reset", open: small, setup: known(window), tasks: [][]call{
			{one(window, 2), one(window, 2), one(window, 1)},
			{one(window, 1), {reset: "k"}, one(window, 2)},
		}},
		{name: "take, another limit", open: small, setup: known(window, log), tasks: [][]call{
			{one(window, 2), one(window, 1), one(window, 1)},
			{one(log, 1), one(log, 2), one(log, 1)},
		}},
		{name: "take, grow", open: small, setup: filled(8), tasks: [][]call{
			{key("keya", 1), key("new", 2), key("keya", 2)},
			{key("new", 2), key("keya", 1), key("new", 1)},
		}},
		{name: "reset, grow", open: small, setup: filled(8), tasks: [][]call{
			{key("new", 2), key("keya", 3)},
			{{reset: "keya"}, key("keya", 3)},
		}},
		{name: "take, displace", open: full, setup: filled(8), model: full, most: 4, tasks: [][]call{
			{key("new", 2), key("keya", 2), key("new", 2)},
			{key("keya", 1), key("other", 2), key("keya", 1)},
		}},
		{name: "groups in both orders", open: large, setup: known(window, bucket), tasks: [][]call{
			{take(a, b), take(b, a), take(a)},
			{take(b, a), take(a, b), take(b)},
		}},
		{name: "groups, peek", open: large, setup: known(window, bucket), tasks: [][]call{
			{take(a, b), take(b, a)},
			{take(b, a).peeks(), take(a).later(sec), take(b, a).peeks()},
		}},
		{name: "held units", open: small, setup: known(held), tasks: [][]call{
			{one(held, 1), one(held, 1).ends(1, 0), one(held, 1)},
			{one(held, 2), one(held, 2).ends(1, 0), one(held, 1)},
		}},
		// There are three ids. The fourth limit takes the id of a limit that has no state yet.
		{name: "take, retire", open: small, setup: append(known(log), one(queue, 1)), tasks: [][]call{
			{key("a", 0), key("a", 1), key("a", 2)},
			{take(charge("b", ban, 1)), take(charge("b", ban, 1))},
		}},
		{name: "settle, retire", open: small, setup: append(known(log), one(queue, 1)), tasks: [][]call{
			{key("a", 0), key("a", 0).ends(1, 2), key("a", 3)},
			{take(charge("b", ban, 1)), take(charge("b", ban, 1))},
		}},
		{name: "three tasks", full: true, open: small, setup: known(window), tasks: [][]call{
			{ended(window, 2), ended(window, 2).ends(1, 0)}, {one(window, 3)}, {{reset: "k"}},
		}},
	}
}
