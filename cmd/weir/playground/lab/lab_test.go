package lab_test

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/cmd/weir/playground/lab"
	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/internal/proof/testrun"
	"github.com/weir-go/weir/limits"
)

// newLab returns a lab whose setup has no mistake.
func newLab(t *testing.T, s lab.Setup) *lab.Lab {
	t.Helper()
	l, mistakes := lab.New(s)
	if len(mistakes) > 0 {
		t.Fatalf("%+v: %v", s, mistakes)
	}
	return l
}

// verdicts writes the events of each panel in a line of its own: A allowed, D denied, a and
// d asked, | a turn.
func verdicts(events []lab.Event, panels int) []string {
	lines := make([]string, panels)
	for _, e := range events {
		switch {
		case e.Kind == lab.Turn:
			lines[e.Panel] += "|"
		case e.Kind == lab.Probe && e.Verdict == core.Allowed:
			lines[e.Panel] += "a"
		case e.Kind == lab.Probe:
			lines[e.Panel] += "d"
		case e.Verdict == core.Allowed:
			lines[e.Panel] += "A"
		default:
			lines[e.Panel] += "D"
		}
	}
	return lines
}

func TestEveryAlgorithmHasAPanel(t *testing.T) {
	for _, limit := range []string{"", "9/300d"} {
		l := newLab(t, lab.Setup{Limit: limit})
		panels := l.Panels()
		for i, a := range limits.Algorithms() {
			if i >= len(panels) || len(panels[i].Rules) != 1 || panels[i].Rules[0].Algorithm != a.String() {
				t.Errorf("%q: panel %d is not that of %v: %+v", limit, i, a, panels)
			}
		}
	}
}

// A calendar has periods of its own. They do not stretch what there is to see.
func TestTheCalendarHasThePeriodNextToARate(t *testing.T) {
	for limit, want := range map[string]string{
		"5/10s": "calendar 5/day", "3/2d": "calendar 3/week", "100/30d": "calendar 100/month", "9/40d": "calendar 9/year",
	} {
		l := newLab(t, lab.Setup{Limit: limit})
		at := slices.IndexFunc(l.Panels(), func(p lab.PanelInfo) bool { return strings.HasPrefix(p.Text, "calendar") })
		if at < 0 || l.Panels()[at].Text != want {
			t.Errorf("%s: want a panel %s in %+v", limit, want, l.Panels())
		}
		parsed, _ := limits.Parse(limit)
		if period := parsed.Rate().Period.Microseconds(); l.Span() < period || l.Span() > 30*period {
			t.Errorf("%s: shows %d µs", limit, l.Span())
		}
	}
}

// The same requests at the same instants, however time is cut into frames.
func TestFramesChangeNothing(t *testing.T) {
	random := testrun.Random(t)
	for _, traffic := range []string{"steady", "poisson", "burst", "script"} {
		s := lab.Setup{
			Traffic: traffic, Rate: "3/s", Script: "1s x3, 1.5s x4 cost 2, every 2s", Retry: "jitter", Cost: "1,2",
		}
		whole := newLab(t, s)
		var want []lab.Event
		for range 100 {
			whole.Advance(200_000)
			want = append(want, whole.Events()...)
		}
		cut := newLab(t, s)
		var got []lab.Event
		for cut.Now() < whole.Now() {
			cut.Advance(min(random.Int64N(50_000), whole.Now()-cut.Now()))
			got = append(got, cut.Events()...)
		}
		if fmt.Sprint(got) != fmt.Sprint(want) || len(want) < 200 {
			t.Errorf("%s: %d events in small frames, %d in large ones, and they differ", traffic, len(got), len(want))
		}
	}
}

func TestOneMicrosecondEarlierIsDenied(t *testing.T) {
	for i, a := range limits.Algorithms() {
		// whose wait is a guess, or a day: see below
		if a == limits.AlgorithmConcurrent || a == limits.AlgorithmCalendar {
			continue
		}
		for _, limit := range []string{"5/10s", "3/7s", "7/1m", "1/1ms"} {
			oneMicrosecondEarlier(t, lab.Setup{Limit: limit}, i)
		}
	}
	for _, panel := range []string{"calendar 5/day in Europe/Berlin", "calendar 5/month from 31"} {
		oneMicrosecondEarlier(t, lab.Setup{Panels: []string{panel}}, 0)
	}
}

