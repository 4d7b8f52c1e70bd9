package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"

	"github.com/weir-go/weir/internal/ground/token"
)

// anyAddress is the default address of requests. It is reserved for documentation (RFC 5737).
const anyAddress = "192.0.2.1"

// madeUp is a request from the command line or from a file of cases.
type madeUp struct {
	Method  string
	Path    string // with the query, if any
	Host    string
	Address string // peer address; "": anyAddress
	Route   string // pattern that the framework routed it by
	Header  http.Header
}

// parseRequest parses "POST /login", "/login", which is a GET, or the same with a URL.
func parseRequest(text string) (*madeUp, error) {
	words := strings.Fields(text)
	if len(words) == 1 {
		words = []string{http.MethodGet, words[0]}
	}
	if len(words) != 2 {
		return nil,
			fmt.Errorf("a request is a method and a path, such as POST /login (got %.80q)", text)
	}
	m := &madeUp{Method: words[0], Path: words[1], Header: make(http.Header)}
	if strings.HasPrefix(m.Method, "/") {
		return nil, fmt.Errorf("the method comes first, as in POST /login (got %.80q)", text)
	}
	if upper := strings.ToUpper(m.Method); upper != m.Method {
		return nil,
			fmt.Errorf("methods have capital letters: write %s (got %.80q)", upper, m.Method)
	}
	if strings.HasPrefix(m.Path, "http://") || strings.HasPrefix(m.Path, "https://") {
		u, err := url.Parse(m.Path)
		if err != nil || u.User != nil {
			return nil, fmt.Errorf("the path must be one such as /login, or a URL without a user")
		}
		m.Host, m.Path = u.Host, u.RequestURI()
	}
	if !strings.HasPrefix(m.Path, "/") {
		return nil, fmt.Errorf("the path must begin with a slash (got %.80q)", m.Path)
	}
	_, err := m.build(context.Background())
	return m, err
}

// build returns the request as a server parses it.
func (m *madeUp) build(ctx context.Context) (*http.Request, error) {
	r, err := http.NewRequestWithContext(ctx, m.Method,
		"http://"+cmp.Or(m.Host, "localhost")+m.Path, http.NoBody)
	if err != nil {
		return nil,
			fmt.Errorf("no server would read this request: %s %.80q, host %.80q", m.Method, m.Path,
				m.Host)
	}
	r.RequestURI, r.Pattern = m.Path, m.Route
	r.URL.Scheme, r.URL.Host = "", ""
	r.Header = m.Header.Clone()
	address, err := parseAddress(m.Address)
	if err != nil {
		return nil, err
	}
	r.RemoteAddr = net.JoinHostPort(address, "1")
	return r, nil
}

// parseAddress parses the address of a peer.
func parseAddress(text string) (string, error) {
	a, err := netip.ParseAddr(cmp.Or(text, anyAddress))
	if err != nil {
		return "",
			fmt.Errorf("must be an IP address such as 203.0.113.7, without a port (got %.80q)",
				text)
	}
	return a.String(), nil
}

// add adds a header field. It treats Host like any other field, unlike net/http.
func (m *madeUp) add(name, value string) {
	if strings.EqualFold(name, "Host") {
		m.Host = value
		return
	}
	m.Header.Add(name, value)
}

// String returns the request line and the address.
func (m *madeUp) String() string {
	return m.Method + " " + m.Host + m.Path + " from " + cmp.Or(m.Address, anyAddress)
}

var errField = errors.New("a header field is a name, a colon and a value, such as X-Tenant: acme")

// parseField parses a header field. Its error does not contain the text, which may be a secret.
func parseField(text string) (name, value string, err error) {
	name, value, ok := strings.Cut(text, ":")
	value = strings.TrimSpace(value)
	if !ok || !token.Is(name) || strings.ContainsAny(value, "\x00\r\n") {
		return "", "", errField
	}
	return http.CanonicalHeaderKey(name), value, nil
}

// parseFields parses header fields, one per line, and passes them to add. It skips empty lines and
// lines that begin with #.
func parseFields(text []byte, add func(name, value string)) error {
	lines := bufio.NewScanner(strings.NewReader(string(text)))
	lines.Buffer(nil, len(text)+1)
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || line[0] == '#' {
			continue
		}
		name, value, err := parseField(line)
		if err != nil {
			return fmt.Errorf("line %d: %w", n, err)
		}
		add(name, value)
	}
	return lines.Err()
}

// isSecretField reports whether the named header field holds a credential.
func isSecretField(name string) bool {
	switch name {
	case "Authorization", "Cookie", "Proxy-Authorization":
		return true
	}
	return false
}
