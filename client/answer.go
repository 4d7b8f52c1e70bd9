package client

import (
	"net/http"
	"slices"
	"time"

	"github.com/weir-go/weir/client/internal/quota"
)

// answer is what an answer says about limits.
type answer struct {
	status  int
	limited bool // it denies
	unclear bool // its body says whether it denies
	wait    time.Duration
	source  string
	quota   quota.Rest
	counted bool                    // quota is told
	another bool                    // it denies by another limit than that of quota
	asked   bool                    // a field asks for wait, other than those of quota
	final   string                  // why no wait cures the denial; "": one may
	tokens  *[tokenKinds]quota.Rest // of OpenAI and Anthropic; nil: not told
	global  bool                    // it denies all requests of the account
	name    string                  // of the bucket
	invalid bool                    // it counts against the account
}

// reader reads answers.
type reader struct {
	dialect Dialect
	denials []int // Options.Denials
}

// response reads an answer over HTTP. The subject of a 403 of GitHub may stand in its body.
func (r *reader) response(response *http.Response) (a answer) {
	r.read(&a, response.StatusCode, response.Header, 0)
	if a.unclear && saysRateLimit(response) {
		a.denySecondary(false)
	}
	if a.limited {
		wait := time.Duration(0)
		if a.final, wait = readBody(response); wait > 0 && !a.asked {
			a.wait, a.source, a.asked, a.another = wait, sourceBody, true, false
		}
	}
	return a
}

// read reads an answer into a, which is zero. A positive wait was told elsewhere than in the fields
// h.
func (r *reader) read(a *answer, status int, h http.Header, wait time.Duration) {
	a.status = status
	if a.quota, a.counted = quota.Of(h); a.counted {
		a.counted = !quota.FromCache(h)
	}
	source, told := quota.RetryAfter, wait > 0
	if !told && status >= 400 {
		wait, source, told = quota.WaitOf(h)
	}
	a.asked = told
	if !told && a.counted && a.quota.Left == 0 { // draft -11, section 7: Retry-After takes precedence
		if longer, by, ok := quota.WaitOf(h); ok && longer > a.quota.Window {
			a.quota.Window, a.quota.Source, a.quota.Date = longer, by, 0
		}
	}
	a.limited = status == http.StatusTooManyRequests ||
		status == http.StatusServiceUnavailable && told || slices.Contains(r.denials, status)
	switch r.dialect {
	case GitHub:
		readGitHub(h, told, a)
	case Discord:
		readDiscord(h, a)
	case OpenAI, Anthropic:
		readModel(r.dialect, h, told, a)
	}
	switch {
	case a.source != "": // found by the dialect
	case told:
		a.wait, a.source = min(wait, quota.Longest), source
	case a.another: // found by the dialect
	case a.counted && a.limited && a.quota.Ample():
		a.another = true
	case a.counted:
		a.wait, a.source = a.quota.Window, a.quota.Source
	}
}

// hopeless reports whether a denies, and no wait is asked for or helps. Such a denial says nothing
// about a limit: the account has to be paid for, or the request costs too much.
func (a *answer) hopeless() bool { return a.limited && a.final != "" && !a.asked }

// denySecondary makes a the denial of a secondary limit, which may tell a wait.
func (a *answer) denySecondary(told bool) {
	a.limited, a.global = true, true
	if !told {
		a.wait, a.source = silentWait, sourceSilent
	}
}
