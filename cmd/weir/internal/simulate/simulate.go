package simulate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/weir-go/weir/cmd/weir/internal/accesslog"
	"github.com/weir-go/weir/limits"
)

// Options are the options of [Do].
type Options struct {
	Logs    []string  // paths; "-" is Stdin
	Stdin   io.Reader // read only once
	Name    string    // name of Stdin in messages; "": standard input
	Log     accesslog.Options
	Policy  *Policy
	Against *Policy   // nil: none
	Others  []*Policy // decided beside Policy, without comparison

	Ladder      bool       // also decide each rule alone by a quarter to eight times its limit
	Accuracy    bool       // also decide each rule alone by each algorithm, and compare with an exact log
	Suggest     *Condition // find the lowest limit that meets this; nil: none
	SuggestRule string     // the rule for Suggest; "": the only one

	// Denials are statuses by which the server denied a request. The report compares with them. nil:
	// it does not.
	Denials []int

	ShowKeys bool // show keys unmasked; they may identify people

	// Progress is called regularly with the number of bytes read. total is 0 if unknown. pass
	// counts from 1. nil: no calls.
	Progress func(pass int, done, total int64)
}

// factors are the rungs of a ladder.
var factors = []float64{0.25, 0.5, 0.75, 1, 1.5, 2, 4, 8}

const (
	// manyKeys is the room for keys if logs cannot be read again.
	manyKeys = 4_000_000
	mostKeys = 1 << 27
)

// fewKeys is the initial room for keys. If there are more keys, the logs are read again.
var fewKeys = 1_200_000

// simulation is the state that all passes share.
type simulation struct {
	Options
	log     accesslog.Options
	maxKeys int
	passes  int
}

// Do runs a simulation. Its error tells what cannot be read or simulated.
func Do(ctx context.Context, o Options) (*Report, error) {
	s := &simulation{Options: o, log: o.Log, maxKeys: fewKeys}
	s.log.Extras = o.Policy.Extras()
	if o.Against != nil {
		s.log.Extras = append(s.log.Extras, o.Against.Extras()...)
		slices.Sort(s.log.Extras)
		s.log.Extras = slices.Compact(s.log.Extras)
	}
	if c := o.Suggest; c != nil && !c.CanSuggest() {
		return nil,
			fmt.Errorf("--suggest: %q: write denied or clients, and < or <=, such as 'denied < "+
				"0.1%%'", c.text)
	}
	if o.Suggest != nil && o.SuggestRule != "" && !o.Policy.hasRule(o.SuggestRule) {
		return nil,
			fmt.Errorf("--rule: the policy has no rule %q: its rules are %s", o.SuggestRule,
				o.Policy.ruleNames())
	}
	if slices.Contains(o.Logs, "-") {
		s.maxKeys = manyKeys
		if o.Suggest != nil {
			return nil, errors.New("a suggestion needs logs in files: they are read several times")
		}
	}
	var built *run
	err := s.pass(ctx, s.variants,
		func(r *run) error { built = r; return nil })
	if err != nil {
		return nil, err
	}
	reporter := &reporter{built, newMasker(o.ShowKeys)}
	report := reporter.report()
	s.ladder(built, report)
	addAccuracy(report, built)
	if o.Suggest != nil {
		limit, err := newSearch(s, built)
		if err != nil {
			return nil, err
		}
		if report.Suggestion, err = limit.lowest(ctx); err != nil {
			return nil, err
		}
	}
	report.Logged = loggedOf(built)
	reporter.notes(report)
	return report, nil
}

// pass reads the logs once, and again if there are more keys than expected. The logs stay open
// during use.
func (s *simulation) pass(
	ctx context.Context, variants func([]*plan) ([]variant, error), use func(*run) error,
) error {
	for {
		err := s.tryPass(ctx, variants, use)
		if !errors.Is(err, errTooMany) {
			return err
		}
		s.maxKeys *= 8
	}
}

