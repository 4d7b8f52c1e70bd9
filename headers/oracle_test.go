package headers_test

import (
	"crypto/sha256"
	"fmt"
	"math/big"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dunglas/httpsfv"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/headers"
	"github.com/weir-go/weir/limits"
)

// oracle is the information about limits in a response. It is computed as the
// documentation says, in rational numbers, and printed by another library.
type oracle struct {
	options    headers.Options // no Jitter, Formats not nil
	quotas     httpsfv.List
	policies   httpsfv.List
	integers   httpsfv.List
	triple     *single
	dictionary *single
	x          *single
	models     map[string]*single // by the beginning of the names of fields
	retry      int64
	sdks       []string // lines for the SDKs of language models
}

// single is the decision in fields that have room for only one.
type single struct {
	denied           bool
	limit, remaining int64
	reset            *big.Rat // with the precision of the field
	fields           []string
}

var second = big.NewRat(int64(time.Second), 1)

func rat(n int64) *big.Rat { return big.NewRat(n, 1) }

func seconds(d time.Duration) *big.Rat { return new(big.Rat).Quo(rat(int64(d)), second) }

func ceil(r *big.Rat) int64 {
	q, m := new(big.Int).DivMod(r.Num(), r.Denom(), new(big.Int))
	if m.Sign() > 0 {
		q.Add(q, big.NewInt(1))
	}
	return q.Int64()
}

func quotaAndWindow(d *core.RuleDecision) (q, w int64) {
	l := d.Limit()
	if l.Algorithm() == limits.AlgorithmCalendar && d.At != 0 {
		return l.Burst(), secondsOfMonth(d.At, l)
	}
	if l.Algorithm().Holds() {
		return l.Burst(), 0
	}
	unit := new(big.Rat).Quo(seconds(l.Rate().Period), rat(l.Rate().Units))
	return l.Burst(), max(1, ceil(unit.Mul(unit, rat(l.Burst()))))
}

// secondsOfMonth returns how long the period of a month from some day in UTC lasts, that an instant lies in.
func secondsOfMonth(at int64, l limits.Limit) int64 {
	_, text, _ := strings.Cut(string(l.Period()), " from ")
	first := max(1, atoi(text))
	begins := func(day time.Time) bool {
		return day.Day() == first || day.Day() < first && day.AddDate(0, 0, 1).Day() == 1
	}
	day := time.UnixMicro(at).UTC().Truncate(24 * time.Hour)
	start, end := day, day.AddDate(0, 0, 1)
	for !begins(start) {
		start = start.AddDate(0, 0, -1)
	}
	for !begins(end) {
		end = end.AddDate(0, 0, 1)
	}
	return end.Unix() - start.Unix()
}

func atoi(text string) int {
	n, _ := strconv.Atoi(text)
	return n
}

func (s *oracle) has(f headers.Format) bool { return slices.Contains(s.options.Formats, f) }

func counted(o *core.Outcome) (ds []*core.RuleDecision) {
	for i := range o.Len() {
		if d := o.At(i); d.Source.Counted() {
			ds = append(ds, d)
		}
	}
	return ds
}

// resetOf returns the wait that is shown as a reset: a second for a concurrency limit.
func resetOf(d *core.RuleDecision) *big.Rat {
	if d.Limit().Algorithm().Holds() {
		return rat(1)
	}
	return seconds(d.ResetAfter)
}

// shown returns the decisions that fields may speak of.
func (s *oracle) shown(o *core.Outcome) (ds []*core.RuleDecision) {
	if o.Status() == http.StatusServiceUnavailable {
		return nil
	}
	for _, d := range counted(o) {
		if d.Hidden() {
			continue
		}
		if s.options.Show == headers.Always || s.options.Show == headers.OnDenial && !d.Allowed {
			ds = append(ds, d)
		}
	}
	return ds
}

// windowOf returns the longest window among the rules that denied o.
func windowOf(o *core.Outcome) (w int64) {
	for i := range o.Len() {
		if d := o.At(i); !d.Allowed {
			_, window := quotaAndWindow(d)
			w = max(w, window)
		}
	}
	return w
}

