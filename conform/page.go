package conform

import (
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"html/template"
	"io"
)

var (
	//go:embed page.html
	pageText string
	//go:embed page.css
	pageStyle string
)

// classes are the classes of verdicts in the style sheet.
var classes = map[Verdict]string{Holds: "holds", Bound: "bound", Fails: "fails", Skips: "skips"}

var pageTemplate = template.Must(template.New("page").Funcs(template.FuncMap{
	"class": func(v Verdict) string { return classes[v] },
	"why": func(name string) string {
		if i := indexOf(name); i >= 0 {
			return checks[i].Why
		}
		return ""
	},
}).Parse(pageText))

// page is the data of the template.
type page struct {
	*Report
	Summary string
	Figures []figure
	CSP     template.HTMLAttr
	Style   template.CSS
}

// figure is a number at the top of the page.
type figure struct {
	Count        int
	Label, Class string
}

// writePage writes r as a page that loads no other file, and whose policy forbids it.
func writePage(w io.Writer, r *Report) error {
	sum := sha256.Sum256([]byte(pageStyle))
	p := page{
		Report: r, Summary: r.summary(), Style: template.CSS(pageStyle),
		CSP: template.HTMLAttr(`content="default-src 'none'; style-src 'sha256-` +
			base64.StdEncoding.EncodeToString(sum[:]) + `'; base-uri 'none'; form-action 'none'"`),
	}
	for _, v := range verdicts {
		n := r.Count(v)
		p.Figures = append(p.Figures, figure{n, verbOf(v, n), classes[v]})
	}
	return pageTemplate.Execute(w, p)
}
