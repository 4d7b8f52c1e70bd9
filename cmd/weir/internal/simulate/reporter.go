package simulate

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/weir-go/weir/cmd/weir/internal/accesslog"
	"github.com/weir-go/weir/cmd/weir/internal/visible"
	"github.com/weir-go/weir/core"
)

const (
	topKeys  = 50
	maxSteps = 1500 // points of a curve in a report

	// firstYear is the year of the first access logs. Stamps of an earlier one count something
	// else, such as seconds since the start of a program.
	firstYear = 1990
)

// reporter writes the report of a pass, whose first replays are those of whole sides.
type reporter struct {
	*run
	mask *masker
}

func (r *reporter) report() *Report {
	result := &Report{WholeSeconds: r.whole, Requests: r.total.requests, Clients: r.total.count,
		Logged429: r.total.refused, Logged503: r.total.full,
		Late: r.order.late, ClockJumps: r.order.jumps, LateStamps: r.lateStamps,
		KeysShown: r.mask.shown, Notes: []string{}}
	for _, l := range r.logs {
		skipped := l.Skipped()
		for i := range skipped {
			if !r.mask.shown {
				skipped[i].Text = ""
			}
		}
		result.Logs = append(result.Logs, Log{
			Name: l.Name(), Format: l.Format(), LongestMillis: l.Longest().Milliseconds(),
			Skipped: skipped, Incomplete: l.Counts().Incomplete,
		})
		result.Lines.Add(l.Counts())
	}
	if r.total.requests > 0 {
		result.From, result.To = instant(r.total.first), instant(r.total.last)
	}
	result.Policy = r.side(0)
	if r.moves != nil {
		against := r.side(1)
		result.Against = &against
		result.Moved = r.moved()
	}
	for n := 1; r.moves == nil && n < len(r.sides); n++ {
		result.Others = append(result.Others, r.side(n))
	}
	r.bars(result)
	return result
}

func instant(us int64) time.Time { return time.UnixMicro(us).UTC() }

func (r *reporter) side(n int) Side {
	plan := r.sides[n]
	side := Side{Name: plan.name, Skipped: append([]Skipped{}, plan.skipped...), Rules: []Rule{}}
	replays := r.replaysOf(n, -1)
	for i, p := range replays {
		side.Denied.include(i == 0, p.denied)
		side.Shadowed.include(i == 0, p.shadowed)
		side.Clients.include(i == 0, p.clients)
		side.Delayed.include(i == 0, p.delayed)
	}
	for i := range plan.rules {
		side.Rules = append(side.Rules, r.rule(&plan.rules[i], replays, i))
	}
	return side
}

// rule returns the report on the i-th rule of a side.
func (r *reporter) rule(rule *core.Rule[*request], replays []*replay, i int) Rule {
	number := replays[0].first + i
	d := &r.total.rules[number]
	result := Rule{Name: rule.Name, Mode: rule.Mode.String(), Asked: d.asked, AskedUnits: d.units,
		Keys: d.count,
		Top:  []Key{}}
	if !varies(rule) {
		result.Limit, result.Units = rule.Limit.String(), unitsOf(rule.Limit)
	}
	if period := r.total.periods[number]; period > 0 {
		result.Period = describePeriod(time.Duration(period) * time.Microsecond)
		if unit, _, _ := strings.Cut(string(r.total.limits[number].Period()), " "); unit != "" {
			result.Period = unit
		}
	}
	for n, p := range replays {
		c := &p.rules[i]
		result.Denied.include(n == 0, c.denied)
		result.Shadowed.include(n == 0, c.shadowed)
		result.KeysDenied.include(n == 0, c.keys)
		result.WaitMillis.include(n == 0, (c.longest + time.Millisecond - 1).Milliseconds())
		result.Never.include(n == 0, c.never)
		result.Binding.include(n == 0, c.binding)
		if c.first != 0 {
			if at := instant(c.first); result.First == nil || at.Before(*result.First) {
				result.First = &at
			}
		}
	}
	if !rule.Limit.Algorithm().Holds() {
		result.Busiest, result.Periods = steps(d.most), steps(d.all)
	}
	result.Top = r.top(d, replays, i)
	return result
}

// describePeriod returns a period as in limits, such as minute.
func describePeriod(d time.Duration) string {
	switch d {
	case time.Second:
		return "second"
	case time.Minute:
		return "minute"
	case time.Hour:
		return "hour"
	case 24 * time.Hour:
		return "day"
	}
	s := d.String()
	for _, end := range []string{"m0s", "h0m"} {
		if strings.HasSuffix(s, end) {
			s = s[:len(s)-2]
		}
	}
	return s
}

