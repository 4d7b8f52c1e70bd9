package client

import (
	"time"

	"github.com/weir-go/weir/client/internal/quota"
)

// Kinds of tokens that OpenAI and Anthropic limit. A limit of all tokens counts those that are read
// and those that are written.
const (
	allTokens = iota
	inputTokens
	outputTokens
	tokenKinds
)

// spend is how many tokens of each kind a request costs.
type spend [tokenKinds]int64

// anyCost is the unknown cost of a request without Options.Tokens.
var anyCost = spend{-1, -1, -1}

// tokens keeps the requests of a bucket to limits of tokens.
type tokens struct {
	limits         [tokenKinds]tokenLimit
	sent, answered spend  // tokens of all requests
	newest         uint64 // the latest request whose answer counts
}

// tokenLimit is a limit of tokens. It refills evenly until the told reset, as Anthropic documents
// and the resets of OpenAI show. left is a lower bound, as long as no other client uses the limit:
//
//	an answer tells 40,000 of 100,000 and a reset in 36 s, so 1,667 refill in a second;
//	a request of 50,000 may start after 6 s
type tokenLimit struct {
	known  bool
	left   float64 // at an instant
	at     instant
	limit  float64 // 0: unknown
	rate   float64 // tokens that refill in a nanosecond; 0: unknown
	whole  instant // when all of the limit is left
	source string
}

// level returns what is left now.
func (l *tokenLimit) level(now instant) float64 {
	return min(l.left+l.rate*float64(now-l.at), max(l.limit, l.left))
}

// next returns when n tokens are left. An unknown number waits until all are, if none is left. The
// told reset does not know of requests that are flying: their answers tell a later one.
func (l *tokenLimit) next(n int64, flying bool, now instant) (at instant) {
	need := float64(n)
	if l.limit > 0 {
		need = min(need, l.limit)
	}
	switch {
	case !l.known, n == 0, n > 0 && l.level(now) >= need, n < 0 && l.left >= 1:
		return 0
	case n < 0:
		return l.whole
	}
	at = unknown
	if wait := (need - l.left) / l.rate; wait < float64(quota.Longest) { // +Inf without a rate
		at = l.at + time.Duration(wait) + 1
	}
	if !flying {
		at = min(at, l.whole)
	}
	return at
}

// next returns when a request with a cost may start, and which field tells that. A nil t knows no
// limit.
func (t *tokens) next(cost *spend, now instant) (at instant, source string) {
	if t == nil {
		return 0, ""
	}
	for kind := range t.limits {
		l := &t.limits[kind]
		flying := t.sent[kind] != t.answered[kind]
		if until := l.next(cost[kind], flying, now); until > at {
			at, source = until, l.source
		}
	}
	return at, source
}

// freeAt returns when all of each limit is left of which a tenth or less is left now.
func (t *tokens) freeAt() (at instant) {
	if t == nil {
		return 0
	}
	for kind := range t.limits {
		if l := &t.limits[kind]; l.known && l.left <= l.limit/10 {
			at = max(at, l.whole)
		}
	}
	return at
}

// ledger is what a request in flight has taken.
type ledger struct {
	cost   spend
	before spend // of the answered requests, when it started
}

// start notes that a request with a cost is sent.
func (t *tokens) start(cost *spend, now instant) *ledger {
	taken := &ledger{before: t.answered}
	for kind := range t.limits {
		n := max(cost[kind], 0)
		taken.cost[kind] = n
		t.sent[kind] += n
		l := &t.limits[kind]
		l.left, l.at = l.level(now)-float64(n), now
	}
	return taken
}

// answer notes that a request is no longer in flight.
func (t *tokens) answer(taken *ledger) {
	for kind := range t.answered {
		t.answered[kind] += taken.cost[kind]
	}
}

// cancel takes back a start: the request was not sent.
func (t *tokens) cancel(taken *ledger) {
	for kind := range t.limits {
		t.limits[kind].left += float64(taken.cost[kind])
	}
}

// observe learns from an answer that tells what is left. The server may have decided every request
// after it that was not answered when it started.
func (t *tokens) observe(tk ticket, now instant, told *[tokenKinds]quota.Rest) {
	newest := tk.seq >= t.newest
	t.newest = max(t.newest, tk.seq)
	for kind := range told {
		q, l := &told[kind], &t.limits[kind]
		if q.Source == "" {
			continue
		}
		taken := tk.tokens
		others := t.sent[kind] - taken.before[kind] - taken.cost[kind]
		lowest, level := float64(q.Left-others), l.level(now)
		switch {
		case !l.known:
			level = lowest
		case newest:
			level = max(lowest, min(level, float64(q.Left)))
		default:
			level = max(lowest, level)
		}
		l.left, l.at = level, now
		if !newest {
			continue
		}
		l.known, l.limit, l.source = true, float64(q.Limit), q.Source
		l.whole = now + max(q.Window, 0)
		if used := q.Limit - q.Left - 1; used > 0 && q.Window > 0 { // left is rounded down
			l.rate = float64(used) / float64(q.Window)
		}
	}
}
