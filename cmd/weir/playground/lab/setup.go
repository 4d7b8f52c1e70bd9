package lab

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/weir-go/weir/internal/ground/algorithm"
	"github.com/weir-go/weir/limits"
)

// Setup configures a [Lab]. Its fields are texts, as a person types them and as the address of the
// page stores them. The zero Setup is usable.
type Setup struct {
	Limit string // for every algorithm, if Panels is empty; "": 5/10s
	// one rule each, or several joined by " and "; empty: every algorithm
	Panels  []string
	Traffic string // click, steady, poisson, burst or script; "": click
	Rate    string // for steady, poisson and burst; "": 1/s
	Size    string // size of a burst; "": 5
	Script  string // such as "4.8s x5, 5.2s x5, every 15s"
	Cost    string // costs of the requests of the stream in turn, such as "1, 1, 10"; "": 1
	// values that distinct limits count, in turn, such as "ann, bob, ann"; "": each is new
	Values string
	Lasts  string // duration of a request; "": 2s
	// never, wait (as long as Retry-After) or jitter (a second longer at most); "": never
	Retry string
	Span  string // visible past, such as 90s; "": three times the longest period
	Seed  string // for random numbers; "": 1
}

// Mistakes are the mistakes in a [Setup], by the name of the field in lower case. Mistakes in the
// n-th panel have the name "panel n".
type Mistakes map[string]string

const (
	maxPanels = 16
	maxRules  = 5 // rules of a panel
	maxText   = 400
	maxName   = 32     // length of the name of a rule
	maxFree   = 10_000 // units that go on at once
)

// plan is a parsed Setup.
type plan struct {
	limit    limits.Limit
	panels   []panelPlan
	every    bool // panels are one for each algorithm
	traffic  traffic
	costs    []int64
	values   []string // none: each is new
	lasts    int64
	retry    bool
	jitter   int64
	span     int64 // 0: determined by the limits
	seed     uint64
	mistakes Mistakes
}

type panelPlan struct {
	text  string
	rules []rulePlan // none: the text has a mistake
}

// rulePlan is a rule of a panel. name is empty if the text has none.
type rulePlan struct {
	name      string
	limit     limits.Limit
	undelayed int64
}

// read parses s. A field with a mistake gets its default.
func (s Setup) read() plan {
	p := plan{mistakes: Mistakes{}}
	note := func(field string, err error) {
		if err != nil {
			p.mistakes[field] = strings.TrimPrefix(err.Error(), "limits: ")
		}
	}
	or := func(text, otherwise string) string {
		if text = strings.TrimSpace(text); text == "" {
			return otherwise
		}
		return text
	}
	var err error
	if p.limit, err = limits.Parse(or(s.Limit, defaultLimit)); err != nil {
		note("limit", err)
		p.limit, _ = limits.Parse(defaultLimit)
	}
	if p.limit.Rate() == (limits.Rate{}) {
		note("limit", fmt.Errorf("has no rate: type one such as %q", defaultLimit))
		p.limit, _ = limits.Parse(defaultLimit)
	}
	texts := s.Panels
	if p.every = len(texts) == 0; p.every {
		for _, a := range limits.Algorithms() {
			texts = append(texts, limitOf(algorithm.Of(a), p.limit))
		}
	}
	for i, text := range texts[:min(len(texts), maxPanels)] {
		rules, err := readPanel(text)
		note("panel "+strconv.Itoa(i), err)
		p.panels = append(p.panels, panelPlan{text, rules})
	}
	p.seed, err = strconv.ParseUint(or(s.Seed, "1"), 10, 64)
	if err != nil {
		note("seed", fmt.Errorf("must be a whole number (got %.30q)", s.Seed))
	}
	p.costs, err = readCosts(or(s.Cost, "1"))
	note("cost", err)
	p.values = strings.FieldsFunc(s.Values, func(r rune) bool { return r == ',' || r == ' ' })
	if len(p.values) > 100 {
		note("values", errors.New("must be 100 at most, such as ann, bob, ann"))
		p.values = nil
	}
	p.lasts, err = readDuration(or(s.Lasts, "2s"))
	note("lasts", err)
	if s.Span = strings.TrimSpace(s.Span); s.Span != "" {
		if p.span, err = readDuration(s.Span); err == nil && p.span < 1000 {
			err = fmt.Errorf("must be 1ms at least (got %.30q)", s.Span)
		}
		if note("span", err); err != nil {
			p.span = 0
		}
	}
	switch or(s.Retry, "never") {
	case "never":
	case "jitter":
		p.retry, p.jitter = true, time.Second.Microseconds()
	case "wait":
		p.retry = true
	default:
		note("retry", fmt.Errorf("must be never, wait or jitter (got %.30q)", s.Retry))
	}
	p.readTraffic(or(s.Traffic, "click"), or(s.Rate, "1/s"), or(s.Size, "5"), s.Script, note)
	return p
}

