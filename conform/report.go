package conform

import (
	"fmt"
	"io"
	"strings"
	"time"
)

// Report is what the checks of one run have found.
type Report struct {
	Name   string        `json:"name"`
	Limit  string        `json:"limit"` // the promise
	Key    string        `json:"key"`
	Store  string        `json:"store,omitempty"`
	Fields []string      `json:"fields,omitempty"`
	Seed   uint64        `json:"seed"` // Options.Seed sends the same
	Began  time.Time     `json:"began"`
	Took   time.Duration `json:"took_ns"`

	Results []Result `json:"results"`
}

// Result is what one check has found.
type Result struct {
	Check    string        `json:"check"`
	Verdict  Verdict       `json:"verdict"`
	Says     string        `json:"says"`               // what holds, or not
	Found    string        `json:"found"`              // with its figures
	Evidence []string      `json:"evidence,omitempty"` // the requests that show it
	Source   string        `json:"source"`
	Requests int64         `json:"requests"` // sent by the check
	Took     time.Duration `json:"took_ns"`
}

// Count returns how many checks have a verdict.
func (r *Report) Count(v Verdict) (n int) {
	for i := range r.Results {
		if r.Results[i].Verdict == v {
			n++
		}
	}
	return n
}

// OK reports whether every check holds, holds within a bound, or does not apply.
func (r *Report) OK() bool { return r.Count(Fails) == 0 }

// Text writes r as text: a line for each check, and below it what shows that it does not hold.
func (r *Report) Text(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s, key: %s", r.Name, r.Limit, r.Key)
	if r.Store != "" {
		fmt.Fprintf(&b, ", store: %s", r.Store)
	}
	b.WriteString("\n\n")
	for i := range r.Results {
		one := &r.Results[i]
		fmt.Fprintf(&b, "%-14s  %-12s  %s\n", one.Verdict, one.Check, one.Found)
		for _, line := range one.Evidence {
			fmt.Fprintf(&b, "%-14s  %-12s    %s\n", "", "", line)
		}
	}
	fmt.Fprintf(&b, "\n%s\n", r.summary())
	_, err := io.WriteString(w, b.String())
	return err
}

// summary returns the last line of a report.
func (r *Report) summary() string {
	var parts []string
	for _, c := range r.counts() {
		if c.Count > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", c.Count, c.Label))
		}
	}
	var requests int64
	for i := range r.Results {
		requests += r.Results[i].Requests
	}
	return fmt.Sprintf("%s. %d requests in %v; --seed %d sends them again.", strings.Join(parts, ", "),
		requests, r.Took.Round(time.Second), r.Seed)
}

// verdictCount is how many checks have a verdict, with the words that a summary and a page have for it.
type verdictCount struct {
	Count        int
	Label, Class string
}

// counts returns the counts of all verdicts.
func (r *Report) counts() (all []verdictCount) {
	for _, v := range verdicts {
		c := verdictCount{Count: r.Count(v.verdict), Label: v.many, Class: v.class}
		if c.Count <= 1 {
			c.Label = v.one
		}
		all = append(all, c)
	}
	return all
}

// HTML writes r as a page in a single file, which loads nothing.
func (r *Report) HTML(w io.Writer) error { return writePage(w, r) }
