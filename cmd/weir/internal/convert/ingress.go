package convert

import (
	"bytes"
	"cmp"
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/weir-go/weir/internal/files/document"
)

// Input is a file with objects of Kubernetes.
type Input struct {
	Name string
	Text []byte
}

// Ingress converts the Ingresses of files, as ingress-nginx v1.15 writes them into its nginx.conf.
// A ConfigMap of the controller may be among them.
func Ingress(files ...Input) *Result {
	names := make([]string, len(files))
	for i, file := range files {
		names[i] = file.Name
	}
	r := &ingressReader{
		proxy: &proxy{title: strings.Join(names, ", "), note: "Each replica of ingress-nginx " +
			"counts for itself, and all processes of weir count together over Redis. To admit as " +
			"many, multiply by the replicas."},
		vars: &variables{}, hosts: make(map[string]*ingressHost),
		scope: scope{requestCode: 503, connCode: 503, header: "X-Forwarded-For", recursive: true},
	}
	for _, file := range files {
		r.read(file)
	}
	if r.realIP {
		r.scope.from = strings.Split(strings.ReplaceAll(cmp.Or(r.from, "0.0.0.0/0"), " ", ""), ",")
	}
	slices.SortStableFunc(r.ingresses, func(a, b *ingress) int {
		return strings.Compare(a.created, b.created)
	})
	r.host("") // it is there without an Ingress, too
	for _, one := range r.ingresses {
		r.ingress(one)
	}
	return r.finish()
}

// ingressReader reads objects of Kubernetes.
type ingressReader struct {
	*proxy
	vars      *variables
	scope     scope
	from      string // proxy-real-ip-cidr
	realIP    bool
	zoneKey   string // limit-conn-zone-variable; "": the default
	ingresses []*ingress
	hosts     map[string]*ingressHost
	order     []*ingressHost
}

// ingress is one Ingress.
type ingress struct {
	at          Place
	file        string
	offset      int // lines in front of its document
	name        string
	created     string
	annotations *document.Node
	spec        *document.Node
}

// ingressHost is a server of ingress-nginx.
type ingressHost struct {
	*server
	regexps bool // an Ingress has made all paths regular expressions
	seen    map[string]bool
}

const (
	annotation = "nginx.ingress.kubernetes.io/"
	burst      = 5 // limit-burst-multiplier unless it is set
)

// read reads the documents of a file.
func (r *ingressReader) read(file Input) {
	form := document.Form{MaxDepth: 100, Empty: "an Ingress", Tags: true}
	var part []byte
	offset, lines := 0, 0
	end := func() {
		if !isEmpty(part) {
			root, mistakes := form.Parse(part)
			for _, m := range mistakes {
				r.mistake(Place{File: file.Name, Line: m.Line + offset, Column: m.Column}, "%s",
					m.Text)
			}
			if root != nil {
				r.object(file.Name, offset, root)
			}
		}
		part, offset = part[:0], lines
	}
	for line := range bytes.Lines(file.Text) {
		lines++
		if rest, ok := bytes.CutPrefix(line, []byte("---")); ok && isEmpty(rest) {
			end()
			continue
		}
		part = append(part, line...)
	}
	end()
}

// isEmpty reports whether a text has comments alone.
func isEmpty(text []byte) bool {
	for line := range bytes.Lines(text) {
		if line = bytes.TrimSpace(line); len(line) > 0 && line[0] != '#' {
			return false
		}
	}
	return true
}

// field returns the value of a field of a map, or nil.
func field(n *document.Node, names ...string) *document.Node {
	for _, name := range names {
		if n == nil || n.Kind != document.Map {
			return nil
		}
		i := slices.IndexFunc(n.Entries, func(e document.Entry) bool { return e.Name.Text == name })
		if i < 0 {
			return nil
		}
		n = n.Entries[i].Value
	}
	return n
}

// textOf returns the text of a scalar, or "".
func textOf(n *document.Node) string {
	if n == nil || n.Kind != document.Scalar || n.IsNull() {
		return ""
	}
	return strings.TrimSpace(n.Text)
}

// items returns the items of a list, or nothing.
func items(n *document.Node) []*document.Node {
	if n == nil {
		return nil
	}
	return n.Items
}

