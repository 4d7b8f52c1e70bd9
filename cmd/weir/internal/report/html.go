//go:build !js

package report

import (
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"io"
	"path/filepath"
	"strings"

	"github.com/weir-go/weir/cmd/weir/internal/simulate"
	"github.com/weir-go/weir/internal/ground/algorithm"
	"github.com/weir-go/weir/limits"
)

var (
	//go:embed page.html
	pageText string
	//go:embed page.css
	pageStyle string
	//go:embed page.js
	pageScript string
)

var pageTemplate = template.Must(template.New("page").Funcs(template.FuncMap{
	"group": group, "between": Range, "share": Share, "wait": Wait, "count": count,
	"signed": signed, "factor": factor,
	"bar": barWidth, "mostOf": mostOf, "longest": longest, "top": top, "others": others,
	"topMoved": func(c []simulate.MovedClient) []simulate.MovedClient {
		return c[:min(len(c), shownRows)]
	},
	"otherMoved": func(c []simulate.MovedClient) []simulate.MovedClient {
		return c[min(len(c), shownRows):]
	},
}).Parse(pageText))

// style is the style sheet of the page. It includes the lengths of bars, since the policy of the
// page forbids style attributes.
var style = func() string {
	var b strings.Builder
	b.WriteString(pageStyle)
	for i := range 101 {
		fmt.Fprintf(&b, ".w%d{--w:%d%%}", i, i)
	}
	return b.String()
}()

// page is the data of the template.
type page struct {
	*simulate.Report
	Title, Headline, Reading string
	Skipped                  []string // the first lines that were not simulated
	CSP                      template.HTMLAttr
	Style                    template.CSS
	Script                   template.JS
	Data                     data
	Rules                    []ruleView
	MostRefused              int64 // maximum over the rules
	LogCount                 int64
	Other                    string // name of the policy to compare with
	Uncertain                bool   // the two readings of the log differ
	Hit                      bool   // a request is denied
}

// ruleView is a rule as shown in tables.
type ruleView struct {
	*simulate.Rule
	Refused simulate.Range // denials, or would-be denials of a shadow
	Shadow  bool
	Note    string
}

// data is the data of the charts.
type data struct {
	BarSeconds int64          `json:"barSeconds"`
	Bars       []simulate.Bar `json:"bars"`
	Compared   bool           `json:"compared"`
	Rules      []drawnRule    `json:"rules"`
}

// drawnRule is a rule as charts draw it.
type drawnRule struct {
	simulate.Rule
	ByClock bool `json:"byClock"` // all units are back at a whole multiple of the period
}

func drawn(rule simulate.Rule) drawnRule {
	rule.Top = nil                       // shown in tables
	limit, _ := limits.Parse(rule.Limit) // "": the zero Limit
	row := algorithm.Of(limit.Algorithm())
	return drawnRule{rule, row.Aligned && row.Ends}
}

// HTML writes r as a page in a single file. The page loads no other file: it contains its style,
// script and data, and its policy forbids other sources.
func HTML(w io.Writer, r *simulate.Report) error {
	p := page{
		Report: r, Title: title(r), Headline: Headline(r), Reading: Reading(r), Skipped: Skipped(r),
		Style: template.CSS(style), Script: template.JS(pageScript),
		LogCount: int64(len(r.Logs)),
		Data:     data{BarSeconds: r.BarSeconds, Bars: r.Bars, Compared: r.Against != nil},
	}
	p.CSP = template.HTMLAttr(`content="default-src 'none'; style-src '` + digest(style) +
		`'; script-src '` + digest(pageScript) + `'; base-uri 'none'; form-action 'none'"`)
	if r.Against != nil {
		p.Other = shortName(r.Against.Name, r.Policy.Name)
	}
	for _, bar := range r.Bars {
		p.Uncertain = p.Uncertain || bar.Denied.Low != bar.Denied.High
	}
	for i := range r.Policy.Rules {
		rule := &r.Policy.Rules[i]
		p.Rules = append(p.Rules, viewOf(rule))
		p.MostRefused = max(p.MostRefused, p.Rules[i].Refused.High)
		p.Hit = p.Hit || rule.KeysDenied.High > 0
		p.Data.Rules = append(p.Data.Rules, drawn(*rule))
	}
	return pageTemplate.Execute(w, p)
}

func title(r *simulate.Report) string {
	if len(r.Policy.Rules) == 1 && r.Policy.Rules[0].Limit != "" &&
		r.Policy.Name == simulate.OneLimitName {
		return r.Policy.Rules[0].Limit + ", " + r.Policy.Rules[0].Name
	}
	if r.Against == nil {
		return filepath.Base(r.Policy.Name)
	}
	return shortName(r.Policy.Name, r.Against.Name)
}

// shortName returns path without directories, unless that would equal the name of the other path.
func shortName(path, other string) string {
	if base := filepath.Base(path); base != filepath.Base(other) {
		return base
	}
	return path
}

func viewOf(rule *simulate.Rule) ruleView {
	v := ruleView{Rule: rule, Refused: rule.Denied}
	switch {
	case rule.Mode == "shadow":
		v.Refused, v.Shadow, v.Note = rule.Shadowed, true, "shadow: denies nobody"
	case rule.Mode != "enforce":
		v.Note = rule.Mode
		if rule.Shadowed.High > 0 {
			v.Note += "; " + Range(rule.Shadowed) + " more for all keys"
		}
	}
	return v
}

// digest returns the source expression of an inline text for a content security policy.
func digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "sha256-" + base64.StdEncoding.EncodeToString(sum[:])
}

// barWidth returns the length of a bar in percent.
func barWidth(n, most int64) int {
	if most <= 0 || n <= 0 {
		return 0
	}
	return int(min(100, max(1, (n*100+most/2)/most)))
}

// mostOf returns the most denials of any limit of a ladder.
func mostOf(rungs []simulate.Rung) (most int64) {
	for _, rung := range rungs {
		most = max(most, rung.Denied.High)
	}
	return most
}

// shownRows is the number of keys of a rule that the page shows at first.
const shownRows = 10

// denied returns the keys with denials, which come first.
func denied(keys []simulate.Key) []simulate.Key {
	n := 0
	for n < len(keys) && keys[n].Denied.High > 0 {
		n++
	}
	return keys[:n]
}

func top(keys []simulate.Key) []simulate.Key {
	keys = denied(keys)
	return keys[:min(len(keys), shownRows)]
}

func others(keys []simulate.Key) []simulate.Key {
	return denied(keys)[len(top(keys)):]
}

// longest returns the longest wait of all rules.
func longest(side simulate.Side) string {
	all := simulate.Rule{}
	for i := range side.Rules {
		rule := &side.Rules[i]
		all.KeysDenied.High = max(all.KeysDenied.High, rule.KeysDenied.High)
		all.Never.High = max(all.Never.High, rule.Never.High)
		all.WaitMillis.Low = max(all.WaitMillis.Low, rule.WaitMillis.Low)
		all.WaitMillis.High = max(all.WaitMillis.High, rule.WaitMillis.High)
	}
	return Wait(&all)
}
