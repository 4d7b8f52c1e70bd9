package lab

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/headers"
	"github.com/weir-go/weir/limits"
)

// answer is the outcome of a request in a history.
type answer struct {
	number, at    int64
	cost, attempt int64
	outcome       core.Outcome
}

// Answer is the answer to a client, with the decision of each rule.
type Answer struct {
	Number, First, Last int64 // Number of the answer; the first and last number in the history
	At                  string
	Cost, Attempt       int64
	Verdict             string
	Status              int
	Delay               string // of an allowed request in a queue
	Fields              []Field
	Rules               []RuleAnswer
	Proof               string // that Retry-After is exact; for the latest denial only
}

// Field is a header field.
type Field struct{ Name, Value string }

// RuleAnswer is the decision of a rule.
type RuleAnswer struct {
	Name, Limit string
	Allowed     bool
	Remaining   int64
	RetryAfter  string
	ResetAfter  string
}

// history holds the latest answers of a panel.
type history struct {
	writer  *headers.Writer
	answers []answer // oldest first
	count   int64    // of all answers so far
}

// maxAnswers is the length of the history of a panel.
const maxAnswers = 100

// add numbers an answer and keeps it.
func (h *history) add(a answer) {
	if len(h.answers) == maxAnswers {
		h.answers = slices.Delete(h.answers, 0, maxAnswers/2)
	}
	h.count++
	a.number = h.count
	h.answers = append(h.answers, a)
}

// answer returns the number-th answer, or the nearest one that is kept. 0 is the latest. It returns
// false if there are no answers.
func (h *history) answer(number int64) (Answer, bool) {
	if len(h.answers) == 0 {
		return Answer{}, false
	}
	first, last := h.answers[0].number, h.answers[len(h.answers)-1].number
	if number == 0 {
		number = last
	}
	kept := &h.answers[min(max(number, first), last)-first]
	o := &kept.outcome
	a := Answer{
		Number: kept.number, First: first, Last: last,
		At: clock(kept.at), Cost: kept.cost, Attempt: kept.attempt,
		Verdict: o.Verdict().String(), Status: o.Status(),
	}
	if o.Delay() > 0 {
		a.Delay = Duration(o.Delay())
	}
	fields := make(http.Header)
	h.writer.Write(fields, o)
	for name, values := range fields {
		a.Fields = append(a.Fields, Field{display(name), strings.Join(values, ", ")})
	}
	slices.SortFunc(a.Fields, func(a, b Field) int { return strings.Compare(a.Name, b.Name) })
	for i := range o.Len() {
		d := o.At(i)
		r := RuleAnswer{Name: d.Rule(), Limit: d.Limit().String(), Allowed: d.Allowed,
			Remaining:  d.Remaining,
			ResetAfter: Duration(d.ResetAfter)}
		if !d.Allowed {
			r.RetryAfter = Duration(d.RetryAfter)
		}
		a.Rules = append(a.Rules, r)
	}
	return a, true
}

// display returns a canonical name in the spelling of the drafts.
func display(name string) string { return strings.Replace(name, "Ratelimit", "RateLimit", 1) }

// clock returns a time with all its microseconds.
func clock(at int64) string {
	text := ""
	if at >= 3_600_000_000 {
		text = strconv.FormatInt(at/3_600_000_000, 10) + " h "
	}
	if at >= 60_000_000 {
		text += strconv.FormatInt(at/60_000_000%60, 10) + " min "
	}
	micros := strconv.FormatInt(at%1_000_000+1_000_000, 10)[1:]
	return text + strconv.FormatInt(at/1_000_000%60, 10) + "." + micros[:3] + " " + micros[3:] +
		" s"
}

// Duration returns a wait, exact to the microsecond, in the form of the page: "6.950 441 s", "173
// ms", "1 min 3 s", or "no wait helps" for [limits.Never].
func Duration(d time.Duration) string {
	if d == limits.Never {
		return "no wait helps"
	}
	us := d.Microseconds()
	switch {
	case us == 0:
		return "0 s"
	case us < 1000:
		return strconv.FormatInt(us, 10) + " µs"
	case us < 1_000_000:
		return thousandths(us) + " ms"
	}
	text := ""
	for _, unit := range []struct {
		name string
		long int64
	}{{"h", 3_600_000_000}, {"min", 60_000_000}} {
		if us >= unit.long {
			text += strconv.FormatInt(us/unit.long, 10) + " " + unit.name + " "
			us %= unit.long
		}
	}
	if us == 0 {
		return strings.TrimSuffix(text, " ")
	}
	seconds, micros := us/1_000_000, us%1_000_000
	switch {
	case micros == 0:
		return text + strconv.FormatInt(seconds, 10) + " s"
	case micros%1000 == 0:
		return text + thousandths(seconds*1000+micros/1000) + " s"
	}
	return text + clock(us)
}

// thousandths returns a number of thousandths without trailing zeros.
func thousandths(n int64) string {
	return strconv.FormatFloat(float64(n)/1000, 'f', -1, 64)
}
