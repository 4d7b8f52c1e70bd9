package convert

import (
	"fmt"
	"maps"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"github.com/weir-go/weir/cmd/weir/internal/nginxconf"
)

// variables are the variables of nginx that keys are made of.
type variables struct {
	geos  map[string]*geo
	maps  map[string]*mapping
	lists []*list // of the keys so far
	depth int     // of variables that read others
}

// geo is a block geo: a value for each network.
type geo struct {
	at       Place
	networks []netip.Prefix // with the default as 0.0.0.0/0 and ::/0
	values   []string
	why      string // why a policy cannot have it; "": it can
}

// mapping is a block map: a value for each value of its source.
type mapping struct {
	at       Place
	source   string
	values   map[string]string // without case, as nginx compares
	fallback string
	why      string // why a policy cannot have it; "": it can
}

// read reads a directive if it is geo or map.
func (v *variables) read(d *nginxconf.Directive) {
	switch {
	case d.Text == "geo" && d.Opens && len(d.Args) > 0:
		name := d.Args[len(d.Args)-1].Text
		v.geos[name] = newGeo(d)
	case d.Text == "map" && d.Opens && len(d.Args) == 2:
		v.maps[d.Args[1].Text] = newMapping(d)
	}
}

func newGeo(d *nginxconf.Directive) *geo {
	g := &geo{at: d.Place}
	if len(d.Args) == 2 && d.Args[0].Text != "$remote_addr" {
		g.why = "geo reads " + d.Args[0].Text + ", and lists have addresses of clients"
	}
	everywhere := []netip.Prefix{netip.PrefixFrom(netip.IPv4Unspecified(), 0),
		netip.PrefixFrom(netip.IPv6Unspecified(), 0)}
	for _, network := range everywhere {
		g.set(network, "")
	}
	for _, line := range d.Block {
		switch {
		case line.Text == "volatile":
		case line.Text == "default" && len(line.Args) == 1:
			for _, network := range everywhere {
				g.set(network, line.Args[0].Text)
			}
		case line.Text == "delete" && len(line.Args) == 1:
			if network, ok := readNetwork(line.Args[0].Text); ok {
				g.delete(network)
			}
		case len(line.Args) == 1:
			network, ok := readNetwork(line.Text)
			if ok {
				g.set(network, line.Args[0].Text)
				continue
			}
			fallthrough
		default:
			g.why = fmt.Sprintf("geo has %q in line %d, which lists of addresses have not: write "+
				"networks "+
				"such as 10.0.0.0/8", line.Text, line.Line)
		}
	}
	return g
}

// set gives a network a value.
func (g *geo) set(network netip.Prefix, value string) {
	if i := slices.Index(g.networks, network); i >= 0 {
		g.values[i] = value
		return
	}
	g.networks, g.values = append(g.networks, network), append(g.values, value)
}

func (g *geo) delete(network netip.Prefix) {
	if i := slices.Index(g.networks, network); i >= 0 {
		g.networks, g.values = slices.Delete(g.networks, i, i+1), slices.Delete(g.values, i, i+1)
	}
}

// readNetwork reads an address or a network.
func readNetwork(text string) (netip.Prefix, bool) {
	if network, err := netip.ParsePrefix(text); err == nil {
		return network.Masked(), true
	}
	addr, err := netip.ParseAddr(text)
	if err != nil || addr.Zone() != "" {
		return netip.Prefix{}, false
	}
	return netip.PrefixFrom(addr, addr.BitLen()), true
}

