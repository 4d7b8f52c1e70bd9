// Package steps says what each algorithm does, as tables of steps in text: one file for each
// algorithm. The tests of package family make the steps on the numbers of a key, and the suite in
// limitstest makes them on a backend.
//
// A table begins with its name, which is what a failure names. "why:" says what it shows; lines
// that are indented continue it. "start:" is the instant 0s, if that is not the start of 2026. A
// line "under" names the limit of the steps below it. Several limits with "or" between them each
// play the table, and another "under" changes the limit of the key:
//
//	== a token bucket drains one unit every p over q
//	why: a token bucket allows what fits, and drains continuously (DESIGN 5)
//	start: 2026-01-01T00:00:20Z
//	under token-bucket 5/10s burst 5 or leaky-bucket 5/10s burst 5
//	0s     take 5   -> allowed, in use 5, reset 10s, window 2s # until one unit fits
//	2s-1us take 1   -> denied, in use 5, reset 8s+1us, wait 1us
//	2s     charge 9 -> charged 6, in use 10, reset 20s, window 12s
//	under token-bucket 5/10s burst 8
//	2s     take 3   -> denied, in use 10, reset 20s, wait 10s
//
// Each step has its instant, counted from the start, and what happens then:
//
//	take 2                 a charge of 2 units; "take 1 of ann" charges the value ann
//	charge 9               a request that took nothing has cost 9 in the end
//	return 1 of 3 from 2s  the request that took 3 at 2s has cost 2 in the end
//	inherit 5              a key that is not found may have 5 units in use
//
// Behind the arrow is the decision. "in use" has all units, also those above the maximum. An
// allowed step tells its EffectiveWindow, a denied one its wait; a leaky queue tells its delay if
// there is one. "charged 6" and "returned 1" say how many of the units were; then follows what a
// look at the key is told.
//
// "lasts: 8s" says that each taking announces an end within that time, so that it can be returned.
// "arithmetic" says that only the arithmetic makes these steps: a backend cannot be brought to
// them, or need not be as exact.
package steps

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"
	"time"
	_ "time/tzdata" // so that tables in zones can be read where the machine has no data of them

	"github.com/weir-go/weir/limits"
)

//go:embed *.txt
var files embed.FS

// Begin is the instant 0s of a table that names no start. Windows of most periods begin then.
var Begin = time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC)

// Table is a sequence of steps on one key.
type Table struct {
	Name, Why  string
	Place      string // file and line
	Start      time.Time
	Lasts      time.Duration
	Arithmetic bool
	Phases     []Phase
}

// Phase is the steps under one limit. Each limit of Under plays the table; all phases of a table
// have equally many.
type Phase struct {
	Under []limits.Limit
	Steps []Step
}

// Step is what happens to the key, and what it leads to.
type Step struct {
	Place string
	At    time.Duration // since the start
	Verb  Verb
	Units int64
	Value string        // "": none
	Of    int64         // Return: the units that the request took
	From  time.Duration // Return: when

	Want Want
}

// Verb is what a step does.
type Verb string

// The verbs.
const (
	Take    Verb = "take"
	Charge  Verb = "charge"
	Return  Verb = "return"
	Inherit Verb = "inherit"
)

// Want is what a step leads to. After steps other than Take it is what a look is told.
type Want struct {
	Changed  int64 // Charge, Return: units that were
	InUse    int64
	Decision limits.Decision // without At
}

// String returns w nearly as tables write it.
func (w Want) String() string {
	d, word, told := w.Decision, "denied", "wait "+Show(w.Decision.RetryAfter)
	if d.Allowed {
		word, told = "allowed", "window "+Show(d.EffectiveWindow)
	}
	if w.Changed > 0 {
		word = fmt.Sprintf("%d changed, %s", w.Changed, word)
	}
	if d.Delay > 0 {
		told += ", delay " + Show(d.Delay)
	}
	return fmt.Sprintf("%s, in use %d, reset %s, %s (%d remain)", word, w.InUse, Show(d.ResetAfter),
		told, d.Remaining)
}

// All returns all tables, those of one file together.
func All() ([]Table, error) {
	var all []Table
	var mistakes []error
	entries, err := files.ReadDir(".")
	if err != nil {
		return nil, err
	}
	for _, entry := range entries {
		text, err := fs.ReadFile(files, entry.Name())
		if err != nil {
			return nil, err
		}
		tables, err := Parse("steps/"+entry.Name(), string(text))
		all, mistakes = append(all, tables...), append(mistakes, err)
	}
	return all, errors.Join(append(mistakes, unlike(all))...)
}

