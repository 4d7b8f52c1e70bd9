package policy

import (
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/keyfuncs"
	"github.com/weir-go/weir/limits"
)

// override is a different limit for one key.
type override struct {
	at     *node
	values []entry // for: sources and their values
	key    string  // the key that the key function returns for them
	limit  limits.Limit
	until  time.Time // zero: no end
	why    string
}

var overrideObject = object[override]{"override", []field[override]{
	{"for", true, func(d *decoder, n *node, o *override) {
		if n.Kind != mapping || len(n.Entries) == 0 {
			d.mistake(n, "must be a map of keys to values, such as {user: tenant-42}")
			return
		}
		o.values = n.Entries
	}},
	{"limit", true, func(d *decoder, n *node, o *override) {
		o.limit = readLimit(d, n)
		if o.limit.Algorithm().Holds() {
			d.mistake(n, "a concurrency limit cannot be an override: write a rule with a fixed "+
				"limit")
		}
	}},
	{"until", false, func(d *decoder, n *node, o *override) {
		until, err := time.Parse(time.DateOnly, n.Text)
		if n.Kind != scalar || err != nil {
			d.mistake(n, "must be a day such as 2026-12-31, at whose beginning in UTC the "+
				"override ends (got %s)", n.Describe())
			return
		}
		o.until = until
	}},
	{"why", false, func(d *decoder, n *node, o *override) { o.why, _ = d.text(n) }},
}}

func readOverride(d *decoder, n *node) *override {
	o := &override{at: n}
	readObject(d, &overrideObject, n, o)
	return o
}

// findKey computes the key of o, with the same combinators as for requests. k is the key of its
// rule, c the client section.
func (o *override) findKey(d *decoder, k *key, c *client) {
	g := &given{values: make(map[string]string), used: make(map[string]bool), ipv6: 64}
	if c != nil {
		g.ipv6 = c.ipv6
	}
	at := make(map[string]*node)
	for _, e := range o.values {
		if e.Value.Kind != scalar || e.Value.IsNull() || e.Value.Text == "" ||
			e.Value.IsNumberOrBoolean() {
			d.mistake(e.Value, "must be a text: write it in quotes")
			return
		}
		name := strings.Join(strings.Fields(e.Name.Text), " ")
		if source, arg, ok := strings.Cut(name, " "); ok && source != "cookie" {
			name = source + " " + http.CanonicalHeaderKey(arg)
		}
		if at[name] != nil {
			d.mistake(e.Name, "%s is here twice, also in line %d: remove one", quote(name),
				at[name].Line)
			return
		}
		g.values[name], at[name] = e.Value.Text, e.Name
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

// given holds the values of an override, as a request would have them.
type given struct {
	values map[string]string // by the text of their source
	used   map[string]bool
	ipv6   int
	wrong  func(source, text string)
}

// givenSource returns a function that finds the value of a source among the given values.
func givenSource(k *key) func(*given) (string, error) {
	return func(g *given) (string, error) {
		text, ok := g.values[k.text]
		if !ok {
			return "", core.ErrAbsent
		}
		g.used[k.text] = true
		switch {
		case k.is("address"):
			return g.address(text), nil
		case k.is("everybody"):
			g.wrong(k.text, "there is one key for everybody: change the limit of the rule")
		case k.is("header"):
			return k.find()(&http.Request{Header: http.Header{k.arg: {text}}})
		case k.source != nil && k.source.isSecret && !isDigest(text):
			g.wrong(k.text,
				"must be the digest of the credential, never the credential: "+
					`printf %s "$SECRET" | sha256sum | cut -c1-32`)
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

// hasEnded reports whether o no longer applies at now.
func (o *override) hasEnded(now time.Time) bool { return !o.until.IsZero() && !now.Before(o.until) }

// endedText returns the warning that o has ended.
func (o *override) endedText() string {
	return "the override ended at the beginning of " + o.until.Format(time.DateOnly) +
		" in UTC: remove it"
}

// describeOverrides returns overrides as text, and their keys apart.
func describeOverrides(overrides []*override) (text, keys string) {
	texts := make([]string, len(overrides))
	var of strings.Builder
	for i, o := range overrides {
		texts[i] = o.limit.String()
		if !o.until.IsZero() {
			texts[i] += " until " + o.until.Format(time.DateOnly)
		}
		if o.why != "" {
			texts[i] += " (" + o.why + ")"
		}
		fmt.Fprintf(&of, "%q", o.key)
	}
	return strings.Join(texts, "; "), of.String()
}

// buildOverrides returns the function that finds the limit of a request: the override of its key,
// else that of base. now returns the time of a request; nil: the system clock.
func buildOverrides[R any](
	all []*override, now func(R) time.Time, base func(R, string) (limits.Limit, error),
) func(R, string) (limits.Limit, error) {
	overrides := make(map[string]*override)
	for _, o := range all {
		if now != nil || !o.hasEnded(time.Now()) {
			overrides[o.key] = o
		}
	}
	if len(overrides) == 0 {
		return base
	}
	if now == nil {
		now = func(R) time.Time { return time.Now() }
	}
	return func(r R, key string) (limits.Limit, error) {
		if o := overrides[key]; o != nil && (o.until.IsZero() || !o.hasEnded(now(r))) {
			return o.limit, nil
		}
		return base(r, key)
	}
}
