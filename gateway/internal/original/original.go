// Package original makes the request that a proxy asks about, out of what the proxy says.
package original

import (
	"context"
	"errors"
	"net/http"
	"net/netip"
	"net/url"
	"strings"

	"github.com/weir-go/weir/internal/ground/token"
)

// Request is what a proxy says about a request.
type Request struct {
	Method  string
	Host    string
	Target  string // path and query
	Address netip.Addr
	Header  http.Header // the new request keeps it
}

// Why a request cannot be made. The texts have no part of the request.
var (
	ErrMethod = errors.New("the method is missing, or is no method")
	ErrHost   = errors.New("the host is missing, or is no host")
	ErrTarget = errors.New("the path is missing, or is no path")
)

// HTTP returns the request as a server in place of the proxy would have read it, without
// a body.
func (r *Request) HTTP(ctx context.Context) (*http.Request, error) {
	if !token.Is(r.Method) || len(r.Method) > 64 {
		return nil, ErrMethod
	}
	if !isHost(r.Host) {
		return nil, ErrHost
	}
	u, err := parseTarget(r.Target)
	if err != nil {
		return nil, err
	}
	made := &http.Request{
		Method: r.Method, Host: r.Host, URL: u, RequestURI: r.Target, Header: r.Header, Body: http.NoBody,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		RemoteAddr: netip.AddrPortFrom(r.Address, 0).String(),
	}
	if ctx.Value(http.LocalAddrContextKey) != nil { // the address that the check came to
		ctx = context.WithValue(ctx, http.LocalAddrContextKey, nil)
	}
	return made.WithContext(ctx), nil
}

// parseTarget reads a request target in origin form, or "*" (RFC 9112, section 3.2).
func parseTarget(target string) (*url.URL, error) {
	if target == "*" {
		return &url.URL{Path: "*"}, nil
	}
	if !strings.HasPrefix(target, "/") || strings.ContainsFunc(target, isOutside) {
		return nil, ErrTarget
	}
	// as net/http reads it: a target that begins with // is all path
	u, err := url.ParseRequestURI(escapeStrays(target))
	if err != nil || u.Host != "" || u.Scheme != "" {
		return nil, ErrTarget
	}
	return u, nil
}

// escapeStrays returns target with each percent sign of its path that escapes nothing as %25.
// net/http refuses such a target, but Envoy and HAProxy pass it on, and many programs take the sign
// for itself.
func escapeStrays(target string) string {
	if !strings.Contains(target, "%") {
		return target
	}
	path, query, hasQuery := strings.Cut(target, "?")
	var b strings.Builder
	for {
		before, after, found := strings.Cut(path, "%")
		b.WriteString(before)
		if !found {
			break
		}
		b.WriteByte('%')
		if len(after) < 2 || !isHex(after[0]) || !isHex(after[1]) {
			b.WriteString("25")
		}
		path = after
	}
	if hasQuery {
		b.WriteString("?" + query)
	}
	return b.String()
}

func isHex(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F'
}

// isOutside reports whether a character has no place in a target: a blank, a control
// character, or the fragment's mark, which browsers do not send.
func isOutside(c rune) bool { return c <= ' ' || c == 0x7f || c == '#' }

// isHost reports whether s may be a host with or without a port. What else it is, patterns
// compare.
func isHost(s string) bool {
	return s != "" && len(s) <= 261 && !strings.ContainsFunc(s, func(c rune) bool {
		return c <= ' ' || c >= 0x7f || strings.ContainsRune(`"(),/;<=>?@\{}#`, c)
	})
}