// object reads one object, or a list of objects.
func (r *ingressReader) object(file string, offset int, n *document.Node) {
	switch kind := textOf(field(n, "kind")); kind {
	case "List", "IngressList", "ConfigMapList":
		for _, item := range items(field(n, "items")) {
			r.object(file, offset, item)
		}
	case "Ingress":
		one := &ingress{at: Place{File: file, Line: n.Line + offset, Column: n.Column},
			file: file, offset: offset,
			name: strings.TrimPrefix(textOf(field(n, "metadata", "namespace"))+"/"+
				textOf(field(n, "metadata", "name")), "/"),
			created:     textOf(field(n, "metadata", "creationTimestamp")),
			annotations: field(n, "metadata", "annotations"), spec: field(n, "spec")}
		r.ingresses = append(r.ingresses, one)
	case "ConfigMap":
		r.configMap(file, offset, field(n, "data"))
	}
}

// configMap reads the options of the controller.
func (r *ingressReader) configMap(file string, offset int, data *document.Node) {
	if data == nil {
		return
	}
	for _, e := range data.Entries {
		at, value := Place{File: file, Line: e.Value.Line + offset, Column: e.Value.Column},
			textOf(e.Value)
		switch e.Name.Text {
		case "limit-req-status-code":
			r.scope.requestCode = cmp.Or(r.number(at, value), 503)
		case "limit-conn-status-code":
			r.scope.connCode = cmp.Or(r.number(at, value), 503)
		case "limit-rate":
			if value != "0" {
				r.mistake(at, slows)
			}
		case "limit-conn-zone-variable":
			r.zoneKey = value
		case "use-forwarded-headers", "enable-real-ip":
			if value == "true" {
				r.realIP, r.clientAt = true, at
			}
		case "forwarded-for-header":
			r.scope.header = value
		case "proxy-real-ip-cidr":
			r.from, r.clientAt = value, at
		case "http-snippet", "server-snippet", "location-snippet":
			if strings.Contains(value, "limit_") {
				r.mistake(at, snippet)
			}
		}
	}
}

const (
	slows   = "slows answers down, and weir counts requests: keep it in your proxy"
	snippet = "has limits of nginx: convert them by weir convert nginx, from the nginx.conf of " +
		"the controller"
)

// number reads a whole number as ingress-nginx does, and reports any other text.
func (r *ingressReader) number(at Place, text string) int {
	n, err := strconv.Atoi(text)
	if err != nil {
		r.mistake(at, "must be a whole number (got %.40q)", text)
	}
	return n
}

// host returns the server of a host.
func (r *ingressReader) host(name string) *ingressHost {
	h := r.hosts[name]
	if h == nil {
		h = &ingressHost{server: &server{byDefault: name == ""}, seen: make(map[string]bool)}
		switch {
		case strings.Contains(name, "*"):
			h.strange = name
		case name != "":
			h.hosts = []string{strings.ToLower(name)}
		}
		r.hosts[name] = h
		r.order = append(r.order, h)
	}
	return h
}

// place returns the place of a node.
func (i *ingress) place(n *document.Node) Place {
	return Place{File: i.file, Line: n.Line + i.offset, Column: n.Column}
}

// option returns the value of an annotation and its place.
func (i *ingress) option(names ...string) (text string, at Place) {
	for _, name := range names {
		if n := field(i.annotations, annotation+name); textOf(n) != "" {
			return textOf(n), i.place(n)
		}
	}
	return "", i.at
}

// ingress reads the paths and limits of an Ingress.
func (r *ingressReader) ingress(i *ingress) {
	uses, ok := r.uses(i)
	if !ok {
		return
	}
	if canary, at := i.option("canary"); canary == "true" {
		if len(uses) > 0 {
			r.warn(at, "ingress-nginx takes the limits of the Ingress that this one is a canary "+
				"of, and ignores these")
		}
		return
	}
	rewrite, _ := i.option("rewrite-target")
	useRegexp, _ := i.option("use-regex")
	aliases, _ := i.option("server-alias")
	rules := items(field(i.spec, "rules"))
	if service := field(i.spec, "defaultBackend"); service != nil && len(rules) == 0 {
		r.path(r.host(""), i, service, "/", "Prefix", uses)
	}
	for _, rule := range rules {
		h := r.host(textOf(field(rule, "host")))
		if h.at == (Place{}) {
			h.at = i.place(rule)
		}
		for alias := range strings.SplitSeq(aliases, ",") {
			if alias = strings.ToLower(strings.TrimSpace(alias)); strings.ContainsAny(alias, "~*") {
				h.strange = alias
			} else if alias != "" && h.hosts != nil && !slices.Contains(h.hosts, alias) {
				h.hosts = append(h.hosts, alias)
			}
		}
		for _, p := range items(field(rule, "http", "paths")) {
			path, at := textOf(field(p, "path")), field(p, "path")
			if at == nil {
				path, at = "/", p
			}
			h.regexps = h.regexps || useRegexp == "true" || rewrite != "" && rewrite != path
			r.path(h, i, at, path, textOf(field(p, "pathType")), uses)
		}
	}
}

