package policy

import (
	"fmt"
	"strings"

	"github.com/weir-go/weir/keyfuncs"
)

// client is the client section: it tells how the address of a client is found.
type client struct {
	kind   *node
	text   string // the source and its arguments, for comparisons
	source keyfuncs.AddrSource
	ipv6   int // prefix length that counts as one client
	ipv6At *node
}

var clientObject = object[client]{"client", []field[client]{
	{"peer", false, func(d *decoder, n *node, c *client) {
		if !d.boolean(n) {
			d.mistake(n, "must be true: remove it if there are proxies in front (got %s)",
				n.Describe())
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
		if n.Kind == mapping && (len(h.proxies) > 0) == h.anyPeer {
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

func readClient(d *decoder, n *node) *client {
	c := &client{ipv6: 64}
	readObject(d, &clientObject, n, c)
	if c.kind == nil && n.Kind == mapping {
		d.mistake(n, "must say how addresses are found: peer: true, trusted-proxies, "+
			"forwarded, proxy-count or single-header")
	}
	return c
}

// is sets the source of c, and reports a second source.
func (c *client) is(d *decoder, n *node, text string, source keyfuncs.AddrSource, err error) {
	if c.kind != nil {
		d.mistake(n, "addresses are found in one way only, and line %d says another: remove one",
			c.kind.Line)
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

// warn warns of addresses that clients choose.
func (c *client) warn(d *decoder) {
	if c != nil && c.ipv6 > 64 {
		d.in("client.ipv6-prefix", func() {
			d.mistake(c.ipv6At, "a client of IPv6 chooses among the addresses of a /64, "+
				"each with a new limit: write 64 or less (got %d)", c.ipv6)
		})
	}
}

// describe returns c as text; "" if the file does not say.
func (c *client) describe() string {
	if c == nil {
		return ""
	}
	if c.ipv6 != 64 {
		return fmt.Sprintf("%s, ipv6-prefix %d", c.text, c.ipv6)
	}
	return c.text
}