// longest returns the longest period of the limits, 0 if none has one. Among all algorithms, a
// calendar would hide what the others do in seconds.
func (p *plan) longest() (period int64) {
	if p.every {
		return p.limit.Rate().Period.Microseconds()
	}
	for _, panel := range p.panels {
		for _, r := range panel.rules {
			period = max(period, r.limit.Rate().Period.Microseconds())
		}
	}
	return period
}

const defaultLimit = "5/10s"

// limitOf returns the text of a limit of an algorithm with the rate of limit, and with its burst if
// both have one. The first duration is a period of the rate, and each further one is eight times as
// long, within what is legal. A calendar has the shortest of its periods that may be as long as that of the rate.
func limitOf(row *algorithm.Algorithm, limit limits.Limit) string {
	text, rate, duration := row.FirstWord(), limit.Rate(), limit.Rate().Period
	for _, p := range row.Parameters {
		switch {
		case p.Form == algorithm.Rate:
			text += fmt.Sprintf(" %d/%s", rate.Units, short(rate.Period))
		case p.Form == algorithm.Periods:
			text += fmt.Sprintf(" %d/%s", rate.Units, periodOf(rate.Period))
		case p.Form == algorithm.Units:
			text += fmt.Sprintf(" %d", rate.Units)
		case p.Form == algorithm.Burst && limit.Burst() != rate.Units:
			text += fmt.Sprintf(" %s %d", p.Words, limit.Burst())
		case p.Form.IsDuration():
			text += " " + p.Words + " " + short(duration)
			duration = min(8*duration, longestDuration)
		}
	}
	return text
}

// longestDuration is the longest duration that a limit may have.
const longestDuration = 366 * 24 * time.Hour

// periodOf returns the shortest period of the calendar that may be as long as d, or year.
func periodOf(d time.Duration) string {
	const day = 24 * time.Hour
	switch {
	case d <= day:
		return "day"
	case d <= 7*day:
		return "week"
	case d <= 31*day:
		return "month"
	}
	return "year"
}

// short returns the text of a duration in a limit, such as "10m".
func short(d time.Duration) string {
	_, text, _ := strings.Cut(limits.FixedWindow(limits.Per(1, d)).String(), "/")
	return text
}

// readPanel parses rules joined by "and": each is a limit, after a name such as "login: 5/minute"
// if it should not have the name of its algorithm. After a leaky queue, the number of units that go
// on at once may follow: "leaky-queue 10/s capacity 21 undelayed 8".
func readPanel(text string) ([]rulePlan, error) {
	if len(text) > maxText {
		return nil, fmt.Errorf("is longer than %d characters", maxText)
	}
	parts := strings.Split(strings.Join(strings.Fields(text), " "), " and ")
	if len(parts) > maxRules {
		return nil,
			fmt.Errorf("has %d limits: at most %d are decided together here", len(parts), maxRules)
	}
	var rules []rulePlan
	for _, part := range parts {
		r, err := readRule(part)
		if err != nil {
			return nil, err
		}
		rules = append(rules, r)
	}
	return rules, nil
}

func readRule(text string) (r rulePlan, err error) {
	if name, rest, ok := strings.Cut(text, ":"); ok {
		name = strings.ToLower(name)
		if name == "" || len(name) > maxName ||
			strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789-") != "" {
			return r,
				fmt.Errorf("%.40q is no name of a rule: it has letters, digits and hyphens, %d "+
					"at most", name, maxName)
		}
		r.name, text = name, strings.TrimSpace(rest)
	}
	text, undelayed, ok := strings.Cut(text, " undelayed ")
	if r.limit, err = limits.Parse(text); err != nil || !ok {
		if err != nil && strings.Contains(err.Error(), "time/tzdata") {
			err = errors.New("a browser has no data of time zones here: leave the zone out")
		}
		return r, err
	}
	r.undelayed, err = strconv.ParseInt(undelayed, 10, 64)
	if most := min(r.limit.Burst()-1, maxFree); !r.limit.Algorithm().Delays() || err != nil ||
		r.undelayed < 1 || r.undelayed > most {
		return r,
			fmt.Errorf("undelayed must be 1 to one less than the capacity of a leaky queue, and "+
				"%d at most (got %.30q)", maxFree, undelayed)
	}
	return r, nil
}

func readCosts(text string) ([]int64, error) {
	var costs []int64
	for _, part := range strings.FieldsFunc(text,
		func(r rune) bool { return r == ',' || r == ' ' }) {
		cost, err := strconv.ParseInt(part, 10, 64)
		if err != nil || cost < 0 || cost > 1_000_000_000 {
			return []int64{1},
				fmt.Errorf("must be numbers from 0 to 1000000000, such as 1, 1, 10 (got %.30q)",
					part)
		}
		costs = append(costs, cost)
	}
	if len(costs) == 0 || len(costs) > 100 {
		return []int64{1}, fmt.Errorf("must be 1 to 100 numbers, such as 1, 1, 10")
	}
	return costs, nil
}

// readDuration parses a duration into microseconds.
func readDuration(text string) (int64, error) {
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 || d > 366*24*time.Hour {
		return 2_000_000, fmt.Errorf("must be a time such as 500ms or 2s (got %.30q)", text)
	}
	return d.Microseconds(), nil
}