func (s *simulation) tryPass(
	ctx context.Context, variants func([]*plan) ([]variant, error), use func(*run) error,
) error {
	s.passes++
	logs, err := open(&s.Options, &s.log)
	defer logs.close()
	if err != nil {
		return err
	}
	known := s.known(logs.logs)
	p, err := s.Policy.plan(known)
	if err != nil {
		return err
	}
	sides := []*plan{p}
	if s.Against != nil {
		if p, err = s.Against.plan(known); err != nil {
			return err
		}
		sides = append(sides, p)
	}
	for _, other := range s.Others {
		if p, err = other.plan(known); err != nil {
			return err
		}
		sides = append(sides, p)
	}
	which, err := variants(sides)
	if err != nil {
		return err
	}
	r, err := newRun(sides, known, logs.logs, s.maxKeys, which)
	if err != nil {
		return err
	}
	if s.Against == nil {
		r.moves = nil
	}
	if s.Denials != nil {
		for _, p := range r.replaysOf(0, -1) {
			p.logged = &logged{denials: s.Denials}
		}
	}
	r.stop = s.maxKeys < mostKeys && !slices.Contains(s.Logs, "-")
	r.progress = func() { s.progress(logs) }
	if err := r.do(ctx); err != nil {
		return err
	}
	s.progress(logs)
	return use(r)
}

// variants returns the variants of the first pass: the whole policies, comparisons, and ladders.
func (s *simulation) variants(sides []*plan) (all []variant, err error) {
	for side := range sides {
		all = append(all, variant{side: side, alone: -1})
	}
	if s.Accuracy {
		more, err := judged(sides[0])
		if err != nil {
			return nil, err
		}
		all = append(all, more...)
	}
	if !s.Ladder {
		return all, nil
	}
	for i := range sides[0].rules {
		for _, factor := range factors {
			all = append(all, variant{side: 0, alone: i, limit: scale(factor), label: factor})
		}
	}
	return all, nil
}

// scale returns a function that multiplies a limit. It leaves a limit unchanged that cannot be
// multiplied.
func scale(factor float64) func(limits.Limit) limits.Limit {
	return func(l limits.Limit) limits.Limit {
		if scaled, err := withUnits(l, unitsBy(l, factor)); err == nil {
			return scaled
		}
		return l
	}
}

func unitsBy(l limits.Limit, factor float64) int64 {
	return max(1, int64(float64(unitsOf(l))*factor+0.5))
}

// ladder adds the rungs of each rule.
func (s *simulation) ladder(r *run, report *Report) {
	if !s.Ladder {
		return
	}
	for i := range report.Policy.Rules {
		limit := r.sides[0].rules[i].Limit
		seen := map[int64]bool{}
		if limit != (limits.Limit{}) {
			seen[unitsOf(limit)] = true
		}
		for _, factor := range factors {
			rung := Rung{Factor: factor}
			if limit != (limits.Limit{}) {
				units := unitsBy(limit, factor)
				if _, err := withUnits(limit, units); err != nil || seen[units] && factor != 1 {
					// out of range, or equal to another rung: 0.25 of 2 units is 1, and so is 0.5
					continue
				}
				seen[units] = true
				rung.Limit = scale(factor)(limit).String()
			}
			n := 0
			for _, p := range r.replaysOf(0, i) {
				if p.label == factor {
					rung.Denied.include(n == 0, p.rules[0].denied)
					rung.Keys.include(n == 0, p.rules[0].keys)
					n++
				}
			}
			report.Policy.Rules[i].Ladder = append(report.Policy.Rules[i].Ladder, rung)
		}
	}
}

func (s *simulation) progress(o *openLogs) {
	if s.Progress == nil {
		return
	}
	done := int64(0)
	for _, m := range o.meters {
		done += m.Count()
	}
	s.Progress(s.passes, done, max(0, o.total))
}

// known returns the data that all logs have.
func (s *simulation) known(logs []*accesslog.Log) *Known {
	k := &Known{
		Extras: s.log.Extras, Has: make([]bool, len(s.log.Extras)), Fields: s.log.Fields,
		Lasted: true, Status: true, Host: true,
	}
	for i := range k.Has {
		k.Has[i] = true
	}
	for _, l := range logs {
		if l.Format() == "" {
			continue
		}
		for i := range k.Has {
			k.Has[i] = k.Has[i] && l.Has(i)
		}
		k.Lasted = k.Lasted && l.HasEnds()
		k.Status = k.Status && l.HasStatus()
		k.Host = k.Host && l.HasHost()
		k.Redacted = k.Redacted || l.Redacted()
	}
	return k
}
