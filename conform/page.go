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

var pageTemplate = template.Must(template.New("page").Funcs(template.FuncMap{
	"class": classOf,
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
	Counts  []verdictCount
	CSP     template.HTMLAttr
	Style   template.CSS
}

// writePage writes r as a page that loads no other file, and whose policy forbids it.
func writePage(w io.Writer, r *Report) error {
	sum := sha256.Sum256([]byte(pageStyle))
	p := page{
		Report: r, Summary: r.summary(), Counts: r.counts(), Style: template.CSS(pageStyle),
		CSP: template.HTMLAttr(`content="default-src 'none'; style-src 'sha256-` +
			base64.StdEncoding.EncodeToString(sum[:]) + `'; base-uri 'none'; form-action 'none'"`),
	}
	return pageTemplate.Execute(w, p)
}
