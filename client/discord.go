package client

import (
	"net/http"
	"strings"

	"github.com/weir-go/weir/client/internal/quota"
)

// The rules are those of "Rate Limits" in Discord's documentation for developers.
const (
	fieldXBucket = "X-Ratelimit-Bucket"
	fieldXGlobal = "X-Ratelimit-Global"
	fieldXScope  = "X-Ratelimit-Scope"
)

// identifyDiscord finds the pattern of r. Requests that differ in an id share a limit. A major
// parameter, the id of a channel, a guild or a webhook, divides it.
//
//	GET /api/v10/channels/7/messages/9: "GET/channels/:/messages/:", major " channels/7"
func identifyDiscord(r *http.Request, id *identity) {
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	if parts[0] == "api" {
		parts = parts[1:]
		if len(parts) > 0 && len(parts[0]) > 1 && parts[0][0] == 'v' && quota.Digits(parts[0][1:]) {
			parts = parts[1:]
		}
	}
	var pattern, major strings.Builder
	pattern.WriteString(r.Method)
	for i, part := range parts {
		pattern.WriteByte('/')
		switch {
		case i == 1 && (parts[0] == "channels" || parts[0] == "guilds" || parts[0] == "webhooks"):
			pattern.WriteByte(':')
			major.WriteString(" " + parts[0] + "/" + part)
		case i == 2 && (parts[0] == "webhooks" || parts[0] == "interactions"): // a token
			pattern.WriteByte(':')
			if parts[0] == "webhooks" {
				major.WriteString("/" + digest(part))
			}
		case quota.Digits(part), i > 0 && parts[i-1] == "reactions":
			pattern.WriteByte(':')
		default:
			pattern.WriteString(part)
		}
	}
	id.pattern, id.major = pattern.String(), major.String()
	id.provisional = id.pattern + id.major
	id.exempt = len(parts) > 0 && parts[0] == "interactions" // "Global Rate Limit" exempts these
}

// readDiscord reads an answer of Discord. A denial that names no bucket is about the account: it
// may come from a proxy in front.
func readDiscord(h http.Header, a *answer) {
	scope := quota.First(h, fieldXScope)
	a.name = nameIn(h, fieldXBucket)
	a.invalid = a.status == http.StatusUnauthorized || a.status == http.StatusForbidden ||
		a.status == http.StatusTooManyRequests && scope != "shared"
	a.global = a.limited && (strings.EqualFold(quota.First(h, fieldXGlobal), "true") ||
		scope == "global" || a.name == "" && scope == "")
}