// Two values that come again keep their places, and a third waits until one has left.
func TestValuesComeInTurn(t *testing.T) {
	l := newLab(t, lab.Setup{Panels: []string{"distinct 2/10s"}, Values: "ann, bob, ann, cat"})
	l.Send(8, 1)
	if got := verdicts(l.Events(), 99)[0]; strings.Trim(got, "|") != "AAADAAAD" {
		t.Errorf("ann, bob, ann, cat twice: %q", got)
	}
	l.Advance(4_000_000)
	l.Send(1, 1)
	if g := l.GaugeOf(0); g.Remaining != 0 || g.Next != 6*time.Second {
		t.Errorf("%+v", g)
	}
	l.Advance(6_000_000)
	if g := l.GaugeOf(0); g.Remaining != 1 || g.Next != 4*time.Second {
		t.Errorf("once bob has left: %+v", g)
	}
}

func oneMicrosecondEarlier(t *testing.T, setup lab.Setup, i int) {
	t.Helper()
	l := newLab(t, setup)
	l.Advance(333)
	for !strings.Contains(verdicts(l.Events(), 99)[i], "D") {
		l.Send(1, 1)
	}
	if !l.Approach(i) {
		t.Fatalf("%+v: no denial says when", setup)
	}
	if got := verdicts(l.Events(), 99)[i]; strings.Trim(got, "|") != "d" {
		t.Errorf("%+v: a microsecond early: %q, want d", setup, got)
	}
	l.Advance(1)
	if got := verdicts(l.Events(), 99)[i]; strings.Trim(got, "|") != "a" {
		t.Errorf("%+v: in time: %q, want a", setup, got)
	}
	answer, _ := l.Answer(i, 0)
	if want := "One microsecond early: denied. In time: allowed."; answer.Proof != want {
		t.Errorf("%+v: %q, want %q", setup, answer.Proof, want)
	}
}

func TestWhatIsTakenMeanwhileEndsAProof(t *testing.T) {
	l := newLab(t, lab.Setup{Panels: []string{"token-bucket 2/2s"}})
	l.Send(1, 2)
	l.Send(1, 2) // denied, for 2 s
	l.Advance(1_000_000)
	l.Send(1, 1)
	l.Advance(5_000_000)
	if got := verdicts(l.Events(), 1)[0]; got != "ADA" {
		t.Errorf("got %q, want ADA and no probe", got)
	}
	if l.Approach(0) {
		t.Error("there is still an instant to go to")
	}
}

func TestPresets(t *testing.T) {
	for _, test := range []struct {
		name  string
		setup lab.Setup
		until time.Duration
		want  []string
	}{
		{
			"a double burst at the boundary",
			lab.Setup{
				Panels: []string{"fixed-window 5/5s", "sliding-log 5/5s"}, Traffic: "script",
				Script: "4.8s x5, 5.2s x5",
			},
			6 * time.Second,
			[]string{"|AAAAA|AAAAA", "AAAAADDDDD"},
		}, {
			"two rules, all or nothing",
			lab.Setup{
				Panels:  []string{"token-bucket 2/s burst 2 and fixed-window 3/10s", "token-bucket 2/s burst 2"},
				Traffic: "script", Script: "1s x2, 2s x2, 3s x2",
			},
			4 * time.Second,
			[]string{"|AAADDD", "AAAAAA"},
		}, {
			"a retry storm",
			lab.Setup{Panels: []string{"fixed-window 2/5s"}, Traffic: "script", Script: "1s x5", Retry: "wait"},
			12 * time.Second,
			[]string{"|AADDDd|aAADd|aA"},
		}, {
			"a concurrency limit ends its requests",
			lab.Setup{Panels: []string{"concurrent 2"}, Traffic: "script", Script: "1s x3, 2.9s, 3s x3", Lasts: "2s"},
			4 * time.Second,
			[]string{"AADDAAD"},
		}, {
			"a window that its first request opens",
			lab.Setup{Panels: []string{"anchored-window 1/2s"}, Traffic: "script", Script: "1s, 2.5s, 3s"},
			4 * time.Second,
			[]string{"ADd|aA"},
		}, {
			"five rules, all or nothing",
			lab.Setup{
				Panels: []string{"9/10s and 8/10s and 7/10s and 6/10s and 2/10s"}, Traffic: "script", Script: "1s x3",
			},
			2 * time.Second,
			[]string{"|||||AAD"},
		},
	} {
		l := newLab(t, test.setup)
		l.Advance(test.until.Microseconds())
		if got := verdicts(l.Events(), len(test.want)); strings.Join(got, " ") != strings.Join(test.want, " ") {
			t.Errorf("%s: got %q, want %q", test.name, got, test.want)
		}
	}
}

