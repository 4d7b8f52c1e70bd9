package limitstest

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
)

// dirty returns n decisions with rubbish in every field, like those of a caller that reuses its
// slice. A backend must set every field.
func dirty(n int) []limits.Decision {
	out := make([]limits.Decision, n)
	for i := range out {
		out[i] = limits.Decision{
			Allowed: i%2 == 0, Source: limits.SourceClosed, Remaining: -7, RetryAfter: -7, ResetAfter: -7,
			EffectiveWindow: -7, Delay: -7, At: -7, Transient: true, Ticket: -7,
		}
	}
	return out
}

// diff returns "" if got equals want as same compares them. Otherwise it shows both, charge by
// charge.
func diff(charges []backends.Charge, got, want []limits.Decision) string {
	var b strings.Builder
	for i := range want {
		if !same(charges[i], got[i], want[i]) {
			fmt.Fprintf(&b, "  %s\n    got  %s\n    want %s\n    (%s)\n", show(charges[i]),
				showDecision(got[i]), showDecision(want[i]), fields(got[i], want[i]))
		}
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// same reports whether got equals want as far as the contract defines it. A ticket is private to
// the backend, and the RetryAfter of a concurrency limit is a guess.
func same(c backends.Charge, got, want limits.Decision) bool {
	got.Ticket, want.Ticket = 0, 0
	if c.Limit.Algorithm().Holds() && !want.Allowed && want.RetryAfter != limits.Never &&
		got.RetryAfter > 0 {
		got.RetryAfter = want.RetryAfter
	}
	return got == want
}

// fields names the fields in which a and b differ, with the differences.
func fields(a, b limits.Decision) string {
	var names []string
	add := func(name string, differ bool, by any) {
		if differ {
			names = append(names, fmt.Sprintf("%s differs by %v", name, by))
		}
	}
	add("Allowed", a.Allowed != b.Allowed, a.Allowed)
	add("Source", a.Source != b.Source, a.Source)
	add("Remaining", a.Remaining != b.Remaining, a.Remaining-b.Remaining)
	add("RetryAfter", a.RetryAfter != b.RetryAfter, a.RetryAfter-b.RetryAfter)
	add("ResetAfter", a.ResetAfter != b.ResetAfter, a.ResetAfter-b.ResetAfter)
	add("EffectiveWindow", a.EffectiveWindow != b.EffectiveWindow, a.EffectiveWindow-b.EffectiveWindow)
	add("Delay", a.Delay != b.Delay, a.Delay-b.Delay)
	add("At", a.At != b.At, fmt.Sprintf("%dµs", a.At-b.At))
	return strings.Join(names, ", ")
}

// show returns a charge in one line.
func show(c backends.Charge) string {
	shadow := ""
	if c.Shadow {
		shadow = " in shadow"
	}
	if c.Limit.Algorithm().CountsValues() {
		shadow += fmt.Sprintf(" with value %x", c.Value)
	}
	return fmt.Sprintf("%d of %s to (%s, %s)%s", c.Cost, showLimit(c.Limit), shorten(c.Scope),
		shorten(c.Key), shadow)
}

func showLimit(l limits.Limit) string { return l.String() }

func showDecision(d limits.Decision) string {
	verdict := "denied "
	if d.Allowed {
		verdict = "allowed"
	}
	s := fmt.Sprintf("%s remaining %d, retry %s, reset %s, window %s, delay %s, at %d",
		verdict, d.Remaining, wait(d.RetryAfter), wait(d.ResetAfter), wait(d.EffectiveWindow),
		wait(d.Delay), d.At)
	if d.Source != limits.SourcePrimary {
		s += ", source " + d.Source.String()
	}
	return s
}

func wait(d time.Duration) string {
	if d == limits.Never {
		return "never"
	}
	return d.String()
}

// shorten quotes s, and cuts it after 40 bytes.
func shorten(s string) string {
	if len(s) > 40 {
		return fmt.Sprintf("%q... (%d bytes)", s[:40], len(s))
	}
	return fmt.Sprintf("%q", s)
}

// instant shows microseconds since the Unix epoch as a time of day.
func instant(micros int64) string {
	if micros < 0 || micros == math.MaxInt64 {
		return fmt.Sprint(micros)
	}
	return time.UnixMicro(micros).UTC().Format("2006-01-02T15:04:05.000000Z")
}
