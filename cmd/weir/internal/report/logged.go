package report

import (
	"fmt"
	"io"
	"strings"

	"github.com/weir-go/weir/cmd/weir/internal/simulate"
)

// Logged writes on which requests a policy and the server that wrote a log differ. It reports
// whether they certainly do.
func Logged(w io.Writer, r *simulate.Report, denials []int) (differ bool, err error) {
	t := &text{w: w, r: r}
	t.head()
	l := r.Logged
	statuses := strings.Trim(strings.ReplaceAll(fmt.Sprint(denials), " ", " or "), "[]")
	t.line("The rules apply to %s. nginx denied by %s.", count(l.Requests, "request"), statuses)
	t.line("  denied by both               %s", Range(l.Both))
	t.line("  denied by nginx alone        %s", Range(l.Server))
	t.line("  denied by the policy alone   %s", Range(l.Policy))
	if l.Swapped.High > 0 {
		t.line("  one in place of another      %s, of a client within a second", Range(l.Swapped))
	}
	if l.Elsewhere > 0 {
		t.line("%s answered %s without a rule: a program behind may have done so.",
			plural(l.Elsewhere), statuses)
	}
	if len(r.Policy.Skipped) > 0 {
		t.line("")
		t.line("Not replayed:")
		for _, skipped := range r.Policy.Skipped {
			t.line("  %s: %s", skipped.Rule, skipped.Why)
		}
	}
	if r.WholeSeconds && l.Server.High+l.Policy.High > 0 {
		t.line("")
		t.line("Note: The log's stamps are whole seconds. When within its second a request came " +
			"is not known, so the policy may be the same: log $msec and $request_time to know.")
	}
	return !r.WholeSeconds && l.Server.Low+l.Policy.Low > 0, t.err
}

func plural(n int64) string {
	if n == 1 {
		return "1 request was"
	}
	return count(n, "request") + " were"
}
