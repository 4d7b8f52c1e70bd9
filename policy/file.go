package policy

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/netip"
	"strings"

	"github.com/weir-go/weir/keyfuncs"
)

// fileText is a policy file, read and checked without the functions of the program.
type fileText struct {
	name, digest string
	domain       string
	declared     declared
	client       *client
	paths        string // "go" or "any-server"; "": the default
	lists        []*addressList
	listOf       map[string]*addressList // lists by name
	rules        []*rule
	shed         *shedding // nil: none
}

// declared holds the names that the file expects the program to supply.
type declared struct{ keys, plans, costs wordSet }

// wordSet is a set of words, in the order of the file and by text.
type wordSet struct {
	words []word
	at    map[string]*node
}

// word is a text of the file with its place.
type word struct {
	text string
	at   *node
}

// addressList is a named list of networks.
type addressList struct {
	word
	ranges []string
}

// client tells how the address of a client is found.
type client struct {
	kind   *node
	text   string // the source and its arguments, for comparisons
	source keyfuncs.AddrSource
	ipv6   int // prefix length that counts as one client
	ipv6At *node
}

var fileObject = object[fileText]{"policy", []field[fileText]{
	{"version", true, func(d *decoder, n *node, _ *fileText) {
		if n.kind != scalar || !n.plain || n.text != "1" {
			d.mistake(n, "must be 1, the version of this format (got %s)", n.describe())
		}
	}},
	{"domain", false, func(d *decoder, n *node, f *fileText) {
		text, ok := d.text(n)
		if ok && !isWord(text, 32) {
			d.mistake(n, "must have 1 to 32 letters, digits, - and _ (got %s)", quote(text))
		}
		f.domain = text
	}},
	{"program", false, func(d *decoder, n *node, f *fileText) {
		readObject(d, &programObject, n, &f.declared)
	}},
	{"client", false, func(d *decoder, n *node, f *fileText) {
		f.client = &client{ipv6: 64}
		readObject(d, &clientObject, n, f.client)
		if f.client.kind == nil && n.kind == mapping {
			d.mistake(n, "must say how addresses are found: peer: true, trusted-proxies, "+
				"forwarded, proxy-count or single-header")
		}
	}},
	{"paths", false, func(d *decoder, n *node, f *fileText) {
		f.paths = pathsWords[d.choice(n, pathsWords)]
	}},
	{"lists", false, readLists},
	{"rules", true, func(d *decoder, n *node, f *fileText) {
		d.list(n, func(item *node) { f.rules = append(f.rules, readRule(d, item)) })
	}},
	{"shed", false, func(d *decoder, n *node, f *fileText) {
		f.shed = &shedding{at: n}
		readObject(d, &shedObject, n, f.shed)
		if classes := f.shed.classes; f.shed.maxInFlight == 1 &&
			shareOfLast(classes) < shareOfLast(classes[:min(1, len(classes))]) {
			d.mistake(n, "max-in-flight must be at least 2 with these classes, as the last "+
				"place is for the first of them (got 1)")
		}
	}},
}}

// pathsWords are the values of paths.
var pathsWords = []string{"go", "any-server"}

// readPaths makes the patterns of f match as paths says. If the file says nothing, anyServer
// decides.
func (f *fileText) readPaths(anyServer bool) {
	if f.paths == "any-server" || f.paths == "" && anyServer {
		f.paths = "any-server"
	} else {
		f.paths = "" // what a file means that says nothing
		return
	}
	for _, r := range f.rules {
		foldAll(r.conditionsOf())
	}
	if f.shed != nil {
		foldAll(f.shed.exempt)
		for _, c := range f.shed.classes {
			foldAll(c.match)
		}
	}
}

func foldAll(conditions []condition) {
	for _, c := range conditions {
		if c.pattern != nil {
			c.pattern.fold()
		}
	}
}

var programObject = object[declared]{"program", []field[declared]{
	{"keys", false, func(d *decoder, n *node, p *declared) { p.keys = d.declarations(n) }},
	{"plans", false, func(d *decoder, n *node, p *declared) { p.plans = d.declarations(n) }},
	{"costs", false, func(d *decoder, n *node, p *declared) { p.costs = d.declarations(n) }},
}}

// declarations reads names of functions of the program.
func (d *decoder) declarations(n *node) wordSet {
	set := wordSet{at: make(map[string]*node)}
	d.list(n, func(item *node) {
		text, ok := d.text(item)
		if !ok {
			return
		}
		other := set.at[text]
		switch {
		case other != nil:
			d.mistake(item, "%s is here twice, also in line %d: remove one", quote(text),
				other.line)
		case !isName(text):
			d.mistake(item, "a name must have 1 to 40 letters, digits, - and _, and begin with "+
				"a letter (got %s)", quote(text))
		case isReserved(text):
			d.mistake(item, "%s has a meaning of its own: give the function another name",
				quote(text))
		default:
			set.words, set.at[text] = append(set.words, word{text, item}), item
		}
	})
	return set
}

// isWord reports whether s consists of 1 to most letters, digits, - and _.
func isWord(s string, most int) bool {
	return len(s) <= most && isToken(s) && !strings.ContainsAny(s, "!#$%&'*+.^`|~")
}

// isName reports whether s is a valid name for a function of the program.
func isName(s string) bool {
	return isWord(s, 40) && ('a' <= s[0]|0x20 && s[0]|0x20 <= 'z')
}