// top returns the keys of a rule with the most denials, then those with the most requests.
func (r *reporter) top(d *demand, replays []*replay, i int) []Key {
	var best []uint32
	rank := func(a, b uint32) int {
		return cmp.Or(
			-cmp.Compare(r.deniedOf(replays, i, a).High, r.deniedOf(replays, i, b).High),
			-cmp.Compare(d.keys.get(a).peak, d.keys.get(b).peak),
			cmp.Compare(a, b))
	}
	for id := range d.keys.all(func(k *keyDemand) bool { return k.asked == 0 }) {
		if len(best) == 2*topKeys {
			slices.SortFunc(best, rank)
			best = best[:topKeys]
		}
		if len(best) < topKeys || rank(id, best[topKeys-1]) < 0 {
			best = append(best, id)
		}
	}
	slices.SortFunc(best, rank)
	top := []Key{}
	for _, id := range best[:min(len(best), topKeys)] {
		k := d.keys.get(id)
		top = append(top,
			Key{r.mask.mask(r.keys.text(id)), int64(k.asked), k.peak, r.deniedOf(replays, i, id)})
	}
	return top
}

// deniedOf returns the number of denials of a key by the i-th rule of replays.
func (r *reporter) deniedOf(replays []*replay, i int, id uint32) (denied Range) {
	for n, p := range replays {
		denied.include(n == 0, int64(p.rules[i].byKey.get(id)))
	}
	return denied
}

// steps returns a distribution in order of units. In long distributions, large numbers are rounded
// up.
func steps(counts map[int64]int64) []Step {
	for digits := 6; len(counts) > maxSteps && digits > 0; digits-- {
		rounded := make(map[int64]int64)
		for units, n := range counts {
			rounded[roundUp(units, digits)] += n
		}
		counts = rounded
	}
	result := make([]Step, 0, len(counts))
	for units, n := range counts {
		result = append(result, Step{units, n})
	}
	slices.SortFunc(result, func(a, b Step) int { return cmp.Compare(a.Units, b.Units) })
	return result
}

func roundUp(n int64, digits int) int64 {
	if n <= 0 {
		return 0
	}
	unit := int64(math.Pow10(max(0, int(math.Log10(float64(n)))+1-digits)))
	return (n + unit - 1) / unit * unit
}

func (r *reporter) moved() *Moved {
	m := &Moved{Clients: []MovedClient{}}
	ways := len(r.replaysOf(0, -1))
	for way := range ways {
		m.Denied.include(way == 0, r.moves.denied[way])
		m.Allowed.include(way == 0, r.moves.allowed[way])
	}
	for id, change := range r.moves.clients.all(
		func(n *[readings]int32) bool { return *n == [readings]int32{} }) {
		c := MovedClient{Client: r.keys.text(id), Asked: int64(r.total.clients.get(id))}
		for way := range ways {
			c.Change.include(way == 0, int64(change[way]))
		}
		m.Clients = append(m.Clients, c)
	}
	slices.SortFunc(m.Clients, func(a, b MovedClient) int {
		return cmp.Or(-cmp.Compare(a.Change.largest(), b.Change.largest()),
			cmp.Compare(a.Client, b.Client))
	})
	m.Clients = m.Clients[:min(len(m.Clients), topKeys)]
	for i := range m.Clients {
		m.Clients[i].Client = r.mask.mask(m.Clients[i].Client)
	}
	return m
}

// bars adds the time series.
func (r *reporter) bars(result *Report) {
	sides := make([][]*replay, len(r.sides))
	all := []*series{&r.total.series}
	for n := range r.sides {
		sides[n] = r.replaysOf(n, -1)
		for _, p := range sides[n] {
			all = append(all, &p.series, &p.shadowedSeries)
		}
	}
	width := 0
	for _, s := range all {
		s.put()
		width = max(width, s.width)
	}
	for _, s := range all {
		s.widen(width)
	}
	result.BarSeconds = widths[width]
	result.Bars = []Bar{}
	asked := &r.total.series
	if len(asked.bars) == 0 {
		return
	}
	reported := []*Side{&result.Policy}
	if result.Against != nil {
		reported = append(reported, result.Against)
	}
	for i := range result.Others {
		reported = append(reported, &result.Others[i])
	}
	for index := asked.min; index <= asked.max; index++ {
		for n, side := range reported {
			denied := Range{}
			for i, p := range sides[n] {
				denied.include(i == 0, p.series.bars[index])
			}
			side.Over = append(side.Over, denied)
		}
		bar := Bar{At: time.Unix(index*widths[width], 0).UTC(), Asked: asked.bars[index]}
		bar.Denied = result.Policy.Over[len(result.Bars)]
		for i, p := range sides[0] {
			bar.Shadowed.include(i == 0, p.shadowedSeries.bars[index])
		}
		if result.Against != nil {
			bar.Before = result.Against.Over[len(result.Bars)]
		}
		result.Bars = append(result.Bars, bar)
	}
}

