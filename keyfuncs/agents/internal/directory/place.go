package directory

import (
	"errors"
	"net/netip"
	"net/url"
	"strings"
)

// wellKnown is the path of the directory of a domain.
const wellKnown = "/.well-known/http-message-signatures-directory"

// maxURL is the most bytes of the URL of a directory.
const maxURL = 512

// Why a text is not the URL of a directory.
var (
	errURL = errors.New("it must be https://, a host, and perhaps a path, without user, fragment, dots and " +
		"escapes: such as https://bot.example")
	errLongURL = errors.New("it has more than 512 bytes")
)

// Place is where a directory is.
type Place struct {
	ID   string // the URL without a query: the identifier of the signer
	URL  string // to fetch
	Host string // in lower case, with its port unless that is 443
}

// ParsePlace reads the URL of a directory, as the field Signature-Agent or the program has it. An
// origin, such as https://bot.example, means its directory at the well-known path.
func ParsePlace(text string) (Place, error) {
	if len(text) > maxURL {
		return Place{}, errLongURL
	}
	u, err := url.Parse(text)
	if err != nil || !strings.EqualFold(u.Scheme, "https") || u.User != nil || u.Opaque != "" ||
		strings.IndexByte(text, '#') >= 0 || !isHost(u.Hostname()) {
		return Place{}, errURL
	}
	host := strings.ToLower(u.Hostname())
	if strings.IndexByte(host, ':') >= 0 {
		host = "[" + host + "]"
	}
	switch port := u.Port(); {
	case strings.HasSuffix(u.Host, ":"):
		return Place{}, errURL
	case port != "" && port != "443":
		host += ":" + port
	}
	path := u.EscapedPath()
	if path == "" || path == "/" {
		path = wellKnown
	}
	if !isNormal(path) {
		return Place{}, errURL
	}
	place := Place{ID: "https://" + host + path, Host: host}
	place.URL = place.ID
	if u.RawQuery != "" || u.ForceQuery {
		place.URL += "?" + u.RawQuery
	}
	return place, nil
}

// isHost reports whether s is the name or the address of a host.
func isHost(s string) bool {
	if addr, err := netip.ParseAddr(s); err == nil {
		return addr.Zone() == ""
	}
	for i := range len(s) {
		c := s[i] | 0x20
		if !('a' <= c && c <= 'z' || '0' <= s[i] && s[i] <= '9' || s[i] == '-' || s[i] == '.' || s[i] == '_') {
			return false
		}
	}
	return s != "" && s[0] != '.' && s[len(s)-1] != '.'
}

// isNormal reports whether a path has one spelling (RFC 3986, section 6.2.2): it has no escapes, and
// no segment of it begins with a dot, except the first of a well-known URI.
func isNormal(path string) bool {
	rest := strings.TrimPrefix(path, "/.well-known/")
	return path[0] == '/' && strings.IndexByte(path, '%') < 0 && !strings.Contains("/"+rest, "/.") &&
		!strings.Contains(path, "//")
}

// IsWellKnown reports whether the directory is at the well-known path of its host, so that it speaks
// for the domain.
func (p Place) IsWellKnown() bool { return strings.HasSuffix(p.ID, p.Host+wellKnown) }

// IsPublic reports whether a stranger may name the place: a domain and the port of https, without a
// query.
func (p Place) IsPublic() bool {
	_, err := netip.ParseAddr(p.Host)
	return err != nil && strings.IndexByte(p.Host, ':') < 0 && strings.IndexByte(p.Host, '.') > 0 && p.URL == p.ID
}
