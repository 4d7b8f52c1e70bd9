package convert

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/weir-go/weir/cmd/weir/internal/nginxconf"
)

// Nginx converts a configuration of nginx. A text without a block http is a part of one.
func Nginx(name string, text []byte, files nginxconf.Files) *Result {
	p := &proxy{title: name}
	directives, mistakes := files.Parse(name, text)
	for _, m := range mistakes {
		p.mistake(m.Place, "%s", m.Text)
	}
	r := &nginxReader{proxy: p, zones: make(map[string]*zone),
		vars: &variables{geos: make(map[string]*geo), maps: make(map[string]*mapping)}}
	whole := slices.ContainsFunc(directives, func(d *nginxconf.Directive) bool {
		return d.Text == "http"
	})
	if !whole {
		r.http(directives)
	}
	for _, d := range directives {
		switch {
		case d.Text == "http" && d.Opens:
			r.http(d.Block)
		case d.Text == "stream" || d.Text == "mail":
			r.foreign(d)
		}
	}
	return finish(p, r.vars.lists)
}

// nginxReader reads directives.
type nginxReader struct {
	*proxy
	vars  *variables
	zones map[string]*zone
	realA Place // of the first server whose address of clients is known
	real  *realIP
}

// scope is what a block inherits.
type scope struct {
	requests, connections   []*use
	dryRequests, dryConns   bool
	requestCode, connCode   int
	from                    []string // set_real_ip_from
	fromAt                  Place
	header                  string // real_ip_header
	index                   []string
	recursive, ownRequests  bool
	ownConnections, answers bool // answers: return ends each request before it is counted
}

// realIP is how the address of a client is found.
type realIP struct{ text, why string }

// foreign reports limits outside of http.
func (r *nginxReader) foreign(d *nginxconf.Directive) {
	if strings.HasPrefix(d.Text, "limit_") {
		r.mistake(d.Place, "limits connections of other protocols, and weir counts requests of "+
			"HTTP")
	}
	for _, inner := range d.Block {
		r.foreign(inner)
	}
}

func (r *nginxReader) http(block []*nginxconf.Directive) {
	for _, d := range block {
		r.vars.read(d)
	}
	for _, d := range block {
		if d.Text == "limit_req_zone" || d.Text == "limit_conn_zone" {
			r.zone(d)
		}
	}
	outer := r.scope(scope{requestCode: 503, connCode: 503, header: "X-Real-IP",
		index: []string{"index.html"}}, block)
	var blocks []*nginxconf.Directive
	for _, d := range block {
		if d.Text == "server" && d.Opens {
			blocks = append(blocks, d)
		}
	}
	defaults := defaultServers(blocks)
	for i, d := range blocks {
		r.server(d, outer, defaults[i])
	}
}

// written returns a directive as text.
func written(d *nginxconf.Directive) string {
	text := d.Text
	for _, arg := range d.Args {
		text += " " + arg.Text
	}
	return text
}

// zone reads limit_req_zone or limit_conn_zone.
func (r *nginxReader) zone(d *nginxconf.Directive) {
	z := &zone{at: d.Place, text: written(d), connections: d.Text == "limit_conn_zone", rate: 1000}
	if len(d.Args) == 0 {
		r.mistake(d.Place, "needs a key and a zone, as in %s $binary_remote_addr zone=one:10m",
			d.Text)
		return
	}
	for _, arg := range d.Args[1:] {
		name, value, _ := strings.Cut(arg.Text, "=")
		switch {
		case name == "zone":
			z.name, _, _ = strings.Cut(value, ":")
		case name == "rate" && !z.connections:
			rate, ok := readRate(value)
			if !ok {
				r.mistake(arg.Place, "must be a rate such as 10r/s or 30r/m (got %.40q)", value)
				return
			}
			z.rate = rate
		case name == "sync": // of nginx Plus: all of a cluster count together, as over Redis
		default:
			r.mistake(arg.Place, "there is no parameter %.40q of %s", arg.Text, d.Text)
			return
		}
	}
	if z.name == "" || r.zones[z.name] != nil {
		r.mistake(d.Place, "needs the name of a zone that no other has, as in zone=one:10m")
		return
	}
	k, why := r.vars.key(d.Args[0].Text)
	if why != "" {
		r.mistake(d.Args[0].Place, "%s", why)
	}
	z.key = k
	r.zones[z.name] = z
	r.proxy.zones = append(r.proxy.zones, z)
}

// readRate reads a rate as thousandths of a request a second, rounded down as nginx does.
func readRate(text string) (rate int64, ok bool) {
	scale := int64(1)
	if units, ok := strings.CutSuffix(text, "r/m"); ok {
		text, scale = units, 60
	} else {
		text = strings.TrimSuffix(text, "r/s")
	}
	const most = 1_000_000_000
	n, ok := readNumber(text)
	return n * 1000 / scale, ok && n > 0 && n <= most
}

