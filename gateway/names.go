package gateway

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"net/textproto"
	"slices"
	"strings"

	"github.com/weir-go/weir/core"
)

// Names are the names of the header fields that tell clients the numbers of the limit that binds.
// The zero Names are RateLimit-Limit, RateLimit-Remaining and RateLimit-Reset.
type Names struct{ limit, remaining, reset string }

// The fields of headers.Draft6, in the canonical form of [http.Header].
const (
	draftLimit     = "Ratelimit-Limit"
	draftRemaining = "Ratelimit-Remaining"
	draftReset     = "Ratelimit-Reset"
	draftPolicy    = "Ratelimit-Policy"
)

const maxName = 64

// NewNames returns names of your own: of the field with the units of the limit, of the one with the
// units that are left, and of the one with the seconds until the limit is whole again, or until a
// unit is left if none is. "" is the name of the zero Names. The error reports every name that is no
// field name (RFC 9110, section 5.1), is longer than 64 bytes, is twice among the three, or is that
// of a field with another meaning, such as Content-Length or Retry-After.
func NewNames(limit, remaining, reset string) (Names, error) {
	n := Names{limit, remaining, reset}
	var errs []error
	seen := make(map[string]bool)
	for _, one := range []struct{ what, name, used string }{
		{"limit", limit, n.Limit()}, {"remaining", remaining, n.Remaining()}, {"reset", reset, n.Reset()},
	} {
		if err := validateFieldName(one.name); err != nil {
			errs = append(errs, fmt.Errorf("gateway: name of the field %q: %w", one.what, err))
		}
		key := strings.ToLower(one.used)
		if seen[key] {
			errs = append(errs, fmt.Errorf(
				"gateway: name of the field %q: %.64q is the name of another one: choose another", one.what, one.used))
		}
		seen[key] = true
	}
	if errs != nil {
		return Names{}, errors.Join(errs...)
	}
	return n, nil
}

// MustNewNames is [NewNames] for names that the program sets. It panics if they have a mistake.
func MustNewNames(limit, remaining, reset string) Names {
	n, err := NewNames(limit, remaining, reset)
	if err != nil {
		panic(err)
	}
	return n
}

// Limit returns the name of the field with the units of the limit.
func (n Names) Limit() string { return cmp.Or(n.limit, "RateLimit-Limit") }

// Remaining returns the name of the field with the units that are left.
func (n Names) Remaining() string { return cmp.Or(n.remaining, "RateLimit-Remaining") }

// Reset returns the name of the field with the seconds until the limit is whole again.
func (n Names) Reset() string { return cmp.Or(n.reset, "RateLimit-Reset") }

// Rename gives the fields of headers.Draft6 in h these names, and deletes RateLimit-Policy, which
// belongs to the old ones. It is a Custom of headers.Options whose Formats are headers.Draft6 alone.
func (n Names) Rename(h http.Header, _ core.Outcome) {
	var lines [3][]string
	for i, old := range [...]string{draftLimit, draftRemaining, draftReset} {
		lines[i] = h[old]
		delete(h, old)
	}
	delete(h, draftPolicy)
	for i, name := range [...]string{n.Limit(), n.Remaining(), n.Reset()} {
		if lines[i] != nil {
			h[textproto.CanonicalMIMEHeaderKey(name)] = lines[i]
		}
	}
}

// taken are names of fields that answers have for something else, or that frame them. Fields that
// begin with a member of takenPrefixes are such fields, too.
var (
	taken = []string{
		"accept-ranges", "age", "allow", "alt-svc", "authorization", "cache-control", "clear-site-data", "connection",
		"cookie", "date", "etag", "expect", "expires", "host", "keep-alive", "last-modified", "link", "location", "pragma",
		"ratelimit", "ratelimit-policy", "refresh", "retry-after", "retry-after-ms", "server", "set-cookie",
		"strict-transport-security", "te", "trailer", "transfer-encoding", "upgrade", "vary", "via",
		"www-authenticate", "x-accel-redirect", "x-frame-options", "x-should-retry",
	}
	takenPrefixes = []string{
		"access-control-", "content-", "cross-origin-", "grpc-", "proxy-", "sec-", "x-accel-", "x-content-", "x-envoy-",
		"x-forwarded-",
	}
)

// validateFieldName returns an error if name cannot be the name of a field of one's own. "" can.
func validateFieldName(name string) error {
	if name == "" {
		return nil
	}
	if len(name) > maxName {
		return fmt.Errorf("must have at most %d bytes (got %d)", maxName, len(name))
	}
	for i := range len(name) {
		if c := name[i]; c <= ' ' || c > '~' || strings.IndexByte("\"(),/:;<=>?@[\\]{}", c) >= 0 {
			return fmt.Errorf("must be letters, digits and !#$%%&'*+-.^_`|~ without a colon (got %q)", name)
		}
	}
	lower := strings.ToLower(name)
	if slices.Contains(taken, lower) ||
		slices.ContainsFunc(takenPrefixes, func(prefix string) bool { return strings.HasPrefix(lower, prefix) }) {
		return fmt.Errorf("%q has another meaning: choose another, such as X-RateLimit-Limit", name)
	}
	return nil
}
