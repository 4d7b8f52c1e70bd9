package headers

import (
	"net/http"
	"strconv"
	"time"

	"github.com/weir-go/weir/core"
)

// DiscordScope is the X-RateLimit-Scope of a rule in [Discord], which tells a client who shares its
// units. A rule without one has the scope "user". A denial without a key has DiscordShared, since
// all requests without a key count together.
type DiscordScope string

const (
	// DiscordShared is the scope of a rule whose units many clients use.
	DiscordShared DiscordScope = "shared"

	// DiscordGlobal is the scope of a rule that counts all requests of a client, on every route.
	DiscordGlobal DiscordScope = "global"

	discordUser DiscordScope = "user"
)

// xRateLimit writes the fields of [GitHub], [DeltaSeconds], [Discord] or [EpochSeconds].
type xRateLimit struct {
	rules   *rules
	formats formats
}

// appendTo appends the fields of GitHub, DeltaSeconds, Discord or EpochSeconds for d, the binding
// decision. All X-RateLimit fields are one set: if ours replace those of an outer limiter, none of
// its fields stays. least is as in untilLeft.
func (x *xRateLimit) appendTo(
	text []byte, v *values, h http.Header, d *core.RuleDecision, least int64,
) []byte {
	remaining, wait := count(d.Remaining), untilLeft(d, least)
	var reset int64 // microseconds, rounded like the field
	switch {
	case x.formats.has(GitHub), x.formats.has(EpochSeconds):
		reset = roundUp(instant(d, wait), microsPerSecond)
	case x.formats.has(Discord):
		reset = roundUp(instant(d, wait), microsPerMilli)
	default:
		reset = ceilSeconds(wait) * microsPerSecond
	}
	if outer := fieldXRemaining.in(h); len(outer) > 0 {
		ours := standing{!d.Allowed, remaining, reset}
		if !ours.binds(outer[0], first(fieldXReset.in(h))) {
			return text
		}
		for f := fieldXLimit; f < fields; f++ {
			delete(h, keys[f])
		}
	}
	limit := x.rules.allowance(d).quota
	text = v.addInteger(fieldXLimit, text, limit)
	text = v.addInteger(fieldXRemaining, text, remaining)
	if x.formats.has(Discord) {
		return x.appendDiscord(text, v, h, d, reset, wait)
	}
	text = v.addInteger(fieldXReset, text, reset/microsPerSecond)
	if !x.formats.has(GitHub) {
		return text
	}
	text = v.addInteger(fieldXUsed, text, max(0, limit-remaining))
	return v.addString(fieldXResource, text, d.Rule())
}

// appendDiscord appends the fields that only Discord has.
func (x *xRateLimit) appendDiscord(
	text []byte, v *values, h http.Header, d *core.RuleDecision, reset int64, wait time.Duration,
) []byte {
	text = appendDecimal(text, reset)
	v.add(fieldXReset, text)
	text = appendDecimal(text, roundUp(micros(wait), microsPerMilli))
	v.add(fieldXResetAfter, text)
	text = v.addString(fieldXBucket, text, d.Rule())
	if d.Allowed {
		return text
	}
	scope := discordUser
	if p := x.rules.policy(d); p != nil {
		scope = p.scope
	}
	if d.Key == "" {
		scope = DiscordShared
	}
	text = v.addString(fieldXScope, text, string(scope))
	if scope == DiscordGlobal {
		text = v.addString(fieldXGlobal, text, "true")
	}
	if len(fieldVia.in(h)) == 0 { // otherwise a proxy behind has set it
		text = v.addString(fieldVia, text, "1.1 weir")
	}
	return text
}

const microsPerMilli = 1000

// roundUp returns the smallest multiple of unit that is at least v, for v ≥ 0.
func roundUp(v, unit int64) int64 { return ceilDiv(v, unit) * unit }

// appendDecimal appends v as seconds with three decimals. v is in microseconds, a whole
// number of milliseconds.
func appendDecimal(text []byte, v int64) []byte {
	text = strconv.AppendInt(text, v/microsPerSecond, 10)
	milli := v % microsPerSecond / microsPerMilli
	return append(text, '.', byte('0'+milli/100), byte('0'+milli/10%10), byte('0'+milli%10))
}