func TestADenialTakesNothingFromTheOtherRules(t *testing.T) {
	l := newLab(t, lab.Setup{Panels: []string{"fixed-window 9/10s and fixed-window 1/10s"}})
	l.Send(4, 1)
	a, ok := l.Answer(0, 0)
	if !ok || a.Verdict != "denied" || a.Rules[0].Remaining != 8 || !a.Rules[0].Allowed || a.Rules[1].Allowed ||
		a.Rules[1].Name != "fixed-window-2" {
		t.Errorf("the answer is %+v", a)
	}
}

func TestRulesHaveTheNamesOfTheirText(t *testing.T) {
	l := newLab(t, lab.Setup{Panels: []string{"Account: 9/10s and plan-rate:1/10s and 5/10s and account: 7/10s"}})
	l.Send(2, 1)
	a, _ := l.Answer(0, 0)
	var names []string
	for _, r := range a.Rules {
		names = append(names, r.Name)
	}
	if got := strings.Join(names, " "); got != "account plan-rate sliding-window account-2" ||
		!strings.Contains(fmt.Sprint(a.Fields), `"plan-rate";r=0`) {
		t.Errorf("the rules are %s, the fields %v", got, a.Fields)
	}
}

// As nginx does with delay=2.
func TestUnitsThatAreNotDelayedGoOnAtOnce(t *testing.T) {
	l := newLab(t, lab.Setup{Panels: []string{"leaky-queue 10/s capacity 5 undelayed 2"}})
	l.Send(6, 1)
	var delays []string
	for _, e := range l.Events() {
		if e.Kind == lab.Request {
			delays = append(delays, fmt.Sprint(e.Verdict, e.Delay))
		}
	}
	if got := strings.Join(delays, ", "); got != "allowed 0s, allowed 0s, allowed 0s, allowed 100ms, allowed 200ms, "+
		"denied 0s" {
		t.Errorf("the delays are %s", got)
	}
	l.Advance(100_000) // the next one would wait, behind two that do
	frame := l.AppendFrame(nil, 0)
	delay := math.Float64frombits(binary.LittleEndian.Uint64(frame[8*(lab.HeadFields+lab.PanelFields+5):]))
	if delay != 200_000 {
		t.Errorf("another request would wait %v µs, want 200000", delay)
	}
}

func TestThePictureShowsWhatIsAskedFor(t *testing.T) {
	for span, want := range map[string]int64{"": 3 * 86_400_000_000, "90s": 90_000_000} {
		if got := newLab(t, lab.Setup{Panels: []string{"10/s and 1000/day"}, Span: span}).Span(); got != want {
			t.Errorf("span %q shows %d µs, want %d", span, got, want)
		}
	}
}

func TestAnswersHaveTheirHeaderFields(t *testing.T) {
	l := newLab(t, lab.Setup{Panels: []string{"leaky-queue 2/10s"}})
	l.Send(3, 1)
	for number, want := range map[int64]string{
		1: `allowed 200 "" [{RateLimit "leaky-queue";r=1;t=5} {RateLimit-Policy "leaky-queue";q=2;w=10}]`,
		2: `allowed 200 "5 s" [{RateLimit "leaky-queue";r=0;t=5} {RateLimit-Policy "leaky-queue";q=2;w=10}]`,
		3: `denied 429 "" [{RateLimit "leaky-queue";r=0;t=5} {RateLimit-Policy "leaky-queue";q=2;w=10} {Retry-After 5}]`,
	} {
		a, _ := l.Answer(0, number)
		if got := fmt.Sprintf("%s %d %q %v", a.Verdict, a.Status, a.Delay, a.Fields); got != want {
			t.Errorf("answer %d: %s, want %s", number, got, want)
		}
	}
	l.Advance(3_725_000_007)
	l.Send(1, 1)
	if a, _ := l.Answer(0, 0); a.At != "1 h 2 min 5.000 007 s" {
		t.Errorf("the instant is %q", a.At)
	}
	if a, _ := l.Answer(0, 99); a.Number != 4 {
		t.Errorf("an answer that is not there is number %d, want the last, 4", a.Number)
	}
	if _, ok := l.Answer(7, 0); ok {
		t.Error("a panel that is not there has an answer")
	}
}

