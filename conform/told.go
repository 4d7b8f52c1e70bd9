package conform

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
)

// spoken returns the dialects of the profile.
func spoken(t *trial) (all []*dialect) {
	for _, name := range t.profile.Fields {
		all = append(all, dialectOf(name))
	}
	return all
}

// counted returns the dialects of the profile that tell what is left.
func counted(t *trial) (all []*dialect) {
	for _, d := range spoken(t) {
		if d.counts() {
			all = append(all, d)
		}
	}
	return all
}

// hundred is how many answers are read.
const hundred = 100

// readHundred reads the answers of a hundred requests on several keys, by each dialect.
func readHundred(t *trial, visit func(x *exchange)) (answers int, o outcome) {
	keys := (hundred + t.profile.burst() + 2) / (t.profile.burst() + 3)
	if !t.profile.manyKeys() {
		keys = min(keys, 3)
	}
	var mu sync.Mutex
	t.each(max(keys, 2), func(i int, c *client) {
		for _, x := range c.row(t.profile.burst() + 3) {
			mu.Lock()
			if answers++; x.failed() && o.verdict == "" {
				o = fails("a request is %s, which is neither admitted nor denied with status %d", &x,
					t.profile.Denied)
			} else if !x.failed() {
				visit(&x)
			}
			mu.Unlock()
		}
	})
	return answers, o
}

// checkSyntax reads the fields of a hundred answers by the document of each dialect.
func checkSyntax(t *trial) outcome {
	all := spoken(t)
	if len(all) == 0 {
		return skips("the profile lists no fields")
	}
	s := syntax{seen: make(map[*dialect]bool)}
	answers, o := readHundred(t, func(x *exchange) {
		for _, d := range all {
			s.read(d, x)
		}
	})
	for _, d := range counted(t) {
		if !s.seen[d] {
			s.problem(fmt.Sprintf("no answer has the fields of %s, which the profile lists", d.name))
		}
	}
	fields := strings.Join(t.profile.Fields, ", ")
	switch n := len(s.problems); {
	case o.verdict != "":
		return o
	case n == 1:
		return fails("%s", s.problems[0])
	case n > 1:
		return fails("%d problems in the fields of %d answers, such as: %s", n, answers, s.problems[0]).
			with(s.problems[:min(n, 8)]...)
	case s.needless != "":
		return bound("%s in %d answers are well-formed; Retry-After is %q on an answer that is no denial, which "+
			"RFC 9110, section 10.2.3, does not forbid: a client that obeys waits without need", fields, answers,
			s.needless)
	}
	return holds("%s in %d answers are well-formed", fields, answers)
}

// syntax is what the fields of several answers have shown.
type syntax struct {
	problems []string // one of each kind
	kinds    []string // of problems
	seen     map[*dialect]bool
	needless string // a Retry-After on an answer that denies nothing
}

// read reads the fields of an answer by a dialect.
func (s *syntax) read(d *dialect, x *exchange) {
	_, found, problems := d.read(x.header, x.denied())
	s.seen[d] = s.seen[d] || found
	switch {
	case d.counts() && !found:
		return
	case !d.counts() && found && !x.denied():
		s.needless = x.header.Get("Retry-After")
	}
	for _, text := range problems {
		if found {
			text = fmt.Sprintf("%s (%s)", text, d.source)
		}
		s.problem(text)
	}
}

// problem notes a problem, unless one is known that differs in its numbers alone.
func (s *syntax) problem(text string) {
	if kind := strings.Map(withoutDigits, text); !slices.Contains(s.kinds, kind) {
		s.kinds, s.problems = append(s.kinds, kind), append(s.problems, text)
	}
}

// withoutDigits is a mapping that drops digits.
func withoutDigits(c rune) rune {
	if c >= '0' && c <= '9' {
		return -1
	}
	return c
}

