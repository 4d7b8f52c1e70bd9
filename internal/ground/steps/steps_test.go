package steps

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/limits"
)

// head begins a table of which the first step is on line 4.
const head = "== a table\nwhy: it shows something\n" +
	"under token-bucket 5/10s burst 5 or leaky-queue 5/10s burst 5\n"

func TestATableIsReadAsItStands(t *testing.T) {
	tables, err := Parse("x.txt", `
# A comment of the file.
== a table
why: it shows something # 1,
    and more # 2
start: 2026-01-01T00:00:20.000007Z
lasts: 1m30s
under leaky-queue 5/10s burst 5 # a unit drains in 2s
0s        take 1_000 of ann     -> allowed, in use 3, reset 2d-1us, window 1m+1us, delay 4s # why

2d-1us    return 1 of 3 from 0s -> returned 1, in use 9, reset 0s, wait never
under concurrent 5
1d+2h-1us take 0                -> denied, in use 5, reset 0s, wait 1s`)
	if err == nil || !strings.Contains(err.Error(), "x.txt:11: no request that took 3 at 0s can end") {
		t.Errorf("%v", err)
	}
	one := tables[0]
	if one.Name != "a table" || one.Why != "it shows something and more" || one.Place != "x.txt:3" ||
		one.Start.Nanosecond() != 7000 || one.Lasts != 90*time.Second || one.Arithmetic ||
		!one.Ends() || !one.StepsBack() {
		t.Errorf("%+v", one)
	}
	const day = 24 * time.Hour
	first := one.Phases[0]
	if first.Under[0] != limits.LeakyQueue(limits.Per(5, 10*time.Second), 5) {
		t.Error(first.Under)
	}
	want := []Step{
		{
			Place: "x.txt:9", Verb: Take, Units: 1000, Value: "ann",
			Want: Want{InUse: 3, Decision: limits.Decision{Allowed: true, Remaining: 2,
				ResetAfter:      2*day - time.Microsecond,
				EffectiveWindow: time.Minute + time.Microsecond, Delay: 4 * time.Second}},
		},
		{
			Place: "x.txt:11", At: 2*day - time.Microsecond, Verb: Return, Units: 1, Of: 3,
			Want: Want{Changed: 1, InUse: 9, Decision: limits.Decision{RetryAfter: limits.Never,
				EffectiveWindow: limits.Never}},
		},
	}
	if !slices.Equal(first.Steps, want) {
		t.Errorf("%+v\nwant %+v", first.Steps, want)
	}
	held, denied := one.Phases[1].Steps[0],
		limits.Decision{RetryAfter: time.Second, EffectiveWindow: limits.Never}
	if held.Want.Decision != denied || held.At != 26*time.Hour-time.Microsecond {
		t.Errorf("%+v", held)
	}
}