// notes adds remarks for the reader, once all figures are there.
func (r *reporter) notes(result *Report) {
	note := func(format string, args ...any) {
		result.Notes = append(result.Notes, fmt.Sprintf(format, args...))
	}
	if r.whole {
		figures := "Both give the same figures."
		if result.hasRanges() {
			figures = "Where the two differ, both figures are shown, as in 371–433."
		}
		note("The log's stamps are whole seconds. Everything was decided twice: with all "+
			"requests of a second at its start, and spread over it. %s", figures)
	}
	for i, l := range r.logs {
		of := ""
		if len(r.logs) > 1 {
			of = visible.Name(l.Name()) + ": "
		}
		for _, text := range l.Notes() {
			if !slices.ContainsFunc(r.logs[:i], func(before *accesslog.Log) bool {
				return before.Format() == l.Format() && slices.Contains(before.Notes(), text)
			}) {
				note("%s%s", of, text)
			}
		}
	}
	if r.total.requests > 0 && result.From.Year() < firstYear {
		note("The first request is of %d: if the stamps do not count from the epoch, name "+
			"another field by --field time=NAME.", result.From.Year())
	}
	for i := range result.Policy.Rules {
		if text := result.Policy.Rules[i].byClock(); text != "" {
			note("%s", text)
		}
	}
	stampsEnd, lasted := false, true
	for _, l := range r.logs {
		stampsEnd = stampsEnd || l.StampsEnds() && !l.HasEnds()
		lasted = lasted && l.HasEnds()
	}
	if stampsEnd {
		note("This format stamps the end of requests, and the log has no durations: each " +
			"request is taken to have arrived when it ended.")
	}
	if r.total.refused > 0 {
		note("%s answered 429 when the log was written. This is demand like the others.",
			plural(r.total.refused, "request was", "requests were"))
	}
	if r.order.late > 0 {
		note("%s more than %d seconds late. What is late counts later than it arrived.",
			plural(r.order.late, "line came", "lines came"), window)
	}
	if r.order.jumps > 0 {
		note("The clock of the log jumped %s. If parts of a log were joined in the wrong "+
			"order, name them as several files: these are merged by time.",
			plural(r.order.jumps, "time", "times"))
	}
	for i, l := range r.logs {
		for _, before := range r.logs[:i] {
			if l.Counts().Lines > 0 && l.Text() == before.Text() {
				note("%s and %s have the same text. If they are one log, each of its requests "+
					"counts twice: name it once.",
					visible.Name(before.Name()), visible.Name(l.Name()))
			}
		}
	}
	if n := result.Lines.NoAddress; n > 0 {
		note("%d of %s no address of a client, such as those with the name of a host instead, or "+
			"of a program behind a socket. They are left out, so every rule was asked less than "+
			"in service. Have the server log addresses, or name the field that has them.", n,
			plural(result.Lines.Lines, "line names", "lines name"))
	}
	for _, l := range result.Logs {
		if l.Incomplete {
			note("%s ends early, such as within a line, or its compression is damaged. What "+
				"could be read was counted.",
				visible.Name(l.Name))
		}
	}
	if r.total.pairs > int64(r.maxKeys) {
		note("There were more than %d keys, so some may have been displaced, which denies more. "+
			"Give the log as a file instead of standard input.", r.maxKeys)
	}
	for _, side := range r.sides {
		var texts []string
		for _, text := range side.notes {
			texts = append(texts, visible.Name(side.name)+": "+text)
		}
		// these texts name the file
		for _, text := range append(texts, side.expired(result.To)...) {
			if !slices.Contains(result.Notes, text) {
				result.Notes = append(result.Notes, text)
			}
		}
	}
	result.Notes = append(result.Notes, r.failures()...)
	note("A log cannot tell what clients would have done after a denial. Some would have tried " +
		"again, others would have left.")
}