// checkQuota compares the told limit and window with the promise.
func checkQuota(t *trial) outcome {
	all := counted(t)
	if len(all) == 0 {
		return skips("the profile lists no fields that tell a limit")
	}
	p := t.profile
	told := 0
	var wrong string
	answers, o := readHundred(t, func(x *exchange) {
		for _, d := range all {
			read, _, _ := d.read(x.header, x.denied())
			switch {
			case read.limit == absent:
			case read.limit != int64(p.burst()) && read.limit != int64(p.units()):
				wrong = fmt.Sprintf("%s tells a limit of %d, and the promise is %d", d.name, read.limit, p.units())
			default:
				told++
			}
			// In whole seconds a short period is told as one.
			if read.window != absent && max(p.period(), p.drain()) >= time.Second &&
				!isRounded(read.window, p.period()) && !isRounded(read.window, p.drain()) {
				wrong = fmt.Sprintf("%s tells a window of %d s, and the promise is %v", d.name, read.window, p.period())
			}
		}
	})
	switch {
	case o.verdict != "":
		return o
	case wrong != "":
		return fails("%s", wrong)
	case told == 0:
		return skips("no field of %d answers tells the limit", answers)
	}
	return holds("the fields of %d answers tell the limit that is promised", answers)
}

// isRounded reports whether a number of seconds is d, rounded in some way.
func isRounded(n int64, d time.Duration) bool {
	return (time.Duration(min(n, 1e6))*time.Second - d).Abs() < time.Second
}

// remainder is a key whose limit is used up after an answer told what is left.
type remainder struct {
	told    int64
	used    int        // requests before, with the one that told
	rest    []exchange // all at once
	over    time.Duration
	answers []exchange

	leftInDenial bool // a denial tells that something is left
}

// checkRemaining reads what is left after each of a hundred requests, and at once uses it up.
func checkRemaining(t *trial) outcome {
	all := counted(t)
	if len(all) == 0 {
		return skips("the profile lists no fields that tell what is left")
	}
	p := t.profile
	n := min(p.burst(), 20)
	rounds := max(1, min(3, hundred/(n*(n+1)/2)))
	if !p.manyKeys() {
		n, rounds = min(n, 3), 1
	}
	var result outcome
	for _, d := range all {
		keys, phases := make([]remainder, n*rounds), t.phases(n*rounds)
		t.each(len(keys), func(i int, c *client) {
			used := 1 + (i%n)*(p.burst()-1)/max(n-1, 1)
			if n == 1 {
				used = 1
			}
			t.sleep(phases[i])
			t.afterTurn(p.period() / 2)
			r := &keys[i]
			r.answers, r.used = c.row(used), used
			if len(r.answers) < used { // the run was interrupted
				r.told = absent
				return
			}
			last := &r.answers[len(r.answers)-1]
			told, _, _ := d.read(last.header, last.denied())
			if r.told = told.remaining; r.told == absent || !last.admitted() {
				r.told = absent
				return
			}
			r.rest = c.burst(int(min(max(r.told, 0), 2*mostUnits)) + 3)
			r.over = took(append(slices.Clone(r.answers), r.rest...))
			for k := range r.rest {
				if told, _, _ := d.read(r.rest[k].header, true); r.rest[k].denied() && told.remaining > 0 {
					r.leftInDenial = true
				}
			}
		})
		switch o := judgeRemaining(t, d.name, keys); {
		case o.verdict == Fails:
			return o
		case result.verdict != Holds:
			result = o
		}
	}
	return result
}

// judgeRemaining compares what a dialect told with what was admitted after it.
func judgeRemaining(t *trial, dialect string, keys []remainder) outcome {
	p := t.profile
	judged, read, tooFew, leftInDenial := 0, 0, 0, 0
	var example *remainder
	for i := range keys {
		r := &keys[i]
		if r.told == absent {
			continue
		}
		read += len(r.answers) + len(r.rest)
		got := count(r.rest)
		switch {
		case got.failed > 0:
			return fails("%d requests are neither admitted nor denied", got.failed).with(failures(r.rest)...)
		case int64(got.admitted) < r.told:
			return fails("%s tells after request %d of a fresh key that %d are left, and of %d more sent at once %d "+
				"are admitted", dialect, r.used, r.told, len(r.rest), got.admitted)
		case p.refill(r.over) > 0 || t.mayTurn(slices.Concat(r.answers, r.rest)):
			continue // some may have come back meanwhile
		case r.leftInDenial:
			if leftInDenial++; leftInDenial > 1 || t.knowsTurns() {
				return fails("%s tells in a denial that something is left", dialect)
			}
		case int64(got.admitted) > r.told:
			if tooFew++; example == nil {
				example = r
			}
		}
		judged++
	}
	switch {
	case 2*tooFew > judged && (judged > 1 || t.knowsTurns()):
		return fails("%s tells after request %d of a fresh key that %d are left, and of %d more sent at once %d are "+
			"admitted", dialect, example.used, example.told, len(example.rest), count(example.rest).admitted)
	case judged == 0:
		return skips("the answers took too long to judge, or do not tell what is left")
	}
	return holds("what %d answers on %d keys tell is left is admitted at once, and no more", read, judged)
}