// readNumber reads a number as nginx does: of digits alone.
func readNumber(text string) (n int64, ok bool) {
	if strings.ContainsFunc(text, func(c rune) bool { return c < '0' || c > '9' }) {
		return 0, false
	}
	n, err := strconv.ParseInt(text, 10, 64)
	return n, err == nil
}

// scope returns what holds in a block within outer.
func (r *nginxReader) scope(outer scope, block []*nginxconf.Directive) scope {
	s := outer
	s.ownRequests, s.ownConnections, s.answers = false, false, false
	ownFrom, ownIndex := false, false
	for _, d := range block {
		arg := ""
		if len(d.Args) > 0 {
			arg = d.Args[0].Text
		}
		switch d.Text {
		case "limit_req":
			if !s.ownRequests {
				s.requests, s.ownRequests = nil, true
			}
			s.requests = r.use(s.requests, d, r.limitReq)
		case "limit_conn":
			if !s.ownConnections {
				s.connections, s.ownConnections = nil, true
			}
			s.connections = r.use(s.connections, d, r.limitConn)
		case "limit_req_dry_run":
			s.dryRequests = arg == "on"
		case "limit_conn_dry_run":
			s.dryConns = arg == "on"
		case "limit_req_status":
			s.requestCode = r.status(d)
		case "limit_conn_status":
			s.connCode = r.status(d)
		case "limit_rate":
			if arg != "0" {
				r.mistake(d.Place, slows)
			}
		case "set_real_ip_from":
			if !ownFrom {
				s.from, s.fromAt, ownFrom = nil, d.Place, true
			}
			s.from = append(s.from, strings.TrimSuffix(arg, ":"))
		case "real_ip_header":
			s.header = arg
		case "real_ip_recursive":
			s.recursive = arg == "on"
		case "index":
			if !ownIndex {
				s.index, ownIndex = nil, true
			}
			for _, name := range d.Args {
				s.index = append(s.index, name.Text)
			}
		case "return":
			s.answers = true
		}
	}
	return s
}

func (r *nginxReader) status(d *nginxconf.Directive) int {
	if len(d.Args) == 1 {
		if n, ok := readNumber(d.Args[0].Text); ok && n >= 400 && n <= 599 {
			return int(n)
		}
	}
	r.mistake(d.Place, "must be a status from 400 to 599, as in %s 429", d.Text)
	return http.StatusServiceUnavailable
}

// use appends the use of a zone.
func (r *nginxReader) use(
	before []*use, d *nginxconf.Directive, read func(*use, *nginxconf.Directive) (name string,
		ok bool),
) []*use {
	u := &use{at: d.Place, text: written(d)}
	name, ok := read(u, d)
	if !ok {
		return before
	}
	u.zone = r.zones[name]
	switch {
	case u.zone == nil:
		r.mistake(d.Place, "there is no zone %.40q: write %s_zone, or add the file that has it",
			name, d.Text)
		return before
	case u.zone.connections != (d.Text == "limit_conn"):
		r.mistake(d.Place, "the zone %.40q is of another kind, in line %d", name, u.zone.at.Line)
		return before
	case slices.ContainsFunc(before, func(other *use) bool { return other.zone == u.zone }):
		r.mistake(d.Place, "the zone %.40q is here twice: remove one", name)
		return before
	}
	return append(before, u)
}

func (r *nginxReader) limitReq(u *use, d *nginxconf.Directive) (zone string, ok bool) {
	for _, arg := range d.Args {
		name, value, _ := strings.Cut(arg.Text, "=")
		n, isNumber := readNumber(value)
		switch {
		case name == "zone":
			zone = value
		case arg.Text == "nodelay":
			u.delay = always
		case name == "burst" && isNumber && n > 0:
			u.burst = n
		case name == "delay" && isNumber && n > 0:
			u.delay = n
		default:
			r.mistake(arg.Place, "must be zone=, burst= or delay= with a number above 0, or "+
				"nodelay "+
				"(got %.40q)", arg.Text)
			return "", false
		}
	}
	return zone, true
}

func (r *nginxReader) limitConn(u *use, d *nginxconf.Directive) (zone string, ok bool) {
	if len(d.Args) == 2 {
		if u.most, ok = readNumber(d.Args[1].Text); ok && u.most > 0 {
			return d.Args[0].Text, true
		}
	}
	r.mistake(d.Place, "must have a zone and a number above 0, as in limit_conn one 10")
	return "", false
}

// uses returns what counts where s holds.
func (r *nginxReader) uses(s *scope) (all []*use) {
	if s.answers {
		return nil
	}
	add := func(uses []*use, dry bool, status int) {
		for _, u := range uses {
			copied := *u
			copied.dry = dry
			all = append(all, &copied)
			if !dry {
				r.denies(status, u.at)
			}
		}
	}
	add(s.requests, s.dryRequests, s.requestCode)
	add(s.connections, s.dryConns, s.connCode)
	return all
}