// tellSDKs is called when Retry-After is known. What is told rounds up to Retry-After, which may be
// longer than the wait.
func (s *oracle) tellSDKs(o *core.Outcome) {
	s.sdks = nil
	if o.Verdict() != core.Denied || s.options.Show == headers.Omit ||
		!s.has(headers.OpenAI) && !s.has(headers.Anthropic) || o.Status() != http.StatusTooManyRequests {
		return
	}
	if s.tooLong() || s.retry == 0 {
		s.sdks = []string{"X-Should-Retry: false"}
		return
	}
	millis := ceil(new(big.Rat).Mul(seconds(o.RetryAfter()), rat(1000)))
	if millis <= (s.retry-1)*1000 {
		millis = s.retry * 1000
	}
	s.sdks = []string{fmt.Sprint("Retry-After-Ms: ", millis)}
}

func (s *oracle) tooLong() bool {
	longest := s.options.MaxRetryAfter
	return longest > 0 && s.retry > int64(longest/time.Second)
}

// tell adds o to the information of an outer limiter.
func (s *oracle) tell(o *core.Outcome) {
	s.retry = 0
	if !o.Allowed() {
		if d := o.RetryAfter(); d != limits.Never {
			s.retry = max(1, ceil(seconds(d)))
			if s.options.RetryAfter == headers.Window && o.Verdict() == core.Denied {
				s.retry = max(s.retry, windowOf(o))
			}
		}
	}
	if o.Status() == http.StatusServiceUnavailable {
		*s = oracle{options: s.options, retry: s.retry}
	}
	defer s.tellSDKs(o)
	ds := s.shown(o)
	if len(ds) == 0 {
		return
	}
	if s.has(headers.IETF) {
		for _, d := range ds {
			s.list(d)
		}
	} else if s.has(headers.Draft6) || s.has(headers.Draft7) {
		s.listIntegers(ds)
	}
	for unit, name := range map[core.Unit]string{
		core.Requests: "requests", core.Tokens: "tokens",
		core.InputTokens: "input-tokens", core.OutputTokens: "output-tokens",
	} {
		s.tellUnit(slices.DeleteFunc(slices.Clone(ds), func(d *core.RuleDecision) bool {
			return d.Unit() != unit
		}), name)
	}
	b := slices.MinFunc(ds, compareBinding)
	if s.has(headers.Draft6) {
		s.triple = s.triple.or(s.draft(b))
	}
	if s.has(headers.Draft7) {
		s.dictionary = s.dictionary.or(s.draft(b))
	}
	for _, f := range []headers.Format{headers.GitHub, headers.DeltaSeconds, headers.Discord, headers.EpochSeconds} {
		if s.has(f) {
			s.x = s.x.or(s.vendor(f, b))
		}
	}
}

// compareBinding orders the decision that binds first.
func compareBinding(a, b *core.RuleDecision) int {
	switch {
	case a.Allowed != b.Allowed && b.Allowed, a.Allowed == b.Allowed && a.RetryAfter > b.RetryAfter:
		return -1
	case a.Allowed != b.Allowed || a.RetryAfter != b.RetryAfter:
		return 1
	case a.Remaining != b.Remaining:
		return int(a.Remaining - b.Remaining)
	}
	return -rat(int64(a.ResetAfter)).Cmp(rat(int64(b.ResetAfter)))
}