// checkReset uses up keys and comes back when the fields say.
func checkReset(t *trial) outcome {
	result := skips("no field tells when more is admitted")
	for _, d := range counted(t) {
		answers, denied := t.client().exhaust()
		if told, _, _ := d.read(answers[len(answers)-1].header, denied); told.reset.kind == notTold {
			continue
		}
		o := comeBack(t, d.name, func(x *exchange) (moment, []string) {
			told, _, _ := d.read(x.header, true)
			return told.reset, nil
		})
		switch {
		case o.verdict == Fails:
			return o
		case result.verdict == Skips || o.verdict == Bound:
			result = o
		}
	}
	return result
}

// checkWobble reads when more is admitted, from the denials of one window.
func checkWobble(t *trial) outcome {
	all := spoken(t)
	switch {
	case len(all) == 0:
		return skips("the profile lists no fields")
	case t.profile.CountsDenied == Yes:
		return skips("a denied request counts, so each denial may tell another instant")
	}
	p := t.profile
	const keys = 3
	answers := make([][]exchange, keys)
	phase := t.draw(p.period())
	t.each(keys, func(i int, c *client) {
		t.sleep(phase)
		t.afterTurn(p.period())
		end := time.Now().Add(p.period() * 9 / 10)
		for t.ctx.Err() == nil && time.Now().Before(end) {
			x := c.get()
			if answers[i] = append(answers[i], x); x.denied() {
				t.sleep(p.period() / 50)
			}
		}
	})
	told := 0
	for _, d := range all {
		for i := range answers {
			for _, denials := range rowsOfDenials(answers[i]) {
				n, text := wobble(d, denials)
				if told += n; text != "" {
					if t.profile.CountsDenied == Silent && checkDenied(t).verdict == Bound {
						return skips("denied requests count, so each denial may tell another instant")
					}
					return fails("%s", text).with(moments(d, denials)...)
				}
			}
		}
	}
	if told < 2*keys {
		return skips("no field of several denials in a row tells when more is admitted")
	}
	return holds("%d denials tell the same instants, rounded to seconds in one way", told)
}

// rowsOfDenials returns the denials that follow each other without an admitted request in between.
func rowsOfDenials(answers []exchange) (rows [][]exchange) {
	start := 0
	for i := range answers {
		if !answers[i].denied() {
			rows = append(rows, answers[start:i])
			start = i + 1
		}
	}
	return append(rows, answers[start:])
}

// wobble reports whether denials that change nothing tell different instants, whichever way the
// server rounds. It returns how many tell one.
func wobble(d *dialect, denials []exchange) (told int, text string) {
	for _, rounding := range roundings {
		var common span
		told = 0
		same := true
		for i := range denials {
			x := &denials[i]
			read, _, _ := d.read(x.header, true)
			if read.reset.kind == notTold {
				continue
			}
			s := read.reset.within(x.sent, x.answered, rounding.least, rounding.most)
			if told++; told == 1 {
				common = s
				continue
			}
			if s.from.After(common.from) {
				common.from = s.from
			}
			if s.to.Before(common.to) {
				common.to = s.to
			}
			same = same && common.from.Before(common.to)
		}
		if same {
			return told, ""
		}
	}
	return told, fmt.Sprintf("%d denials in a row, which change nothing, tell different instants by %s, whichever "+
		"way seconds are rounded", told, d.name)
}

// moments returns what denials tell, as lines of a report.
func moments(d *dialect, denials []exchange) (lines []string) {
	last := ""
	for i := range denials {
		x := &denials[i]
		read, _, _ := d.read(x.header, true)
		line := fmt.Sprintf("%s after the first denial: %v", seconds(x.sent.Sub(denials[0].sent)), read.reset)
		if read.reset.String() != last && len(lines) < 8 {
			lines = append(lines, line)
		}
		last = read.reset.String()
	}
	return lines
}