// unlike reports tables that have one name.
func unlike(tables []Table) error {
	var mistakes []error
	places := map[string]string{}
	for _, t := range tables {
		if other, taken := places[t.Name]; taken {
			mistakes = append(mistakes,
				fmt.Errorf("%s: another table has the name %q: %s", t.Place, t.Name, other))
		}
		places[t.Name] = t.Place
	}
	return errors.Join(mistakes...)
}

// StepsBack reports whether the clock steps back within t.
func (t Table) StepsBack() bool {
	last := time.Duration(0)
	for _, p := range t.Phases {
		for _, s := range p.Steps {
			if s.At < last {
				return true
			}
			last = s.At
		}
	}
	return false
}

// Ends reports whether requests end within t.
func (t Table) Ends() bool {
	return slices.ContainsFunc(t.Phases, func(p Phase) bool {
		return slices.ContainsFunc(p.Steps, func(s Step) bool {
			return s.Verb == Charge || s.Verb == Return
		})
	})
}

// Parse reads the tables of a file. It reports every mistake, with its line.
func Parse(file, text string) ([]Table, error) {
	r := reader{file: file}
	for i, line := range strings.Split(text, "\n") {
		r.place = fmt.Sprintf("%s:%d", file, i+1)
		if err := r.read(line); err != nil {
			r.mistakes = append(r.mistakes, fmt.Errorf("%s: %w", r.place, err))
		}
	}
	r.finish()
	if len(r.tables) == 0 && len(r.mistakes) == 0 {
		r.mistakes = append(r.mistakes, fmt.Errorf(`%s: no table: begin one with "== " and its name`, file))
	}
	return r.tables, errors.Join(r.mistakes...)
}

// reader reads a file line by line. The last of tables is the one that the lines belong to.
type reader struct {
	file, place string
	tables      []Table
	mistakes    []error
	seen        map[string]bool // the words above the steps that the table has
	inWhy       bool
}

func (r *reader) read(line string) error {
	continues := r.inWhy && strings.HasPrefix(line, " ")
	line, _, _ = strings.Cut(" "+line, " #") // without the comment
	line = strings.TrimSpace(line)
	if r.inWhy = continues; continues {
		r.table().Why += " " + line
		return nil
	}
	if name, begins := strings.CutPrefix(line, "== "); begins {
		r.finish()
		r.tables = append(r.tables, Table{Name: name, Place: r.place, Start: Begin})
		r.seen = map[string]bool{}
		return nil
	}
	if line == "" {
		return nil
	}
	t := r.table()
	if t == nil {
		return errors.New(`no table has begun: write "== " and its name first`)
	}
	word, rest, _ := strings.Cut(line, " ")
	rest = strings.TrimSpace(rest)
	err := r.head(word, rest)
	if err != nil {
		return err
	}
	switch word {
	case "why:":
		t.Why, r.inWhy = rest, true
	case "start:":
		t.Start, err = time.Parse(time.RFC3339Nano, rest)
	case "lasts:":
		if t.Lasts, err = span(rest); err == nil && t.Lasts <= 0 {
			err = fmt.Errorf("%q: want a time above 0", rest)
		}
	case "arithmetic":
		t.Arithmetic = true
	case "under":
		var p Phase
		if p.Under, err = under(rest); err == nil {
			t.Phases = append(t.Phases, p)
		}
		if err == nil && len(p.Under) != len(t.Phases[0].Under) {
			err = fmt.Errorf("%d limits, want %d as in the first \"under\"", len(p.Under),
				len(t.Phases[0].Under))
		}
	default:
		if len(t.Phases) == 0 {
			return errors.New(`a step has no limit: write "under" and the limit first`)
		}
		p := &t.Phases[len(t.Phases)-1]
		var s Step
		if s, err = step(line, p.Under[0]); err == nil {
			s.Place = r.place
			p.Steps = append(p.Steps, s)
		}
	}
	return err
}