// tellUnit adds the fields of language models for the decisions of one unit.
func (s *oracle) tellUnit(ds []*core.RuleDecision, unit string) {
	if len(ds) == 0 {
		return
	}
	if s.models == nil {
		s.models = make(map[string]*single)
	}
	d := slices.MinFunc(ds, compareBinding)
	q, _ := quotaAndWindow(d)
	if s.has(headers.OpenAI) && (unit == "requests" || unit == "tokens") {
		reset := milli(resetOf(d))
		length := time.Duration(new(big.Rat).Mul(reset, second).Num().Int64())
		s.models["OpenAI "+unit] = s.models["OpenAI "+unit].or(&single{
			denied: !d.Allowed, remaining: d.Remaining, reset: reset,
			fields: []string{
				fmt.Sprint("x-ratelimit-limit-", unit, ": ", q),
				fmt.Sprint("x-ratelimit-remaining-", unit, ": ", d.Remaining),
				fmt.Sprint("x-ratelimit-reset-", unit, ": ", length),
			},
		})
	}
	if s.has(headers.Anthropic) {
		instant := ceil(new(big.Rat).Add(big.NewRat(d.At, 1_000_000), resetOf(d)))
		s.models["Anthropic "+unit] = s.models["Anthropic "+unit].or(&single{
			denied: !d.Allowed, remaining: d.Remaining, reset: rat(instant),
			fields: []string{
				fmt.Sprint("anthropic-ratelimit-", unit, "-limit: ", q),
				fmt.Sprint("anthropic-ratelimit-", unit, "-remaining: ", d.Remaining),
				fmt.Sprint("anthropic-ratelimit-", unit, "-reset: ", time.Unix(instant, 0).UTC().Format(time.RFC3339)),
			},
		})
	}
}

func (s *oracle) list(d *core.RuleDecision) {
	q, w := quotaAndWindow(d)
	policy := httpsfv.NewItem(d.Rule())
	policy.Params.Add("q", q)
	if w > 0 {
		if d.Unit() != core.Requests {
			policy.Params.Add("qu", d.Unit().String())
		}
		policy.Params.Add("w", w)
	} else {
		policy.Params.Add("qu", "concurrent-requests")
	}
	s.policies = append(s.policies, policy)

	quota := httpsfv.NewItem(d.Rule())
	quota.Params.Add("r", d.Remaining)
	if d.EffectiveWindow != limits.Never {
		t := ceil(seconds(d.EffectiveWindow))
		if s.options.CapPace {
			t = max(t, ceil(new(big.Rat).Quo(rat(d.Remaining), big.NewRat(q, w))))
		}
		quota.Params.Add("t", t)
		if !d.Allowed && s.retry > 0 {
			s.retry = max(s.retry, t)
		}
	}
	if s.options.PartitionKey != nil && d.Key != "" {
		sum := sha256.Sum256([]byte(d.Key))
		quota.Params.Add("pk", sum[:8])
	}
	s.quotas = append(s.quotas, quota)
}

func (s *oracle) listIntegers(ds []*core.RuleDecision) {
	type policy struct{ q, w int64 }
	var ours []policy
	for _, d := range ds {
		if q, w := quotaAndWindow(d); w > 0 {
			ours = append(ours, policy{q, w})
		}
	}
	// The longest window of each quota, at its first place.
	var kept []policy
	for i, p := range ours {
		if !slices.ContainsFunc(ours, func(other policy) bool { return other.q == p.q && other.w > p.w }) &&
			slices.Index(ours, p) == i {
			kept = append(kept, p)
		}
	}
	outer := slices.Clone(s.integers)
	for _, p := range kept {
		if !slices.ContainsFunc(outer, func(m httpsfv.Member) bool { return m.(httpsfv.Item).Value == p.q }) {
			item := httpsfv.NewItem(p.q)
			item.Params.Add("w", p.w)
			s.integers = append(s.integers, item)
		}
	}
}

// or returns outer or inner, whichever binds.
func (outer *single) or(inner *single) *single {
	switch {
	case outer == nil || inner.denied || inner.remaining < outer.remaining:
		return inner
	case inner.remaining == outer.remaining && inner.reset.Cmp(outer.reset) > 0:
		return inner
	}
	return outer
}

func (s *oracle) draft(d *core.RuleDecision) *single {
	q, _ := quotaAndWindow(d)
	reset := ceil(s.untilLeft(d))
	if s.retry > 0 {
		reset = s.retry
	}
	return &single{denied: !d.Allowed, limit: q, remaining: d.Remaining, reset: rat(reset)}
}

