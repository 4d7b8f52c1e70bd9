package client

import (
	"bytes"
	"cmp"
	"io"
	"mime"
	"net/http"
	"strings"
	"time"

	"github.com/weir-go/weir/client/internal/quota"
	"github.com/weir-go/weir/limits"
)

// The rules are those of "Rate limits for the REST API" and "Best practices for using the REST API"
// in GitHub's documentation.
const (
	writesAMinute  = 80
	writesAnHour   = 500
	writeSpacing   = 100 * time.Millisecond
	cautious       = time.Second // between writes in the hour after a secondary denial
	silentWait     = time.Minute // after a denial that tells no wait
	sourceSilent   = "GitHub's minute"
	sourceWrites   = "GitHub's limit of writes"
	fieldXResource = "X-Ratelimit-Resource"

	maxGitHubMessage = 16 << 10
)

// identifyGitHub guesses the resource that counts r from its path, until an answer names it.
func identifyGitHub(r *http.Request, id *identity) {
	path := strings.TrimPrefix(strings.TrimPrefix(r.URL.Path, "/api/v3"), "/api")
	head, rest, _ := strings.Cut(strings.Trim(path, "/"), "/")
	id.pattern, id.provisional = head, "core"
	switch head {
	case "":
		id.pattern = "/"
	case "graphql":
		id.provisional = "graphql"
	case "search":
		id.provisional = "search"
		if rest == "code" {
			id.pattern, id.provisional = "search/code", "code_search"
		}
	case "repos": // /repos/{owner}/{repository}/{this}
		_, rest, _ = strings.Cut(rest, "/")
		if _, rest, ok := strings.Cut(rest, "/"); ok {
			this, _, _ := strings.Cut(rest, "/")
			id.pattern = "/" + this // no other pattern begins with a slash
		}
	}
	switch r.Method {
	case "", http.MethodGet, http.MethodHead, http.MethodOptions:
	default:
		id.writes = head != "graphql" // where queries are POSTs, too
	}
}

// writes keeps requests that change something to the secondary limit of what creates content.
type writes struct {
	minute, hour sendings
	last         instant
}

func (w *writes) init() {
	w.minute.init(limits.PerMinute(writesAMinute))
	w.hour.init(limits.PerHour(writesAnHour))
}

func (w *writes) start(now instant) {
	w.minute.start(now)
	w.hour.start(now)
	w.last = now
}

// next returns when the next write may start. at is the last denial of the account, if it was
// denied.
func (w *writes) next(denied bool, at instant) instant {
	if w.minute.sent == 0 {
		return 0
	}
	spacing := writeSpacing
	if denied && w.last-at < time.Hour {
		spacing = cautious
	}
	return max(w.last+spacing, w.minute.next(), w.hour.next())
}

// readGitHub reads an answer of GitHub. told reports whether it tells a wait.
func readGitHub(h http.Header, told bool, a *answer) {
	a.name = nameIn(h, fieldXResource)
	primary := !told && a.counted && a.quota.Left == 0
	forbidden := a.status == http.StatusForbidden
	switch {
	case forbidden && !told && !primary:
		a.unclear = true
	case (forbidden || a.status == http.StatusTooManyRequests) && !primary:
		a.denySecondary(told)
	case forbidden:
		a.limited = true
	}
}

// denySecondary makes a the denial of a secondary limit, which may tell a wait.
func (a *answer) denySecondary(told bool) {
	a.limited, a.global = true, true
	if !told {
		a.wait, a.source = silentWait, sourceSilent
	}
}

// saysRateLimit reports whether the message of a 403 is about a rate limit. Other messages are
// about permissions. It waits for the message, 16 KiB at most, and leaves the body as it was.
func saysRateLimit(response *http.Response) bool {
	media, _, _ := mime.ParseMediaType(quota.First(response.Header, "Content-Type"))
	body := response.Body
	if body == nil || !strings.HasSuffix(media, "json") ||
		response.ContentLength > maxGitHubMessage {
		return false
	}
	text, err := io.ReadAll(io.LimitReader(body, maxGitHubMessage))
	response.Body = &readAhead{io.MultiReader(bytes.NewReader(text), failing{err}, body), body}
	message := strings.ToLower(string(text))
	return strings.Contains(message, "rate limit") || strings.Contains(message, "abuse detection")
}

// readAhead is a body whose beginning was read.
type readAhead struct {
	io.Reader
	io.Closer
}

// failing is a reader that fails with err, or is empty if err is nil.
type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, cmp.Or(f.err, io.EOF) }
