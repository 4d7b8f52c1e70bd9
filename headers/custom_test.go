package headers_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/headers"
	"github.com/weir-go/weir/limits"
)

// custom counts its calls and writes a field.
type custom struct {
	calls int
	saw   core.Outcome
}

func (c *custom) write(h http.Header, o core.Outcome) {
	c.calls++
	c.saw = o
	h.Set("X-Quota", o.Verdict().String())
}

func TestCustomIsCalledOnTheAnswersThatHaveFields(t *testing.T) {
	policies := []published{perMinute}
	rules := rulesOf(perMinute)
	rules[0].OnFailure = core.FailClosed
	unavailable := core.MustNew(core.Config[string]{Rules: rules, Backend: broken{}}).Decide(t.Context(), "client")
	queued := leftInQueue(t, decided(t, policies, queueing(allowed(50, 30*time.Second, time.Minute))))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	abandoned := core.MustNew(core.Config[string]{Rules: rules}).Decide(ctx, "client")
	rules[0].Key = core.When(func(string) bool { return false }, rules[0].Key)
	for name, tt := range map[string]struct {
		o    *core.Outcome
		want [3]int // by Show
	}{
		"allowed":              {decided(t, policies, allowed(50, 30*time.Second, time.Minute)), [3]int{1, 0, 0}},
		"denied":               {decided(t, policies, denied(0, 30*time.Second, time.Minute)), [3]int{1, 1, 0}},
		"denied for ever":      {decided(t, policies, denied(0, limits.Never, time.Minute)), [3]int{1, 1, 0}},
		"unavailable":          {&unavailable, [3]int{}},
		"no room in the queue": {queued, [3]int{}},
		"abandoned":            {&abandoned, [3]int{}},
		"no rules that apply":  {decidedFor(t, "client", rules), [3]int{1, 0, 0}},
		"nothing counted": {
			decided(t, policies, limits.Decision{Allowed: true, Source: limits.SourceOpen}), [3]int{1, 0, 0},
		},
	} {
		for show, calls := range tt.want {
			for _, formats := range [][]headers.Format{nil, {}, {headers.GitHub}} {
				var c custom
				options := headers.Options{Show: headers.Show(show), Formats: formats, Custom: c.write}
				h := http.Header{}
				writer(t, options, perMinute).Write(h, tt.o)
				options.Custom = nil
				if formats != nil && len(formats) == 0 {
					options.Formats, options.Show = nil, headers.Omit
				}
				plain := written(t, options, policies, tt.o)
				if calls > 0 {
					plain.Set("X-Quota", tt.o.Verdict().String())
				}
				if c.calls != calls {
					t.Errorf("%s, show %d: called %d times, want %d", name, show, c.calls, calls)
				}
				if calls > 0 && (c.saw.Len() != tt.o.Len() || c.saw.Verdict() != tt.o.Verdict()) {
					t.Errorf("%s, show %d: saw another outcome", name, show)
				}
				if diff := cmp.Diff(plain, h); diff != "" {
					t.Errorf("%s, show %d, formats %v: fields differ (-want +got):\n%s", name, show, formats, diff)
				}
			}
		}
	}
}

func TestCustomMayChangeWhatTheFormatsWrote(t *testing.T) {
	policies := []published{perMinute}
	options := headers.Options{Custom: func(h http.Header, o core.Outcome) {
		if h.Get("RateLimit") == "" || h.Get("Retry-After") != "30" {
			t.Errorf("called before the formats: %v", h)
		}
		h.Del("RateLimit-Policy")
		h.Set("Retry-After", "31")
	}}
	want(t, written(t, options, policies, decided(t, policies, denied(0, 30*time.Second, time.Minute))),
		`RateLimit: "default";r=0;t=30`, "Retry-After: 31")
}

func TestACustomWriterCostsOthersNothing(t *testing.T) {
	policies := []published{perMinute}
	o := decided(t, policies, allowed(50, 30*time.Second, time.Minute))
	for _, tt := range []struct {
		options headers.Options
		most    float64
	}{
		{headers.Options{}, 2},
		{headers.Options{Custom: func(http.Header, core.Outcome) {}}, 2},
		{headers.Options{Formats: []headers.Format{}, Custom: func(http.Header, core.Outcome) {}}, 0},
	} {
		w, h := writer(t, tt.options, policies...), http.Header{}
		if got := testing.AllocsPerRun(100, func() { clear(h); w.Write(h, o) }); got > tt.most {
			t.Errorf("%v allocations, want at most %v", got, tt.most)
		}
	}
}