func TestTimesHaveOneForm(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0 s", 7 * time.Microsecond: "7 µs", 173 * time.Millisecond: "173 ms",
		216791 * time.Microsecond: "216.791 ms",
		time.Second:               "1 s", 1500 * time.Millisecond: "1.5 s", 6950441 * time.Microsecond: "6.950 441 s",
		10000001 * time.Microsecond: "10.000 001 s",
		time.Minute:                 "1 min", 63 * time.Second: "1 min 3 s",
		time.Hour + 1500*time.Millisecond: "1 h 1.5 s",
		25*time.Hour + time.Minute:        "25 h 1 min",
		limits.Never:                      "no wait helps",
	} {
		if got := lab.Duration(d); got != want {
			t.Errorf("%v is written as %q, want %q", d, got, want)
		}
	}
}

func TestTooMuchIsSlowedDown(t *testing.T) {
	for _, s := range []lab.Setup{
		{Traffic: "steady", Rate: "1000000000/s"},
		{Traffic: "poisson", Rate: "1000000000/1ms"},
		{Traffic: "burst", Rate: "1000000/s", Size: "100"},
		{Panels: []string{"nothing that works"}, Traffic: "steady", Rate: "1000000000/s"},
		{Panels: []string{"fixed-window 1/1ms"}, Traffic: "click"},
	} {
		l, _ := lab.New(s)
		for range 4 {
			l.Advance(25_000_000)
			l.Send(100, 1)
			if frame := l.AppendFrame(nil, 0); len(frame) > lab.FrameSize {
				t.Errorf("%+v: a frame has %d bytes, at most %d fit", s, len(frame), lab.FrameSize)
			}
		}
		if l.Now() >= 4*25_000_000 {
			t.Errorf("%+v: all was done in time", s)
		}
	}
}

func TestMistakesAreNamed(t *testing.T) {
	for _, test := range []struct {
		setup       lab.Setup
		field, want string
	}{
		{lab.Setup{Limit: "many"}, "limit", "unknown algorithm"},
		{lab.Setup{Limit: "concurrent 5"}, "limit", "has no rate"},
		{lab.Setup{Panels: []string{"5/10s", "5/0s"}}, "panel 1", "period must be positive"},
		{lab.Setup{Panels: []string{"1/s and 2/s and 3/s and 4/s and 5/s and 6/s"}}, "panel 0", "has 6 limits"},
		{lab.Setup{Panels: []string{"log in: 5/s"}}, "panel 0", `"log in" is no name of a rule`},
		{lab.Setup{Panels: []string{": 5/s"}}, "panel 0", `"" is no name of a rule`},
		{lab.Setup{Panels: []string{"leaky-queue 10/s capacity 21 undelayed 21"}}, "panel 0",
			"one less than the capacity"},
		{lab.Setup{Panels: []string{"token-bucket 10/s undelayed 2"}}, "panel 0", "of a leaky queue"},
		{lab.Setup{Span: "long"}, "span", "must be a time"},
		{lab.Setup{Span: "1us"}, "span", "1ms at least"},
		{lab.Setup{Traffic: "flood"}, "traffic", "must be click, steady"},
		{lab.Setup{Rate: "quick"}, "rate", "such as 2/s"},
		{lab.Setup{Size: "0"}, "size", "must be 1 to 100"},
		{lab.Setup{Cost: "1, -1"}, "cost", "must be numbers"},
		{lab.Setup{Lasts: "long"}, "lasts", "must be a time"},
		{lab.Setup{Retry: "always"}, "retry", "must be never, wait or jitter"},
		{lab.Setup{Seed: "x"}, "seed", "whole number"},
		{lab.Setup{Traffic: "script"}, "script", "is empty"},
		{lab.Setup{Traffic: "script", Script: "1s x0"}, "script", `"1s x0" is not a time`},
		{lab.Setup{Traffic: "script", Script: "2s, 1s"}, "script", `" 1s" is not a time`},
		{lab.Setup{Traffic: "script", Script: "2s, every 1s"}, "script", "starts again"},
	} {
		_, mistakes := lab.New(test.setup)
		if len(mistakes) != 1 || !strings.Contains(mistakes[test.field], test.want) {
			t.Errorf("%+v: %v, want %s: %s", test.setup, mistakes, test.field, test.want)
		}
	}
}

