package policy

import (
	"net/http"
	"net/netip"
	"strings"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/keyfuncs"
)

// given holds the values of an override, as a request would have them.
type given struct {
	values map[string]string // by the text of their source
	used   map[string]bool
	ipv6   int
	wrong  func(source, text string)
}

// overrideKey computes the key of an override, with the same combinators as for requests.
func (d *decoder) overrideKey(k *key, o *override, c *client) {
	g := &given{values: make(map[string]string), used: make(map[string]bool), ipv6: 64}
	if c != nil {
		g.ipv6 = c.ipv6
	}
	at := make(map[string]*node)
	for _, e := range o.values {
		if e.value.kind != scalar || e.value.isNull() || e.value.text == "" ||
			e.value.isNumberOrBoolean() {
			d.mistake(e.value, "must be a text: write it in quotes")
			return
		}
		name := strings.Join(strings.Fields(e.name.text), " ")
		if source, arg, ok := strings.Cut(name, " "); ok && source != "cookie" {
			name = source + " " + http.CanonicalHeaderKey(arg)
		}
		if at[name] != nil {
			d.mistake(e.name, "%s is here twice, also in line %d: remove one", quote(name),
				at[name].line)
			return
		}
		g.values[name], at[name] = e.value.text, e.name
	}
	failed := false
	g.wrong = func(source, text string) {
		failed = true
		d.mistake(at[source], "%s", text)
	}
	find := buildKey(k, givenSource)
	if find == nil {
		return // two keys of one name: reported elsewhere
	}
	text, err := find(g)
	if failed {
		return
	}
	if err != nil || text == "" {
		d.mistake(o.at, "must name the keys that the rule counts by: %s", k.text)
		return
	}
	for name, n := range at {
		if !g.used[name] {
			d.mistake(n, "%s is not used: the rule counts by %s", quote(name), k.text)
			return
		}
	}
	o.key = text
}

// givenSource returns a function that finds the value of a source among the given values.
func givenSource(k *key) func(*given) (string, error) {
	return func(g *given) (string, error) {
		text, ok := g.values[k.text]
		if !ok {
			return "", core.ErrAbsent
		}
		g.used[k.text] = true
		switch k.source {
		case "address":
			return g.address(text), nil
		case "everybody":
			g.wrong(k.text, "there is one key for everybody: change the limit of the rule")
		case "header":
			return requestKey(k)(&http.Request{Header: http.Header{k.arg: {text}}})
		case "cookie", "api-key", "bearer":
			if !isDigest(text) {
				g.wrong(k.text,
					"must be the digest of the credential, never the credential: "+
						`printf %s "$SECRET" | sha256sum | cut -c1-32`)
			}
		}
		return text, nil
	}
}

// address returns the key of an address, or of the network that counts as one client.
func (g *given) address(text string) string {
	addr, err := netip.ParseAddr(text)
	if prefix, prefixErr := netip.ParsePrefix(text); err != nil && prefixErr == nil &&
		prefix.Addr().Is6() && prefix.Bits() == g.ipv6 {
		addr, err = prefix.Addr(), nil
	}
	if err == nil {
		addr = addr.Unmap().WithZone("")
		counted, _ := keyfuncs.AddressPrefix(func(*given) (netip.Addr, error) { return addr, nil },
			g.ipv6)
		if key, err := counted(g); err == nil {
			return key
		}
	}
	g.wrong("address", "must be one address, since a network has many keys: for networks write "+
		"a list, and a rule with except")
	return ""
}

// isDigest reports whether s has the form of a [keyfuncs.Digest].
func isDigest(s string) bool {
	for i := range len(s) {
		if hexDigit(s[i]) > 15 || 'A' <= s[i] && s[i] <= 'F' {
			return false
		}
	}
	return len(s) == 32
}
