package headers

import (
	"net/http"
	"time"

	"github.com/weir-go/weir/core"
)

// modelUnits are the units of which OpenAI and Anthropic have fields, in the order of the fields.
// OpenAI has the first two.
var modelUnits = [...]core.Unit{core.Requests, core.Tokens, core.InputTokens, core.OutputTokens}

// models writes the fields of language models: [OpenAI] and [Anthropic].
type models struct {
	rules   *rules
	formats formats
}

// appendTo appends the fields of OpenAI and Anthropic for o. Those of one unit are one set:
// they show the rule that binds, of an outer limiter or of o.
func (m *models) appendTo(text []byte, v *values, h http.Header, o *core.Outcome) []byte {
	for i, unit := range modelUnits {
		d := m.rules.bindingOf(unit, o)
		if d == nil {
			continue
		}
		if m.formats.has(OpenAI) && i < 2 {
			text = m.appendOpenAI(text, v, h, d, fieldOpenAI+field(3*i))
		}
		if m.formats.has(Anthropic) {
			text = m.appendAnthropic(text, v, h, d, fieldAnthropic+field(3*i))
		}
	}
	return text
}

// appendOpenAI appends the three fields from f on for d.
func (m *models) appendOpenAI(
	text []byte, v *values, h http.Header, d *core.RuleDecision, f field,
) []byte {
	reset := min(roundUp(micros(resetAfter(d)), microsPerMilli), maxSeconds*microsPerSecond)
	ours := standing{!d.Allowed, count(d.Remaining), reset}
	if !ours.bindsAs(first((f + 1).in(h)), first((f + 2).in(h)), parseDuration) {
		return text
	}
	text = m.appendLeft(text, v, d, f)
	return v.addString(f+2, text, (time.Duration(reset) * time.Microsecond).String())
}

// appendRetry appends what SDKs read beside Retry-After: the wait in milliseconds, or that they are
// not to retry if the answer tells no wait. retry is the wait in seconds.
func (m *models) appendRetry(
	text []byte, v *values, o *core.Outcome, jitter time.Duration, retry int64, told bool,
) []byte {
	if !told {
		return v.addString(fieldShouldRetry, text, "false")
	}
	millis := ceilDiv(int64(plus(o.RetryAfter(), jitter)), int64(time.Millisecond))
	if millis == 0 || ceilDiv(millis, 1000) < retry { // Retry-After was raised
		millis = retry * 1000
	}
	return v.addInteger(fieldRetryAfterMs, text, millis)
}

// parseDuration parses a duration such as 6m0s into microseconds.
func parseDuration(s string) (int64, bool) {
	d, err := time.ParseDuration(s)
	return d.Microseconds(), err == nil
}

// lastSecond is the last instant of RFC 3339, whose years have four digits.
const lastSecond = 253_402_300_799

// appendAnthropic appends the three fields from f on for d.
func (m *models) appendAnthropic(
	text []byte, v *values, h http.Header, d *core.RuleDecision, f field,
) []byte {
	reset := min(roundUp(instant(d, resetAfter(d)), microsPerSecond), lastSecond*microsPerSecond)
	ours := standing{!d.Allowed, count(d.Remaining), reset}
	if !ours.bindsAs(first((f + 1).in(h)), first((f + 2).in(h)), parseInstant) {
		return text
	}
	text = m.appendLeft(text, v, d, f)
	text = time.UnixMicro(reset).UTC().AppendFormat(text, time.RFC3339)
	v.add(f+2, text)
	return text
}

// parseInstant parses an instant of RFC 3339 into microseconds since the Unix epoch.
func parseInstant(s string) (int64, bool) {
	at, err := time.Parse(time.RFC3339, s)
	return at.UnixMicro(), err == nil
}

// appendLeft appends the limit of d, the field f, and what is left of it, the field after f.
func (m *models) appendLeft(text []byte, v *values, d *core.RuleDecision, f field) []byte {
	text = v.addInteger(f, text, m.rules.allowance(d).quota)
	return v.addInteger(f+1, text, count(d.Remaining))
}
