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
	"group": group, "between": Range, "share": Share, "wait": Wait, "count": count, "signed": signed, "factor": factor,
	"bar": barWidth, "mostOf": mostOf, "longest": longest, "top": top, "others": others,
	"topMoved":   func(c []simulate.MovedClient) []simulate.MovedClient { return c[:min(len(c), shownRows)] },
	"otherMoved": func(c []simulate.MovedClient) []simulate.MovedClient { return c[min(len(c), shownRows):] },
}).Parse(pageText))

// style is the style of the page, with the lengths of bars: the policy of the page allows no
// style attributes.
var style = func() string {
	var b strings.Builder
	b.WriteString(pageStyle)
	for i := range 101 {
		fmt.Fprintf(&b, ".w%d{--w:%d%%}", i, i)
	}
	return b.String()
}()

// page is what the template shows.
type page struct {
	*simulate.Report
	Title, Headline, Reading string
	Skipped                  []string // the first lines that are not simulated
	CSP                      template.HTMLAttr
	Style                    template.CSS
	Script                   template.JS
	Data                     data
	Rules                    []ruleView
	MostRefused              int64 // by one rule
	LogCount                 int64
	Other                    string // the name of the policy to compare with
	Uncertain                bool   // the readings of the log differ
	Hit                      bool   // somebody would be denied
}

// ruleView is a rule as tables show it.
type ruleView struct {
	*simulate.Rule
	Refused simulate.Range // what it denies, or would deny as a shadow
	Note    string
}

// data is what the charts are drawn from.
type data struct {
	BarSeconds int64           `json:"barSeconds"`
	Bars       []simulate.Bar  `json:"bars"`
	Compared   bool            `json:"compared"`
	Rules      []simulate.Rule `json:"rules"`
}

// HTML writes r as a page of one file. It asks nobody for anything: style, script and data
// are within, and its policy allows nothing else.
func HTML(w io.Writer, r *simulate.Report) error {
	p := page{
		Report: r, Title: title(r), Headline: Headline(r), Reading: Reading(r), Skipped: Skipped(r),
		Style: template.CSS(style), Script: template.JS(pageScript),
		LogCount: int64(len(r.Logs)),
		Data:     data{BarSeconds: r.BarSeconds, Bars: r.Bars, Compared: r.Against != nil},
	}
	p.CSP = template.HTMLAttr(`content="default-src 'none'; style-src '` + digest(style) + `'; script-src '` + digest(pageScript) + `'; base-uri 'none'; form-action 'none'"`)
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
		drawn := *rule
		drawn.Top = nil // in the tables
		p.Data.Rules = append(p.Data.Rules, drawn)
	}
	return pageTemplate.Execute(w, p)
}

func title(r *simulate.Report) string {
	if len(r.Policy.Rules) == 1 && r.Policy.Rules[0].Limit != "" && r.Policy.Name == simulate.OneLimitName {
		return r.Policy.Rules[0].Limit + ", " + r.Policy.Rules[0].Name
	}
	if r.Against == nil {
		return filepath.Base(r.Policy.Name)
	}
	return shortName(r.Policy.Name, r.Against.Name)
}

// shortName returns a path without directories, unless another path would be the same then.
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
		v.Refused, v.Note = rule.Shadowed, "shadow: denies nobody"
	case rule.Mode != "enforce":
		v.Note = rule.Mode
		if rule.Shadowed.High > 0 {
			v.Note += "; " + Range(rule.Shadowed) + " more for all keys"
		}
	}
	return v
}

// digest returns the source of an inline text in a content security policy.
func digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "sha256-" + base64.StdEncoding.EncodeToString(sum[:])
}

// barWidth returns how long the bar of a number is, in percent.
func barWidth(n, of int64) int {
	if of <= 0 || n <= 0 {
		return 0
	}
	return int(min(100, max(1, (n*100+of/2)/of)))
}

// mostOf returns the most that a limit of a ladder denies.
func mostOf(rungs []simulate.Rung) (most int64) {
	for _, rung := range rungs {
		most = max(most, rung.Denied.High)
	}
	return most
}

// shownRows is how many keys of a rule the page shows at once.
const shownRows = 10

// denied returns the keys that are denied at all; they come first.
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