func TestAMistakeIsNamedWithItsLine(t *testing.T) {
	const step = "0s take 1 -> allowed, in use 1, reset 2s, window 8s\n"
	for _, tt := range []struct{ text, want string }{
		{"0s take 1 -> allowed", `x.txt:1: no table has begun: write "== " and its name first`},
		{"== t\n" + step, `x.txt:2: a step has no limit: write "under" and the limit first`},
		{head, `x.txt:1: "a table": a limit has no steps`},
		{"== t\nunder concurrent 5\n", `x.txt:1: "t": "why:" is missing: say what the steps show`},
		{"== t\nwhy: w\n", `x.txt:1: "t": "under" is missing: name a limit`},
		{head + step + "under concurrent 5", `x.txt:5: 1 limits, want 2 as in the first "under"`},
		{"== t\nwhy: w\nunder bucket 5/10s", `x.txt:3: limits: "bucket 5/10s": unknown algorithm`},
		{"== t\nstart: noon", `x.txt:2: parsing time "noon"`},
		{"== t\nlasts: long", `x.txt:2: "long" is not a time such as 1m30s, 2d or 366d-1us`},
		{head + "0s take 1", `x.txt:4: want "<instant> <what> -> <decision>" (got "0s take 1")`},
		{head + "0s take -> allowed",
			`x.txt:4: want an instant, what happens, and units, such as "3s take 1" (got "0s take")`},
		{head + "0 take 1 -> allowed", `x.txt:4: want "in use", "reset"`},
		{head + "now take 1 -> allowed", `x.txt:4: "now" is not a time`},
		{head + "0s take -1 -> allowed", `x.txt:4: "-1" is not a number of units`},
		{head + "0s give 1 -> allowed", `x.txt:4: "give": use take, charge, return or inherit`},
		{head + "0s charge 1 of 2 -> charged",
			`x.txt:4: "0s charge 1 of 2": charge has another form`},
		{head + "0s return 1 -> returned 1", `x.txt:4: "0s return 1": return has another form`},
		{head + "0s take 1 -> charged 1",
			`x.txt:4: "charged 1" does not say what became of "take"`},
		{head + "0s charge 1 -> allowed",
			`x.txt:4: "allowed" does not say what became of "charge"`},
		{head + "0s charge 1 -> charged", `x.txt:4: "" is not a number of units`},
		{head + "0s take 1 -> allowed, in use 1, reset 2s",
			`x.txt:4: want "in use", "reset", and either`},
		{head + "0s take 1 -> allowed, in use 1, reset 2s, wait 2s",
			`x.txt:4: allowed: an allowed step has a window`},
		{head + "0s take 1 -> denied, in use 1, reset 2s, wait 2s, window 2s",
			`x.txt:4: want "in use", "reset", and either`},
		{head + "0s take 1 -> allowed, left 1",
			`x.txt:4: "left 1": use in use, reset, wait, window or delay`},
		{head + "0s take 1 -> allowed, in use 1, in use 2, reset 2s, window 8s",
			`x.txt:4: "in use 2": in use is there already`},
		{head + "200000d take 1 -> allowed", `x.txt:4: "200000d" is not a time`},
		{head + "0s+5ns take 1 -> allowed", `x.txt:4: "0s+5ns" is not a time`},
		{head + "never take 1 -> allowed", `x.txt:4: "never": no step is then`},
		{"== t\nwhy: w\narithmetic only", `x.txt:3: "arithmetic" stands alone (got "only" behind it)`},
		{"== t\nwhy: w\nwhy: v", `x.txt:3: the table has a "why:" already`},
		{"== t\nwhy: w\nlasts:", `x.txt:3: "" is not a time`},
		{"== t\nwhy: w\nlasts: -5s", `x.txt:3: "-5s": want a time above 0`},
		{head + step + "start: 2027-01-01T00:00:00Z", `x.txt:5: "start:" belongs above the steps`},
		{head + step + "arithmetic", `x.txt:5: "arithmetic" belongs above the steps`},
		{"# a comment\n", `x.txt: no table`},
		{head + "0s inherit 1 -> inherited, in use 1, reset 2s, window 8s",
			`x.txt:1: "a table": x.txt:4: no backend can be told to inherit`},
		{head + step + "1s return 1 of 1 from 0s -> returned 1, in use 0, reset 0s, window 1s",
			`x.txt:1: "a table": x.txt:5: the request has announced no end: write "lasts:" above the steps`},
	} {
		_, err := Parse("x.txt", tt.text)
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%q:\n%v, want\n%s", tt.text, err, tt.want)
		}
	}
}

func TestAllMistakesOfAFileAreReported(t *testing.T) {
	_, err := Parse("x.txt", head+"now take 1 -> allowed\n0s give 1 -> allowed\n")
	if err == nil || !strings.Contains(err.Error(), "x.txt:4: ") ||
		!strings.Contains(err.Error(), "x.txt:5: ") {
		t.Errorf("%v", err)
	}
}

func TestEachTableHasANameOfItsOwn(t *testing.T) {
	tables, err := All()
	if err != nil || len(tables) < 50 {
		t.Errorf("%d tables, %v", len(tables), err)
	}
	two := []Table{{Name: "t", Place: "a.txt:1"}, {Name: "t", Place: "b.txt:2"}}
	if err := unlike(two); err == nil ||
		err.Error() != `b.txt:2: another table has the name "t": a.txt:1` {
		t.Errorf("%v", err)
	}
}

func TestATimeIsShownAsTablesWriteIt(t *testing.T) {
	const day = 24 * time.Hour
	for d, want := range map[time.Duration]string{
		0: "0s", 90 * time.Second: "1m30s", time.Minute: "1m", 36 * time.Hour: "36h", 366 * day: "366d",
		366*day - time.Microsecond: "366d-1us", 4*time.Second + time.Microsecond: "4s+1us",
		30*day + 23*time.Hour: "30d+23h", 333 * time.Microsecond: "333us", limits.Never: "never",
		-5 * time.Second: "-5s",
	} {
		if got := Show(d); got != want {
			t.Errorf("%v: %s, want %s", d, got, want)
		}
		if got, err := span(want); got != d || err != nil {
			t.Errorf("%s: %v, %v", want, got, err)
		}
	}
}

func TestWhatAStepLeadsToIsShownAsInItsTable(t *testing.T) {
	for want, w := range map[string]Want{
		"allowed, in use 3, reset 2s, window 1s, delay 4s (2 remain)": {0, 3, limits.Decision{
			Allowed: true, Remaining: 2, ResetAfter: 2 * time.Second, EffectiveWindow: time.Second,
			Delay: 4 * time.Second}},
		"1 changed, denied, in use 9, reset 0s, wait never (0 remain)": {1, 9,
			limits.Decision{RetryAfter: limits.Never}},
	} {
		if got := w.String(); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}