var clientObject = object[client]{"client", []field[client]{
	{"peer", false, func(d *decoder, n *node, c *client) {
		if !d.boolean(n) {
			d.mistake(n, "must be true: remove it if there are proxies in front (got %s)",
				n.describe())
		}
		c.is(d, n, "peer", keyfuncs.Peer, nil)
	}},
	{"trusted-proxies", false, func(d *decoder, n *node, c *client) {
		texts := d.texts(n)
		source, err := keyfuncs.TrustedProxies(texts...)
		c.is(d, n, "trusted-proxies "+strings.Join(texts, " "), source, err)
	}},
	{"forwarded", false, func(d *decoder, n *node, c *client) {
		texts := d.texts(n)
		source, err := keyfuncs.Forwarded(texts...)
		c.is(d, n, "forwarded "+strings.Join(texts, " "), source, err)
	}},
	{"proxy-count", false, func(d *decoder, n *node, c *client) {
		count := d.number(n, 1, 64)
		source, err := keyfuncs.ProxyCount(int(count))
		c.is(d, n, fmt.Sprintf("proxy-count %d", count), source, err)
	}},
	{"single-header", false, func(d *decoder, n *node, c *client) {
		var h singleHeader
		readObject(d, &singleHeaderObject, n, &h)
		if h.name != "" && (len(h.proxies) > 0) != h.anyPeer {
			source, err := keyfuncs.SingleHeader(h.name, h.proxies...)
			c.is(d, n, "single-header "+h.name+" "+strings.Join(h.proxies, " "), source, err)
			return
		}
		c.is(d, n, "", nil, nil)
		if n.kind == mapping && (len(h.proxies) > 0) == h.anyPeer {
			d.mistake(n, "needs either trusted-proxies, or any-peer: true if only the proxy can "+
				"connect")
		}
	}},
	{"ipv6-prefix", false, func(d *decoder, n *node, c *client) {
		c.ipv6, c.ipv6At = int(d.number(n, 32, 128)), n
	}},
}}

type singleHeader struct {
	name    string
	proxies []string
	anyPeer bool
}

var singleHeaderObject = object[singleHeader]{"singleHeader", []field[singleHeader]{
	{"name", true, func(d *decoder, n *node, h *singleHeader) { h.name, _ = d.text(n) }},
	{"trusted-proxies", false, func(d *decoder, n *node, h *singleHeader) {
		h.proxies = d.texts(n)
	}},
	{"any-peer", false, func(d *decoder, n *node, h *singleHeader) { h.anyPeer = d.boolean(n) }},
}}

// texts reads one text or a list of texts.
func (d *decoder) texts(n *node) (texts []string) {
	d.each(n, func(item *node) {
		if text, ok := d.text(item); ok {
			texts = append(texts, text)
		}
	})
	return texts
}

// is sets the source of c, and reports a second source.
func (c *client) is(d *decoder, n *node, text string, source keyfuncs.AddrSource, err error) {
	if c.kind != nil {
		d.mistake(n, "addresses are found in one way only, and line %d says another: remove one",
			c.kind.line)
		return
	}
	c.kind, c.text, c.source = n, text, source
	if err != nil {
		for line := range strings.Lines(err.Error()) {
			d.mistake(n, "%s", withoutPrefix(line, "keyfuncs: "))
		}
	}
}

// withoutPrefix returns a line of an error of another package of weir without the names of package
// and constructor.
func withoutPrefix(line, prefix string) string {
	line = strings.TrimPrefix(strings.TrimSpace(line), prefix)
	if constructor, after, ok := strings.Cut(line, ": "); ok && isWord(constructor, 40) {
		return after
	}
	return line
}

func readLists(d *decoder, n *node, f *fileText) {
	if n.kind != mapping {
		d.mistake(n, "must be a map of names to lists of addresses (got %s)", n.describe())
		return
	}
	f.listOf = make(map[string]*addressList)
	for _, e := range n.entries {
		l := &addressList{word: word{e.name.text, e.name}}
		if e.name.kind != scalar || !isWord(l.text, 40) || e.name.isNull() ||
			e.name.isNumberOrBoolean() {
			d.mistake(e.name, "the name of a list must have 1 to 40 letters, digits, - and _, "+
				"in quotes if it is a number (got %s)", e.name.describe())
			continue
		}
		if other := f.listOf[l.text]; other != nil {
			d.mistake(e.name, "list %s is here twice, also in line %d: remove one", quote(l.text),
				other.at.line)
			continue
		}
		f.lists, f.listOf[l.text] = append(f.lists, l), l
		d.in(l.text, func() { d.ranges(e.value, l) })
	}
}

// ranges reads the addresses of a list.
func (d *decoder) ranges(n *node, l *addressList) {
	if n.isNull() {
		d.mistake(n, "has no value: write a list of addresses or remove it")
		return
	}
	d.each(n, func(item *node) {
		text, ok := d.text(item)
		if !ok {
			return
		}
		if _, err := netip.ParseAddr(text); err == nil && !strings.Contains(text, "%") {
			l.ranges = append(l.ranges, text)
			return
		}
		if _, err := keyfuncs.Inside(keyfuncs.Peer, []string{text},
			keyfuncs.Constant[*http.Request]("")); err != nil {
			d.mistake(item, "%s", withoutPrefix(err.Error(), "keyfuncs: "))
			return
		}
		l.ranges = append(l.ranges, text)
	})
}

// readFile reads and checks a file.
func readFile(name string, text []byte) (*fileText, error) {
	f := &fileText{name: name, digest: digest(text)}
	root, mistakes := parseYAML(name, text)
	d := &decoder{file: name, mistakes: mistakes}
	if root != nil {
		readObject(d, &fileObject, root, f)
		f.check(d)
	}
	return f, collect(d.mistakes)
}

// digest returns the SHA-256 of a file in hexadecimal.
func digest(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}