// defaultServers returns which servers serve unknown hosts: of each port the one that says so, or
// the first.
func defaultServers(blocks []*nginxconf.Directive) []bool {
	is := make([]bool, len(blocks))
	byPort, said := make(map[string]int), make(map[string]bool)
	for i, d := range blocks {
		for _, l := range listensOf(d) {
			if _, has := byPort[l.at]; !has || l.byDefault && !said[l.at] {
				byPort[l.at], said[l.at] = i, l.byDefault
			}
		}
	}
	for _, i := range byPort {
		is[i] = true
	}
	return is
}

// listen is an address and a port at which a server listens.
type listen struct {
	at        string // a port alone is one of every address
	byDefault bool
}

// listensOf returns where a server listens.
func listensOf(d *nginxconf.Directive) (all []listen) {
	for _, line := range d.Block {
		if line.Text != "listen" || len(line.Args) == 0 {
			continue
		}
		at := strings.TrimPrefix(strings.TrimPrefix(line.Args[0].Text, "*:"), "0.0.0.0:")
		if _, isPort := readNumber(at); !isPort && !strings.Contains(at[strings.LastIndexByte(at, ']')+1:], ":") {
			at += ":80"
		}
		all = append(all, listen{at, slices.ContainsFunc(line.Args, func(w nginxconf.Word) bool {
			return w.Text == "default_server" || w.Text == "default"
		})})
	}
	if all == nil {
		all = []listen{{at: "80"}}
	}
	return all
}

// server reads a server.
func (r *nginxReader) server(d *nginxconf.Directive, outer scope, byDefault bool) {
	inner := r.scope(outer, d.Block)
	if inner.answers {
		return // return answers every request before it is counted
	}
	s := &server{at: d.Place, listens: listensOf(d), byDefault: byDefault}
	for _, line := range d.Block {
		if line.Text != "server_name" {
			continue
		}
		for _, name := range line.Args {
			switch host := strings.ToLower(name.Text); {
			case strings.ContainsAny(host, "~*$") || strings.HasPrefix(host, "."):
				s.strange = host
			case slices.Contains(s.hosts, host):
			case strings.Contains(host, ".") || isHostName(host):
				s.hosts = append(s.hosts, host)
			}
		}
	}
	if len(s.hosts) == 0 && s.strange == "" && !byDefault {
		s.strange = `""`
	}
	b := &locationReader{nginxReader: r, server: s}
	b.locations(d.Block, inner)
	if !slices.ContainsFunc(s.locations, func(l *location) bool {
		return l.path == "/" &&
			!l.exact
	}) {
		l := &location{at: d.Place, path: "/", uses: r.uses(&inner), index: inner.index}
		s.locations = append(s.locations, l)
	}
	b.checkRegexps()
	b.checkRewrites(d)
	b.checkMoves(d, inner)
	if s.limited() {
		r.limited(s, inner)
		b.checkAnswers(d)
	}
	r.servers = append(r.servers, s)
}

func isHostName(host string) bool {
	return host != "" && !strings.ContainsFunc(host, func(c rune) bool {
		return c != '-' && (c < 'a' || c > 'z') && (c < '0' || c > '9')
	})
}

// limited notes what holds for a server with limits.
func (r *nginxReader) limited(s *server, inner scope) {
	r.warnOf(s)
	address := slices.ContainsFunc(s.locations, func(l *location) bool {
		return slices.ContainsFunc(l.uses, func(u *use) bool {
			return u.zone.key != nil && (u.zone.key.address || u.zone.key.exempt != "")
		})
	})
	if !address {
		return
	}
	real := inner.realIP()
	switch {
	case r.real == nil:
		r.real, r.realA = &real, s.at
		r.client, r.clientAt = real.text, inner.fromAt
		if real.why != "" {
			r.warn(s.at, "%s", real.why)
		}
		if len(inner.from) > 0 {
			r.clientOf = "As nginx finds clients. If nginx stays and asks weir, it has found " +
				"them: write peer: true."
		}
	case *r.real != real:
		r.mistake(s.at, "finds the address of clients in another way than the server in line %d, "+
			"and a policy "+
			"has one: give each a policy of its own", r.realA.Line)
	}
}

// realIP returns the client section that finds addresses as s does.
func (s *scope) realIP() realIP {
	const peer = "peer: true"
	if len(s.from) == 0 || s.header == "proxy_protocol" {
		return realIP{text: peer}
	}
	proxies := flow(s.from)
	if strings.EqualFold(s.header, "X-Forwarded-For") {
		found := realIP{text: fmt.Sprintf("trusted-proxies: %s", proxies)}
		if !s.recursive {
			found.why = "without real_ip_recursive nginx takes the last address of " +
				"X-Forwarded-For, even that of a proxy; weir takes the last one that is no proxy's"
		}
		return found
	}
	return realIP{
		text: fmt.Sprintf("single-header: {name: %s, trusted-proxies: %s}",
			quote(s.header), proxies),
		why: "of a request that a proxy sends without " + s.header + " nginx counts the proxy, " +
			"and weir answers it with 503",
	}
}