// head reports a word of the whole table that occurs twice, or below steps.
func (r *reader) head(word, rest string) error {
	switch word {
	case "why:", "start:", "lasts:", "arithmetic":
	default:
		return nil
	}
	for _, p := range r.table().Phases {
		if len(p.Steps) > 0 {
			return fmt.Errorf("%q belongs above the steps", word)
		}
	}
	if r.seen[word] {
		return fmt.Errorf("the table has a %q already", word)
	}
	r.seen[word] = true
	if word == "arithmetic" && rest != "" {
		return fmt.Errorf("%q stands alone (got %q behind it)", word, rest)
	}
	return nil
}

func (r *reader) table() *Table {
	if len(r.tables) == 0 {
		return nil
	}
	return &r.tables[len(r.tables)-1]
}

// finish checks the table that has been read.
func (r *reader) finish() {
	t := r.table()
	if t == nil {
		return
	}
	if err := t.check(); err != nil {
		r.mistakes = append(r.mistakes, fmt.Errorf("%s: %q: %w", t.Place, t.Name, err))
	}
}

// check reports what a table lacks. On a backend a request can end once, and only if it began.
func (t *Table) check() error {
	if t.Why == "" {
		return errors.New(`"why:" is missing: say what the steps show`)
	}
	type begun struct {
		at    time.Duration
		units int64
	}
	open := map[begun]int{}
	for _, p := range t.Phases {
		if len(p.Steps) == 0 {
			return errors.New("a limit has no steps")
		}
		for _, s := range p.Steps {
			switch taken := (begun{s.From, s.Of}); {
			case t.Arithmetic:
			case s.Verb == Inherit:
				return fmt.Errorf(`%s: no backend can be told to inherit: write "arithmetic" above the steps`,
					s.Place)
			case s.Verb == Take && s.Want.Decision.Allowed:
				open[begun{s.At, s.Units}]++
			case s.Verb == Return && open[taken] == 0:
				return fmt.Errorf("%s: no request that took %d at %v can end: write \"arithmetic\" above "+
					"the steps", s.Place, s.Of, s.From)
			case s.Verb == Return && t.Lasts == 0 && !p.Under[0].Algorithm().Holds():
				return fmt.Errorf("%s: the request has announced no end: write \"lasts:\" above the steps",
					s.Place)
			case s.Verb == Return:
				open[taken]--
			}
		}
	}
	if len(t.Phases) == 0 {
		return errors.New(`"under" is missing: name a limit`)
	}
	return nil
}

func under(text string) (all []limits.Limit, err error) {
	for _, one := range strings.Split(text, " or ") {
		l, err := limits.Parse(one)
		if err != nil {
			return nil, err
		}
		all = append(all, l)
	}
	return all, nil
}

// step reads a step under l.
func step(line string, l limits.Limit) (s Step, err error) {
	does, want, _ := strings.Cut(line, "->")
	if want == "" {
		return s, fmt.Errorf(`want "<instant> <what> -> <decision>" (got %q)`, line)
	}
	words := strings.Fields(does)
	if len(words) < 3 {
		return s, fmt.Errorf(`want an instant, what happens, and units, such as "3s take 1" (got %q)`,
			strings.TrimSpace(does))
	}
	var wrong [4]error
	if s.At, wrong[0] = span(words[0]); s.At == limits.Never {
		wrong[0] = fmt.Errorf("%q: no step is then", words[0])
	}
	s.Verb = Verb(words[1])
	s.Units, wrong[1] = units(words[2])
	rest := words[3:]
	switch {
	case s.Verb == Take && len(rest) == 2 && rest[0] == "of":
		s.Value = rest[1]
	case s.Verb == Return && len(rest) == 4 && rest[0] == "of" && rest[2] == "from":
		s.Of, wrong[2] = units(rest[1])
		s.From, wrong[3] = span(rest[3])
	case s.Verb == Return || len(rest) > 0:
		return s, fmt.Errorf("%q: %s has another form: see the comment of package steps",
			strings.Join(words, " "), s.Verb)
	case s.Verb != Take && s.Verb != Charge && s.Verb != Inherit:
		return s, fmt.Errorf("%q: use take, charge, return or inherit", words[1])
	}
	if err = errors.Join(wrong[:]...); err == nil {
		err = s.wants(want, l)
	}
	return s, err
}

// outcome has the first word behind the arrow. A step that was not allowed has no window.
var outcome = map[Verb]string{Charge: "charged", Return: "returned", Inherit: "inherited"}

