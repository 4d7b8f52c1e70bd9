package client

import (
	"bytes"
	"cmp"
	"io"
	"mime"
	"net/http"
	"strings"
	"time"

	"github.com/weir-go/weir/limits"
)

// The rules are those of "Rate limits for the REST API" and "Best practices for using the
// REST API" in GitHub's documentation.
const (
	writesAMinute  = 80
	writesAnHour   = 500
	writeSpacing   = 100 * time.Millisecond
	cautious       = time.Second // between writes, in the hour after a secondary limit has denied
	silentWait     = time.Minute // of a denial that does not say for how long
	sourceSilent   = "GitHub's minute"
	sourceWrites   = "GitHub's limit of writes"
	fieldXResource = "X-Ratelimit-Resource"

	maxGitHubMessage = 16 << 10
)

// identifyGitHub finds the resource that counts r: by its path, until an answer
// has named another.
func identifyGitHub(r *http.Request, id *identity) {
	path := strings.Trim(strings.TrimPrefix(strings.TrimPrefix(r.URL.Path, "/api/v3"), "/api"), "/")
	head, rest, _ := strings.Cut(path, "/")
	id.key.route, id.provisional = head, "core"
	switch head {
	case "":
		id.key.route = "/"
	case "graphql":
		id.provisional = "graphql"
	case "search":
		id.provisional = "search"
		if rest == "code" {
			id.key.route, id.provisional = "search/code", "code_search"
		}
	case "repos": // /repos/{owner}/{repository}/{this}
		_, rest, _ = strings.Cut(rest, "/")
		if i := strings.IndexByte(rest, '/'); i >= 0 {
			rest = rest[i:]
			if end := strings.IndexByte(rest[1:], '/'); end >= 0 {
				rest = rest[:end+1]
			}
			id.key.route = rest // which begins with a slash, as no other does
		}
	}
	switch r.Method {
	case "", http.MethodGet, http.MethodHead, http.MethodOptions:
	default:
		id.writes = head != "graphql" // which has queries by POST, too
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

// next returns when the next write may start. If the account was denied, that was at an instant.
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

func readGitHub(h http.Header, said bool, a *answer) {
	a.name = nameIn(h, fieldXResource)
	primary := !said && a.counted && a.quota.left == 0
	switch {
	case a.status == http.StatusForbidden && !said && !primary:
		a.unclear = true
	case (a.status == http.StatusForbidden || a.status == http.StatusTooManyRequests) && !primary:
		a.denySecondary(said)
	case a.status == http.StatusForbidden:
		a.limited = true
	}
}

// denySecondary makes a the denial of a secondary limit, which may say for how long.
func (a *answer) denySecondary(said bool) {
	a.limited, a.everybody = true, true
	if !said {
		a.wait, a.source = silentWait, sourceSilent
	}
}

// saysRateLimit reports whether the message of a 403 is about a rate limit: other ones are
// about permissions. It waits for the message, 16 KiB at most, and leaves the body as it was.
func saysRateLimit(response *http.Response) bool {
	media, _, _ := mime.ParseMediaType(first(response.Header, "Content-Type"))
	body := response.Body
	if body == nil || !strings.HasSuffix(media, "json") || response.ContentLength > maxGitHubMessage {
		return false
	}
	text, err := io.ReadAll(io.LimitReader(body, maxGitHubMessage))
	response.Body = &readAhead{io.MultiReader(bytes.NewReader(text), failing{err}, body), body}
	text = bytes.ToLower(text)
	return bytes.Contains(text, []byte("rate limit")) || bytes.Contains(text, []byte("abuse detection"))
}

// readAhead is a body whose beginning was read.
type readAhead struct {
	io.Reader
	io.Closer
}

// failing reads err, or nothing if that is nil.
type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, cmp.Or(f.err, io.EOF) }
