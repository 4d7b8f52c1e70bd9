package directory

import (
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// mediaType is the type of a directory at the well-known path.
const mediaType = "application/http-message-signatures-directory+json"

// maxBody is the most bytes of a directory.
const maxBody = 64 << 10

// answer is what a directory has answered.
type answer struct {
	keys       Keys
	age        time.Duration // how long the keys are fresh
	retryAfter time.Duration // if there are none
}

// load asks the directory at a place.
func load(ctx context.Context, client *http.Client, place Place) (answer, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, place.URL, nil)
	if err != nil {
		return answer{}, err
	}
	r.Header.Set("Accept", mediaType+", application/jwk-set+json, application/json")
	r.Header.Set("User-Agent", "weir (a verifier of Web Bot Auth)")
	w, err := client.Do(r)
	if err != nil {
		return answer{}, err
	}
	defer w.Body.Close()
	if w.StatusCode != http.StatusOK {
		return answer{retryAfter: waitOf(w.Header)}, fmt.Errorf("status %d: only 200 has keys, and redirects are not "+
			"followed", w.StatusCode)
	}
	if err := checkType(place, w.Header.Get("Content-Type")); err != nil {
		return answer{}, err
	}
	text, err := io.ReadAll(io.LimitReader(w.Body, maxBody+1))
	if err != nil {
		return answer{}, err
	}
	if len(text) > maxBody {
		return answer{}, fmt.Errorf("more than %d bytes", maxBody)
	}
	keys, _, err := Parse(text)
	return answer{keys: keys, age: ageOf(w.Header)}, err
}

// checkType checks the type of what is at the place.
func checkType(place Place, contentType string) error {
	media, _, _ := mime.ParseMediaType(contentType)
	switch {
	case media == mediaType:
		return nil
	case place.IsWellKnown():
		return fmt.Errorf("at the well-known path its Content-Type must be %s (got %.80q)", mediaType, contentType)
	case media == "application/jwk-set+json" || media == "application/json":
		return nil
	}
	return fmt.Errorf("its Content-Type must be application/jwk-set+json or %s (got %.80q)", mediaType, contentType)
}

// ageOf returns how long an answer is fresh (RFC 9111, section 4.2), within bounds.
func ageOf(h http.Header) time.Duration {
	age := time.Duration(-1)
	for directive := range strings.SplitSeq(strings.Join(h["Cache-Control"], ","), ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(directive), "=")
		switch strings.ToLower(name) {
		case "no-store", "no-cache":
			return minAge
		case "max-age":
			if age = seconds(strings.Trim(value, `"`)); age < 0 {
				age = 0
			}
		}
	}
	if age < 0 {
		expires, err := http.ParseTime(h.Get("Expires"))
		if err != nil {
			return defaultAge
		}
		date, err := http.ParseTime(h.Get("Date"))
		if err != nil {
			date = time.Now()
		}
		age = expires.Sub(date)
	}
	age -= max(seconds(h.Get("Age")), 0)
	return max(minAge, min(age, maxAge))
}

// waitOf returns the wait of Retry-After, or 0.
func waitOf(h http.Header) time.Duration {
	text := h.Get("Retry-After")
	if at, err := http.ParseTime(text); err == nil {
		return max(time.Until(at), 0)
	}
	return max(seconds(text), 0)
}

// seconds reads a number of seconds. It returns -1 for another text.
func seconds(text string) time.Duration {
	const most = 366 * 24 * 60 * 60
	n, err := strconv.ParseUint(text, 10, 64)
	if errors.Is(err, strconv.ErrRange) {
		n, err = most, nil
	}
	if err != nil {
		return -1
	}
	return time.Duration(min(n, most)) * time.Second
}

// NewTransport returns a transport that connects to public addresses alone, and to no proxy.
func NewTransport() *http.Transport {
	dialer := &net.Dialer{
		Timeout: timeout,
		// After the name is resolved, so that no answer of the DNS leads elsewhere.
		Control: func(_, address string, _ syscall.RawConn) error {
			at, err := netip.ParseAddrPort(address)
			if err != nil || !isPublic(at.Addr()) {
				return errPrivateAddress
			}
			return nil
		},
	}
	return &http.Transport{
		DialContext:            dialer.DialContext,
		DisableKeepAlives:      true, // one request an hour
		DisableCompression:     true,
		ForceAttemptHTTP2:      true,
		TLSHandshakeTimeout:    timeout,
		MaxResponseHeaderBytes: 16 << 10,
	}
}

var errPrivateAddress = errors.New("the directory's host has a private address: " +
	"set Transport in the Config to fetch from it")

// reserved are networks that no public host is in, besides those that netip knows (RFC 6890, and
// the registries of special-purpose addresses of IANA).
var reserved = prefixes("0.0.0.0/8", "100.64.0.0/10", "192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24",
	"198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "240.0.0.0/4",
	"2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20")

var (
	globalIPv6 = netip.MustParsePrefix("2000::/3")
	nat64      = netip.MustParsePrefix("64:ff9b::/96") // an IPv4 address in its last 32 bits (RFC 6052)
)

func prefixes(texts ...string) (all []netip.Prefix) {
	for _, text := range texts {
		all = append(all, netip.MustParsePrefix(text))
	}
	return all
}

// isPublic reports whether an address may be that of a public host.
func isPublic(addr netip.Addr) bool {
	addr = addr.Unmap()
	if nat64.Contains(addr) {
		b := addr.As16()
		addr = netip.AddrFrom4([4]byte(b[12:]))
	}
	if addr.Zone() != "" || !addr.IsGlobalUnicast() || addr.IsPrivate() || addr.Is6() && !globalIPv6.Contains(addr) {
		return false
	}
	return !slices.ContainsFunc(reserved, func(p netip.Prefix) bool { return p.Contains(addr) })
}