func TestChoose(t *testing.T) {
	for i, want := range []string{
		"limits.TokenBucket(limits.PerMinute(100), 20) | token-bucket 100/1m burst 20",
		"limits.LeakyBucket(limits.PerMinute(100), 20) | leaky-bucket 100/1m burst 20",
		"limits.LeakyQueue(limits.PerMinute(100), 20) | leaky-queue 100/1m burst 20",
		"limits.FixedWindow(limits.PerMinute(100)) | fixed-window 100/1m",
		"limits.SlidingWindow(limits.PerMinute(100)) | sliding-window 100/1m",
		"limits.SlidingLog(limits.PerMinute(100)) | sliding-log 100/1m",
		"limits.AnchoredWindow(limits.PerMinute(100)) | anchored-window 100/1m",
		"limits.Concurrent(100) | concurrent 100",
		"limits.Ban(limits.PerMinute(100), time.Minute) | ban 100/1m for 1m",
	} {
		c := lab.Choose(limits.Algorithms()[i].String(), "100/minute burst 20")
		if got := c.Go + " | " + c.Limit; got != want || c.YAML != "limit: "+c.Limit || c.Error != "" {
			t.Errorf("%v: %+v, want %s", limits.Algorithms()[i], c, want)
		}
	}
	c := lab.Choose("calendar", "10000/month from 15 in Europe/Berlin")
	if c.Go != `limits.Calendar(10000, "month from 15 in Europe/Berlin")` {
		t.Errorf("calendar: %+v", c)
	}
	c = lab.Choose("distinct", "5/10m")
	if c.Go != "limits.Distinct(limits.Per(5, 10*time.Minute))" || c.YAML != "limit: distinct 5/10m" {
		t.Errorf("distinct: %+v", c)
	}
	c = lab.Choose("growing-ban", "5/10m")
	const growing = "limits.Ban(limits.Per(5, 10*time.Minute), 10*time.Minute).Growing(80*time.Minute)"
	if c.Go != growing || c.YAML != "limit: ban 5/10m for 10m growing to 1h20m" {
		t.Errorf("growing-ban: %+v", c)
	}
	if n := len(limits.Algorithms()); n != 12 {
		t.Errorf("%d algorithms: add the new ones", n)
	}
	for rate, want := range map[string]string{
		"5/10s":    "limits.FixedWindow(limits.Per(5, 10*time.Second))",
		"3/1500us": "limits.FixedWindow(limits.Per(3, 1500*time.Microsecond))",
		"1/day":    "limits.FixedWindow(limits.PerDay(1))", "2/7d": "limits.FixedWindow(limits.Per(2, 168*time.Hour))",
	} {
		if got := lab.Choose("fixed-window", rate).Go; got != want {
			t.Errorf("%s: %s, want %s", rate, got, want)
		}
	}
	for _, wrong := range [][2]string{{"fixed-window", "soon"}, {"magic", "1/s"}, {"calendar", "1/s"}} {
		if c := lab.Choose(wrong[0], wrong[1]); c.Error == "" {
			t.Errorf("%v: %+v, want an error", wrong, c)
		}
	}
}

func FuzzAnySetupIsUsable(f *testing.F) {
	f.Add("5/10s", "ban 3/1m for 2m and 5/s", "script", "1s x3, every 4s", "1,2", "jitter")
	f.Add("1/1ms", "", "poisson", "", "0", "wait")
	f.Add("1000000000/8784h", "concurrent 100000\nsliding-log 10000/1ms", "burst", "9s", "65", "never")
	f.Fuzz(func(t *testing.T, limit, panels, traffic, script, cost, retry string) {
		s := lab.Setup{Limit: limit, Traffic: traffic, Script: script, Cost: cost, Retry: retry}
		if panels != "" {
			s.Panels = strings.Split(panels, "\n")
		}
		l, _ := lab.New(s)
		for i := range 4 {
			l.Advance(1_234_567)
			l.Send(2, int64(i))
			if frame := l.AppendFrame(nil, i); len(frame) > lab.FrameSize || len(frame)%8 != 0 {
				t.Errorf("a frame has %d bytes", len(frame))
			}
			l.Answer(i, 0)
			l.Approach(i)
		}
	})
}
