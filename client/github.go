package client

import (
	"net/http"
	"strings"
	"time"
)

// The rules are those of "Rate limits for the REST API" and "Best practices for using the REST API"
// in GitHub's documentation.
const (
	silentWait     = time.Minute // after a denial that tells no wait
	sourceSilent   = "GitHub's minute"
	fieldXResource = "X-Ratelimit-Resource"
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

// saysRateLimit reports whether the message of a 403 is about a rate limit. Other messages are
// about permissions.
func saysRateLimit(response *http.Response) bool {
	message := strings.ToLower(string(peek(response)))
	return strings.Contains(message, "rate limit") || strings.Contains(message, "abuse detection")
}
