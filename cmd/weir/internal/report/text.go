package report

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/weir-go/weir/cmd/weir/internal/accesslog"
	"github.com/weir-go/weir/cmd/weir/internal/simulate"
	"github.com/weir-go/weir/cmd/weir/internal/visible"
)

// shownKeys is the number of keys of a rule in the text.
const shownKeys = 5

// Text writes r as text. emphasize formats the headings of tables.
func Text(w io.Writer, r *simulate.Report, emphasize func(string) string) error {
	t := &text{w: w, r: r, emphasize: emphasize}
	t.head()
	t.rules(&r.Policy)
	if r.Against != nil {
		t.compared()
	}
	t.hit(&r.Policy)
	t.ladders(&r.Policy)
	t.accuracy(&r.Policy)
	t.suggestion()
	t.skipped()
	t.notes()
	return t.err
}

// text writes text and keeps the first error.
type text struct {
	w         io.Writer
	r         *simulate.Report
	emphasize func(string) string
	err       error
}

func (t *text) line(format string, args ...any) {
	if t.err == nil {
		_, t.err = fmt.Fprintf(t.w, format+"\n", args...)
	}
}

func (t *text) head() {
	r := t.r
	t.line("%s", Headline(r))
	t.line("%s", Reading(r))
	for _, text := range Skipped(r) {
		t.line("  %s", text)
	}
	t.line("")
}

// Headline returns the number of requests, their time and the number of clients.
func Headline(r *simulate.Report) string {
	if r.Requests == 0 {
		return "no requests"
	}
	return fmt.Sprintf("%s, %s, %s", count(r.Requests, "request"), span(r.From, r.To),
		count(r.Clients, "client"))
}

// Reading describes how the logs were read.
func Reading(r *simulate.Report) string {
	var formats []string
	for _, l := range r.Logs {
		if l.Format != "" && !slices.Contains(formats, l.Format) {
			formats = append(formats, l.Format)
		}
	}
	if formats == nil {
		formats = []string{"empty"}
	}
	s := count(int64(len(r.Logs)), "log") + ", " + strings.Join(formats, ", ") + "; " +
		count(r.Lines.Unread(), "line") + " unread"
	for _, other := range []struct {
		n    int64
		what string
	}{
		{r.Lines.NoRequest, "without a request"}, {r.Lines.NoAddress, "without an address"},
		{r.Lines.Other, "of other kinds"},
	} {
		if other.n > 0 {
			s += fmt.Sprintf(", %s %s", group(other.n), other.what)
		}
	}
	return s
}

// Skipped returns a line for each kind of line that was not simulated: the first one, how many
// there are, and why.
func Skipped(r *simulate.Report) []string {
	var texts []string
	for i, l := range r.Logs {
		for _, s := range l.Skipped {
			isOther := func(of simulate.Log) bool {
				return slices.ContainsFunc(of.Skipped,
					func(other accesslog.Skipped) bool { return other.Kind == s.Kind })
			}
			if slices.ContainsFunc(r.Logs[:i], isOther) {
				continue // already shown
			}
			text := "line " + strconv.FormatInt(s.First, 10)
			if len(r.Logs) > 1 {
				text += " of " + visible.Name(l.Name)
			}
			if n := r.Lines.Kind(s.Kind); n > 1 {
				text += " and " + group(n-1) + " more"
			}
			text += ": " + s.Why
			if s.Text != "" {
				text += ": " + strings.Map(visible.Rune, s.Text)
			}
			texts = append(texts, text)
		}
	}
	return texts
}

// span returns a span of time without parts that are equal at both ends.
func span(from, to time.Time) string {
	const day = "2 Jan 2006"
	if from.Format(day) == to.Format(day) {
		return from.Format(day+" 15:04:05") + "–" + to.Format("15:04:05") + " UTC"
	}
	return from.Format(day+" 15:04") + " – " + to.Format(day+" 15:04") + " UTC"
}

func (t *text) rules(side *simulate.Side) {
	if len(side.Rules) == 0 {
		t.line("No rule of %s was simulated.", visible.Name(side.Name))
		return
	}
	rows := [][]string{
		{"rule", "limit", "applies to", "denied", "of these", "keys hit", "longest wait",
			"first denial"},
	}
	for i := range side.Rules {
		rule := &side.Rules[i]
		denied, what := rule.Denied, ""
		if rule.Mode != "enforce" {
			what = rule.Mode
			if rule.Mode == "shadow" {
				denied = rule.Shadowed
			} else if rule.Shadowed.High > 0 {
				what += ", " + Range(rule.Shadowed) + " more would be denied"
			}
		}
		limit, first := rule.Limit, "–"
		if limit == "" {
			limit = "by key"
		}
		if rule.First != nil {
			first = rule.First.Format("02 Jan 15:04:05")
		}
		name := rule.Name
		if what != "" {
			name += " (" + what + ")"
		}
		rows = append(rows,
			[]string{name, limit, group(rule.Asked), Range(denied), Share(denied, rule.Asked),
				Range(rule.KeysDenied), Wait(rule), first})
	}
	if len(side.Rules) > 1 {
		rows = append(rows, []string{"together", "", group(t.r.Requests), Range(side.Denied),
			Share(side.Denied, t.r.Requests), "", "", ""})
	}
	t.table(rows)
	t.line("")
	t.line("%s of %s would be denied at least once.", upperFirst(Range(side.Clients)),
		count(t.r.Clients, "client"))
	if side.Shadowed.High > 0 {
		t.line("Shadows would deny %s of the requests that are allowed.", Range(side.Shadowed))
	}
	if side.Delayed.High > 0 {
		what := "requests would wait for their turn"
		if side.Delayed.High == 1 {
			what = "request would wait for its turn"
		}
		t.line("%s %s.", Range(side.Delayed), what)
	}
}

