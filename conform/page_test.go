package conform

import (
	"strings"
	"testing"
)

func TestAPageEscapesWhatTheServerSaid(t *testing.T) {
	r := &Report{Name: "<b>n</b>", Results: []Result{
		{Check: "status", Verdict: Holds, Found: "f", Source: "s", Requests: 1},
		{Check: "syntax", Verdict: Fails, Found: "f", Source: "s", Requests: 104, Evidence: []string{`X-A is "<i>&"`}},
		{Check: "model", Verdict: Skips, Found: "f", Source: "s"},
	}}
	var page strings.Builder
	if err := r.HTML(&page); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"<h1>&lt;b&gt;n&lt;/b&gt;</h1>", "X-A is &#34;&lt;i&gt;&amp;&#34;",
		"Source: s. 1 request.</p>", "Source: s. 104 requests.</p>", "Source: s.</p>",
	} {
		if !strings.Contains(page.String(), want) {
			t.Errorf("the page has no %s", want)
		}
	}
}