// path adds the locations of a path. The Ingress that was created first keeps it.
func (r *ingressReader) path(
	h *ingressHost, i *ingress, n *document.Node, path, kind string, uses []*use,
) {
	at := i.place(n)
	if h.at == (Place{}) {
		h.at = at
	}
	if h.seen[kind+" "+path] {
		r.warn(at, "an Ingress that is older has the path %s, and ingress-nginx ignores this "+
			"one", path)
		return
	}
	h.seen[kind+" "+path] = true
	if !strings.HasPrefix(path, "/") {
		r.mistake(at, "the path must begin with a slash (got %.40q)", path)
		return
	}
	l := &location{at: at, path: path, uses: uses}
	if kind == "Exact" {
		l.exact = true
	}
	h.locations = append(h.locations, l)
	if kind == "Prefix" && path != "/" { // as a whole segment
		l.segment = true
	}
}

// uses returns the limits of an Ingress. It is not ok if ingress-nginx refuses the Ingress.
func (r *ingressReader) uses(i *ingress) (uses []*use, ok bool) {
	for _, name := range []string{"configuration-snippet", "server-snippet"} {
		if text, at := i.option(name); strings.Contains(text, "limit_") {
			r.mistake(at, snippet)
		}
	}
	if text, at := i.option("limit-rate"); text != "" && text != "0" {
		r.mistake(at, slows)
	}
	if text, at := i.option("global-rate-limit"); text != "" {
		window, _ := i.option("global-rate-limit-window")
		r.mistake(at, "counts in all replicas by Memcached, in ingress-nginx before 1.12: write a "+
			"rule with limit: sliding-window %s/%s by hand", text, cmp.Or(window, "1m"))
	}
	ok = true
	read := func(name string, otherwise int) (n int, at Place) {
		text, at := i.option(name)
		if text == "" {
			return otherwise, at
		}
		n, err := strconv.Atoi(text)
		if err != nil {
			r.mistake(at, "must be a whole number (got %.40q): ingress-nginx refuses this "+
				"Ingress", text)
			ok = false
		}
		return n, at
	}
	multiplier, multiplierAt := read("limit-burst-multiplier", burst)
	exempt, allowed := r.exempt(i)
	ok = ok && allowed
	for _, limit := range []struct{ name, suffix string }{
		{"limit-connections", "connections"}, {"limit-rps", "rps"}, {"limit-rpm", "rpm"},
	} {
		n, at := read(limit.name, 0)
		if n <= 0 {
			continue
		}
		z := &zone{at: at, name: i.name + " " + limit.suffix,
			connections: limit.suffix == "connections",
			text:        fmt.Sprintf("%s: %d", limit.name, n)}
		z.rate = int64(n) * 1000
		if limit.suffix == "rpm" {
			z.rate /= 60
		}
		k, why := r.vars.key(cmp.Or(r.zoneKey, "$binary_remote_addr"))
		if why != "" {
			r.mistake(at, "limit-conn-zone-variable: %s", why)
		}
		if z.key = k; k != nil {
			k.exempt = exempt
		}
		u := &use{at: at, zone: z, most: int64(n), delay: always,
			burst: int64(n) * int64(multiplier)}
		if !z.connections && multiplier <= 0 {
			r.mistake(multiplierAt, "nginx has no burst of %d, so the controller cannot apply "+
				"this: write 1 or more",
				u.burst)
			continue
		}
		if !z.connections {
			z.text += fmt.Sprintf(", burst %d", u.burst)
		}
		r.zones = append(r.zones, z)
		uses = append(uses, u)
		if z.connections {
			r.denies(r.scope.connCode, at)
		} else {
			r.denies(r.scope.requestCode, at)
		}
	}
	return uses, ok
}