func (t *text) table(table [][]string) {
	if t.err != nil {
		return
	}
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 3, ' ', 0)
	for _, row := range table {
		fmt.Fprintln(w, strings.Join(row, "\t"))
	}
	w.Flush()
	head, rows, _ := strings.Cut(b.String(), "\n")
	t.line("%s", t.emphasize(strings.TrimRight(head, " ")))
	for line := range strings.Lines(rows) {
		t.line("%s", strings.TrimRight(line, " \n"))
	}
}

func (t *text) compared() {
	r := t.r
	t.line("")
	t.line("Compared with %s, which denies %s (%s of all):", visible.Name(r.Against.Name),
		Range(r.Against.Denied),
		Share(r.Against.Denied, r.Requests))
	t.line("  allow → deny   %s", Range(r.Moved.Denied))
	t.line("  deny → allow   %s", Range(r.Moved.Allowed))
	if len(r.Moved.Clients) > 0 {
		t.line("  most moved     %s", moved(r.Moved.Clients[:min(len(r.Moved.Clients), shownKeys)]))
	}
}

func moved(clients []simulate.MovedClient) string {
	texts := make([]string, len(clients))
	for i, c := range clients {
		texts[i] = fmt.Sprintf("%s (%s allowed)", c.Client, signed(c.Change))
	}
	return strings.Join(texts, ", ")
}

func signed(r simulate.Range) string {
	one := func(n int64) string {
		switch {
		case n < 0:
			return "−" + group(-n)
		case n > 0:
			return "+" + group(n)
		}
		return "0"
	}
	if r.Low == r.High {
		return one(r.Low)
	}
	return one(r.Low) + " to " + one(r.High)
}

// hit lists the keys with the most denials.
func (t *text) hit(side *simulate.Side) {
	for i := range side.Rules {
		rule := &side.Rules[i]
		if rule.KeysDenied.High == 0 {
			continue
		}
		t.line("")
		rows := [][]string{
			{"most denied by " + rule.Name, "requests", "denied", "busiest " + rule.Period},
		}
		for _, k := range rule.Top[:min(len(rule.Top), shownKeys)] {
			if k.Denied.High > 0 {
				rows = append(rows, []string{k.Key, group(k.Asked), Range(k.Denied), group(k.Peak)})
			}
		}
		t.table(rows)
	}
}

func (t *text) ladders(side *simulate.Side) {
	for i := range side.Rules {
		rule := &side.Rules[i]
		if len(rule.Ladder) == 0 {
			continue
		}
		t.line("")
		rows := [][]string{
			{rule.Name + " alone, at", "limit", "denied", "of its requests", "keys hit"},
		}
		for _, rung := range rule.Ladder {
			limit := rung.Limit
			if limit == "" {
				limit = "by key"
			}
			rows = append(rows, []string{"×" + factor(rung.Factor), limit, Range(rung.Denied),
				Share(rung.Denied, rule.Asked), Range(rung.Keys)})
		}
		t.table(rows)
	}
}

// accuracy compares algorithms with an exact log of what each of them let through.
func (t *text) accuracy(side *simulate.Side) {
	for i := range side.Rules {
		rule := &side.Rules[i]
		if len(rule.Accuracy) == 0 {
			continue
		}
		t.line("")
		rows := [][]string{{rule.Name + " alone, by", "decisions", "unlike an exact log",
			"allowed too many", "denied too early",
			"most in any " + rule.Period}}
		for _, a := range rule.Accuracy {
			differ := simulate.Range{Low: a.Over.Low + a.Early.Low, High: a.Over.High + a.Early.High}
			rows = append(rows, []string{a.Limit, group(a.Decisions), Range(differ) + " (" + Share(differ, a.Decisions) + ")",
				Range(a.Over), Range(a.Early), Range(a.Most) + " (" + Share(a.Most, a.Units) + ")"})
		}
		t.table(rows)
	}
}

func factor(f float64) string { return strconv.FormatFloat(f, 'g', 3, 64) }

func (t *text) suggestion() {
	s := t.r.Suggestion
	if s == nil {
		return
	}
	t.line("")
	if s.Limit == "" {
		t.line("No limit of rule %q meets %s.", s.Rule, s.Condition)
		return
	}
	t.line("Lowest limit of rule %q with %s: %s", s.Rule, s.Condition, s.Limit)
	t.line("  alone it denies %s (%s of all requests), to %s", Range(s.Denied),
		Share(s.Denied, t.r.Requests),
		people(s.Clients))
	if s.Less != "" {
		t.line("  %s does not meet it", s.Less)
	}
}

func (t *text) skipped() {
	for _, side := range []*simulate.Side{&t.r.Policy, t.r.Against} {
		if side == nil || len(side.Skipped) == 0 {
			continue
		}
		t.line("")
		t.line("Not simulated, of %s:", visible.Name(side.Name))
		for _, s := range side.Skipped {
			t.line("  %s: %s", s.Rule, s.Why)
		}
	}
}

func (t *text) notes() {
	if len(t.r.Notes) > 0 {
		t.line("")
	}
	for _, note := range t.r.Notes {
		t.line("Note: %s", note)
	}
}