// untilLeft is the reset of clients that send nothing until then once nothing is left.
func (s *oracle) untilLeft(d *core.RuleDecision) *big.Rat {
	if d.Remaining > 0 || d.EffectiveWindow == limits.Never || d.Limit().Algorithm().Delays() {
		return resetOf(d)
	}
	wait := seconds(d.EffectiveWindow)
	if retry := rat(s.retry); !d.Allowed && retry.Cmp(wait) > 0 && s.options.Jitter > 0 {
		return retry
	}
	return wait
}

func (s *oracle) vendor(f headers.Format, d *core.RuleDecision) *single {
	q, _ := quotaAndWindow(d)
	after := s.untilLeft(d)
	instant := new(big.Rat).Add(big.NewRat(d.At, 1_000_000), after)
	v := &single{denied: !d.Allowed, limit: q, remaining: d.Remaining}
	switch f {
	case headers.GitHub:
		v.reset = rat(ceil(instant))
		v.fields = []string{
			fmt.Sprint("X-RateLimit-Used: ", max(0, q-d.Remaining)), "X-RateLimit-Resource: " + d.Rule(),
		}
	case headers.EpochSeconds:
		v.reset = rat(ceil(instant))
	case headers.DeltaSeconds:
		v.reset = rat(ceil(after))
	case headers.Discord:
		v.reset = milli(instant)
		v.fields = []string{
			"X-RateLimit-Reset-After: " + milli(after).FloatString(3), "X-RateLimit-Bucket: " + d.Rule(),
		}
		if d.Allowed {
			break
		}
		scope := "user"
		if d.Key == "" || s.options.DiscordScopes[d.Rule()] == headers.DiscordShared {
			scope = "shared"
		} else if s.options.DiscordScopes[d.Rule()] == headers.DiscordGlobal {
			scope = "global"
			v.fields = append(v.fields, "X-RateLimit-Global: true")
		}
		v.fields = append(v.fields, "X-RateLimit-Scope: "+scope)
	}
	return v
}

func milli(r *big.Rat) *big.Rat {
	return big.NewRat(ceil(new(big.Rat).Mul(r, rat(1000))), 1000)
}

// header returns the fields with all of the information.
func (s *oracle) header() http.Header {
	var lines []string
	add := func(name string, v httpsfv.StructuredFieldValue) {
		text, err := httpsfv.Marshal(v)
		if err != nil {
			panic(err)
		}
		lines = append(lines, name+": "+text)
	}
	if s.quotas != nil {
		add("RateLimit", s.quotas)
		add("RateLimit-Policy", s.policies)
	}
	if s.integers != nil {
		add("RateLimit-Policy", s.integers)
	}
	if v := s.triple; v != nil {
		lines = append(lines, fmt.Sprint("RateLimit-Limit: ", v.limit),
			fmt.Sprint("RateLimit-Remaining: ", v.remaining), "RateLimit-Reset: "+v.reset.RatString())
	}
	if v := s.dictionary; v != nil {
		dict := httpsfv.NewDictionary()
		dict.Add("limit", httpsfv.NewItem(v.limit))
		dict.Add("remaining", httpsfv.NewItem(v.remaining))
		dict.Add("reset", httpsfv.NewItem(v.reset.Num().Int64()))
		add("RateLimit", dict)
	}
	if v := s.x; v != nil {
		reset := v.reset.RatString()
		if s.has(headers.Discord) {
			reset = v.reset.FloatString(3)
		}
		lines = append(lines, fmt.Sprint("X-RateLimit-Limit: ", v.limit),
			fmt.Sprint("X-RateLimit-Remaining: ", v.remaining), "X-RateLimit-Reset: "+reset)
		lines = append(lines, v.fields...)
	}
	for _, v := range s.models {
		lines = append(lines, v.fields...)
	}
	lines = append(lines, s.sdks...)
	if s.retry > 0 && !s.tooLong() {
		lines = append(lines, fmt.Sprint("Retry-After: ", s.retry))
	}
	return fields(lines...)
}