// exempt returns the name of the list of addresses that an Ingress does not limit.
func (r *ingressReader) exempt(i *ingress) (name string, ok bool) {
	text, at := i.option("limit-allowlist", "limit-whitelist")
	if text == "" {
		return "", true
	}
	var networks []netip.Prefix
	for entry := range strings.SplitSeq(text, ",") {
		network, ok := readNetwork(strings.TrimSpace(entry))
		if !ok {
			r.mistake(at, "must be addresses and networks (got %.40q): ingress-nginx refuses this "+
				"Ingress", entry)
			return "", false
		}
		networks = append(networks, network)
	}
	return r.vars.list(networks, comment(at, "limit-allowlist of "+i.name)), true
}

var (
	segmentRegexp = regexp.MustCompile(`^((?:/[A-Za-z0-9_-]+)+)\(/\|\$\)\(\.\*\)$`)
	prefixRegexp  = regexp.MustCompile(`^((?:/[A-Za-z0-9_-]+)*/)(?:\.\*|\(\.\*\))$`)
	plainRegexp   = regexp.MustCompile(`^[A-Za-z0-9/_-]+$`)
)

// finish writes the policy.
func (r *ingressReader) finish() *Result {
	for _, h := range r.order {
		if h.regexps {
			r.regexps(h)
		}
		h.normalize()
		if !slices.ContainsFunc(h.locations, func(l *location) bool {
			return l.path == "/" &&
				!l.exact
		}) {
			h.locations = append(h.locations, &location{at: h.at, path: "/"})
		}
		r.servers = append(r.servers, h.server)
		r.warnOf(h.server)
	}
	if slices.ContainsFunc(r.zones, func(z *zone) bool {
		return z.key != nil && (z.key.address || z.key.exempt != "")
	}) {
		real := r.scope.realIP()
		r.client = real.text
		if len(r.scope.from) == 0 {
			r.clientOf = "As ingress-nginx does unless its ConfigMap has use-forwarded-headers: " +
				"convert that, too."
		}
	}
	return finish(r.proxy, r.vars.lists)
}

// normalize makes two locations of a path by segments, as updateServerLocations of ingress-nginx
// does.
func (h *ingressHost) normalize() {
	exact := func(path string) bool {
		return slices.ContainsFunc(h.locations, func(l *location) bool {
			return l.exact &&
				l.path == path
		})
	}
	for _, l := range slices.Clone(h.locations) {
		if !l.segment {
			continue
		}
		if !exact(l.path) {
			h.locations = append(h.locations, &location{at: l.at, exact: true, path: l.path,
				uses: l.uses})
		}
		l.path = strings.TrimSuffix(l.path, "/") + "/"
	}
}

// regexps makes the paths of a host what they are as regular expressions. ingress-nginx writes the
// longest first, and ignores case.
func (r *ingressReader) regexps(h *ingressHost) {
	var lost []*location
	for _, l := range h.locations {
		l.exact, l.segment = false, false
		if found := segmentRegexp.FindStringSubmatch(l.path); found != nil {
			l.path, l.segment = found[1], true
		} else if found := prefixRegexp.FindStringSubmatch(l.path); found != nil {
			l.path = found[1]
		} else if !plainRegexp.MatchString(l.path) {
			lost = append(lost, l)
		}
	}
	h.locations = slices.DeleteFunc(h.locations, func(l *location) bool {
		return slices.Contains(lost, l)
	})
	for _, l := range lost {
		if len(l.uses) > 0 || h.limited() {
			r.mistake(l.at, "a policy has no regular expressions, so the requests of this path "+
				"are limited as those "+
				"of others: write a rule for its paths")
		}
	}
	if h.limited() && slices.ContainsFunc(h.locations, func(l *location) bool {
		return l.path != "/"
	}) {
		r.warn(h.at, "use-regex or rewrite-target make ingress-nginx ignore upper and lower case "+
			"in all paths of this "+
			"host: write paths: any-server for that")
	}
}