func newMapping(d *nginxconf.Directive) *mapping {
	m := &mapping{at: d.Place, source: d.Args[0].Text, values: make(map[string]string)}
	for _, line := range d.Block {
		switch {
		case line.Text == "volatile" && len(line.Args) == 0:
		case line.Text == "default" && len(line.Args) == 1:
			m.fallback = line.Args[0].Text
		case strings.HasPrefix(line.Text, "~"):
			m.why = fmt.Sprintf("map has a regular expression in line %d, and a policy has none",
				line.Line)
		case len(line.Args) == 1:
			m.values[strings.ToLower(strings.TrimPrefix(line.Text, `\`))] = line.Args[0].Text
		default:
			m.why = fmt.Sprintf("map has %q in line %d, which is not converted", line.Text,
				line.Line)
		}
	}
	return m
}

// of returns the value for a value of the source.
func (m *mapping) of(value string) string {
	if to, ok := m.values[strings.ToLower(value)]; ok {
		return to
	}
	return m.fallback
}

// results returns the values that are not empty.
func (m *mapping) results() []string {
	all := map[string]bool{m.fallback: true}
	for _, value := range m.values {
		all[value] = true
	}
	delete(all, "")
	return slices.Sorted(maps.Keys(all))
}

// key returns what a zone counts by, or why a policy cannot count by it.
func (v *variables) key(text string) (k *key, why string) {
	const deep = 16
	if v.depth++; v.depth > deep {
		return nil, "the variables of the key read each other"
	}
	defer func() { v.depth-- }()
	names, literal := split(text)
	k = &key{}
	var parts []string
	for _, name := range names {
		switch {
		case name == "$binary_remote_addr" || name == "$remote_addr":
			k.address = true
			parts = append(parts, "address")
		case name == "$server_name":
			k.perServer = true
		case len(names) > 1 || literal:
			return nil, fmt.Sprintf("the key has %s among others: a policy joins addresses "+
				"alone", name)
		case v.geos[name] != nil:
			return v.ofGeo(v.geos[name], func(value string) string {
				return strings.ReplaceAll(value, "$", "_") // geo has texts, and no variables
			})
		case v.maps[name] != nil:
			return v.ofMap(v.maps[name])
		case strings.HasPrefix(name, "$http_"):
			header := http.CanonicalHeaderKey(strings.ReplaceAll(strings.TrimPrefix(name,
				"$http_"), "_", "-"))
			parts, k.absent = append(parts, "header "+header), true
		case strings.HasPrefix(name, "$cookie_"):
			parts, k.absent = append(parts, "cookie "+strings.TrimPrefix(name, "$cookie_")), true
		default:
			return nil, fmt.Sprintf("a policy has no key such as %s: name a function of the "+
				"program "+
				"under program, and use its name", name)
		}
	}
	slices.Sort(parts)
	switch parts = slices.Compact(parts); {
	case len(parts) == 1:
		k.text = parts[0]
	case literal || k.perServer:
		k.text = "everybody"
	default:
		return nil, "the key is empty, so nginx counts nothing"
	}
	return k, ""
}

// ofGeo returns the key of a geo, whose values result makes keys of. Networks whose key is empty do
// not count.
func (v *variables) ofGeo(g *geo, result func(string) string) (k *key, why string) {
	if g.why != "" {
		return nil, g.why
	}
	counts := make([]bool, len(g.values))
	counted := ""
	for i, value := range g.values {
		to := result(value)
		counts[i] = to != ""
		if to == "" {
			continue
		}
		if counted != "" && to != counted {
			return nil, fmt.Sprintf("the key is %s for some networks and %s for others: write a "+
				"zone for "+
				"each", counted, to)
		}
		counted = to
	}
	if counted == "" {
		return nil, "the key is empty for every network, so nginx counts nothing"
	}
	if k, why = v.key(counted); why != "" {
		return nil, why
	}
	if k.exempt != "" {
		return nil, "two lists of networks decide about the key: write one"
	}
	exempt := exempt(g.networks, counts)
	if len(exempt) > 0 {
		k.exempt = v.list(exempt, comment(g.at, "geo"))
	}
	return k, ""
}

// list returns the name of a list of networks.
func (v *variables) list(networks []netip.Prefix, from string) string {
	for _, l := range v.lists {
		if slices.Equal(l.networks, networks) {
			return l.name
		}
	}
	name := "unlimited"
	if len(v.lists) > 0 {
		name = fmt.Sprintf("unlimited-%d", len(v.lists)+1)
	}
	v.lists = append(v.lists, &list{name, from, networks})
	return name
}

// ofMap returns the key of a map.
func (v *variables) ofMap(m *mapping) (k *key, why string) {
	if m.why != "" {
		return nil, m.why
	}
	results := m.results()
	switch {
	case v.geos[m.source] != nil:
		return v.ofGeo(v.geos[m.source], m.of)
	case m.source == "$request_method" && len(results) == 1:
		return v.ofMethods(m, results[0])
	case isOptional(m.source) && m.fallback == m.source && len(m.values) == 1 && m.of("") != "":
		return v.ofFirst(m)
	}
	return nil, fmt.Sprintf("map reads %s, by which a policy chooses no key: write rules with "+
		"match, or name "+
		"a function of the program", m.source)
}

// ofMethods returns a key that counts requests of some methods.
func (v *variables) ofMethods(m *mapping, counted string) (k *key, why string) {
	if k, why = v.key(counted); why != "" {
		return nil, why
	}
	for _, method := range slices.Sorted(maps.Keys(m.values)) {
		to := m.values[method]
		if method = strings.ToUpper(method); method == "" || (to == "") == (m.fallback == "") {
			continue
		}
		if m.fallback == "" {
			k.methods = append(k.methods, method)
		} else {
			k.others = append(k.others, method)
		}
	}
	if (m.of("GET") == "") != (m.of("HEAD") == "") {
		return nil, "the key tells GET from HEAD, and GET of a policy includes HEAD: map both alike"
	}
	drop := func(method string) bool { return method == "HEAD" } // GET includes it
	if slices.Contains(k.methods, "GET") {
		k.methods = slices.DeleteFunc(k.methods, drop)
	}
	if slices.Contains(k.others, "GET") {
		k.others = slices.DeleteFunc(k.others, drop)
	}
	return k, ""
}

// ofFirst returns the key of a map that has a header or cookie, or another key for requests without
// it.
func (v *variables) ofFirst(m *mapping) (k *key, why string) {
	first, why := v.key(m.source)
	if why != "" {
		return nil, why
	}
	second, why := v.key(m.of(""))
	switch {
	case why != "":
		return nil, why
	case second.text != "address" || second.exempt != "":
		return nil, "the key of requests without " + m.source + " is no address: write a zone for " +
			"each"
	}
	k = &key{text: fmt.Sprintf("{first: [%s, %s]}", first.text, second.text), address: true,
		perServer: second.perServer}
	return k, ""
}

// isOptional reports whether a variable is a header or a cookie.
func isOptional(name string) bool {
	return strings.HasPrefix(name, "$http_") || strings.HasPrefix(name, "$cookie_")
}

// split returns the variables of a text, and whether it has other characters.
func split(text string) (names []string, literal bool) {
	for text != "" {
		before, rest, ok := strings.Cut(text, "$")
		literal = literal || before != ""
		if !ok {
			break
		}
		name := ""
		if inner, braced := strings.CutPrefix(rest, "{"); braced {
			name, text, _ = strings.Cut(inner, "}")
		} else {
			n := 0
			for n < len(rest) && isVariable(rest[n]) {
				n++
			}
			name, text = rest[:n], rest[n:]
		}
		names = append(names, "$"+name)
	}
	return names, literal
}

func isVariable(c byte) bool {
	return c == '_' || '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}

// exempt returns the networks that do not count, where the innermost network of an address decides.
func exempt(networks []netip.Prefix, counts []bool) (exempt []netip.Prefix) {
	for i, network := range networks {
		if network.Bits() == 0 {
			exempt = appendExempt(exempt, network, counts[i], networks, counts)
		}
	}
	return exempt
}

// appendExempt appends the parts of a network that do not count. counted is what holds for what no
// network within decides.
func appendExempt(
	to []netip.Prefix, network netip.Prefix, counted bool, networks []netip.Prefix, counts []bool,
) []netip.Prefix {
	if i := slices.Index(networks, network); i >= 0 {
		counted = counts[i]
	}
	var within []netip.Prefix
	var withinCounts []bool
	differs := false
	for i, other := range networks {
		if other.Bits() > network.Bits() && network.Contains(other.Addr()) {
			within, withinCounts = append(within, other), append(withinCounts, counts[i])
			differs = differs || counts[i] != counted
		}
	}
	switch {
	case differs:
	case counted:
		return to
	default:
		return append(to, network)
	}
	for _, half := range halves(network) {
		to = appendExempt(to, half, counted, within, withinCounts)
	}
	return to
}

// halves returns the two halves of a network.
func halves(network netip.Prefix) [2]netip.Prefix {
	bits := network.Bits()
	low := netip.PrefixFrom(network.Addr(), bits+1)
	bytes := network.Addr().AsSlice()
	bytes[bits/8] |= 0x80 >> (bits % 8)
	addr, _ := netip.AddrFromSlice(bytes)
	return [2]netip.Prefix{low, netip.PrefixFrom(addr, bits+1)}
}