// wants reads what is behind the arrow.
func (s *Step) wants(text string, l limits.Limit) error {
	parts := strings.Split(text, ",")
	for i := range parts {
		parts[i] = strings.TrimSpace(parts[i])
	}
	d := &s.Want.Decision
	word, number, _ := strings.Cut(parts[0], " ")
	var err error
	switch {
	case s.Verb == Take && (word == "allowed" || word == "denied") && number == "":
	case s.Verb != Inherit && word == outcome[s.Verb]:
		s.Want.Changed, err = units(number)
	case s.Verb == Inherit && parts[0] == outcome[s.Verb]:
	default:
		return fmt.Errorf("%q does not say what became of %q", parts[0], string(s.Verb))
	}
	seen := map[string]bool{}
	for _, part := range parts[1:] {
		i := strings.LastIndex(part, " ")
		name, value := part[:max(i, 0)], part[i+1:]
		var wrong error
		switch name {
		case "in use":
			s.Want.InUse, wrong = units(value)
		case "reset":
			d.ResetAfter, wrong = span(value)
		case "wait":
			d.RetryAfter, wrong = span(value)
			d.EffectiveWindow = d.RetryAfter
		case "window":
			d.Allowed = true
			d.EffectiveWindow, wrong = span(value)
		case "delay":
			d.Delay, wrong = span(value)
		default:
			wrong = fmt.Errorf("%q: use in use, reset, wait, window or delay", part)
		}
		if seen[name] {
			wrong = fmt.Errorf("%q: %s is there already", part, name)
		}
		seen[name] = true
		err = errors.Join(err, wrong)
	}
	switch {
	case err != nil:
		return err
	case !seen["in use"] || !seen["reset"] || seen["wait"] == seen["window"]:
		return errors.New(`want "in use", "reset", and either "window" if allowed or "wait" if denied`)
	case s.Verb == Take && d.Allowed != (word == "allowed"):
		return fmt.Errorf("%s: an allowed step has a window, and a denied one a wait", word)
	}
	d.Remaining = max(0, l.Burst()-s.Want.InUse)
	if l.Algorithm().Holds() {
		d.EffectiveWindow = limits.Never
	}
	return nil
}

func units(text string) (int64, error) {
	n, err := strconv.ParseInt(strings.ReplaceAll(text, "_", ""), 10, 64)
	if err != nil || n < 0 {
		return 0, fmt.Errorf("%q is not a number of units", text)
	}
	return n, nil
}

// span reads "never", or durations with signs between them: "366d-1us". Each is a whole number of
// microseconds.
func span(text string) (sum time.Duration, err error) {
	if text == "never" {
		return limits.Never, nil
	}
	for rest, end := text, 0; end == 0 || rest != ""; rest = rest[end:] {
		if end = strings.LastIndexAny(rest[:min(1, len(rest))], "+-") + 1; end < len(rest) {
			end += strings.IndexAny(rest[end:]+"+", "+-")
		}
		one, err := duration(rest[:end])
		if err != nil || one%time.Microsecond != 0 {
			return 0, fmt.Errorf("%q is not a time such as 1m30s, 2d or 366d-1us", text)
		}
		sum += one
	}
	return sum, nil
}

func duration(text string) (time.Duration, error) {
	if days, whole := strings.CutSuffix(text, "d"); whole {
		n, err := strconv.ParseInt(days, 10, 17) // 65,535 days at most: more might overflow
		return time.Duration(n) * 24 * time.Hour, err
	}
	return time.ParseDuration(text)
}

// Show writes d as tables do.
func Show(d time.Duration) string {
	if d == limits.Never {
		return "never"
	}
	short := show(d)
	for _, off := range []time.Duration{time.Microsecond, 2 * time.Microsecond} {
		for _, sign := range []time.Duration{1, -1} {
			other := show(d-sign*off) + map[time.Duration]string{1: "+", -1: "-"}[sign] + show(off)
			if d != sign*off && len(other) < len(short) {
				short = other
			}
		}
	}
	return short
}

func show(d time.Duration) string {
	const day = 24 * time.Hour
	switch {
	case d != 0 && d%day == 0:
		return fmt.Sprintf("%dd", d/day)
	case d != 0 && d%time.Hour == 0 && d.Abs() < 3*day:
		return fmt.Sprintf("%dh", d/time.Hour)
	case d != 0 && d%time.Minute == 0 && d.Abs() < time.Hour:
		return fmt.Sprintf("%dm", d/time.Minute)
	case d > day:
		return show(d-d%day) + "+" + show(d%day)
	}
	return strings.ReplaceAll(d.String(), "µ", "u")
}
