package convert

import (
	"regexp"
	"slices"
	"strings"

	"github.com/weir-go/weir/cmd/weir/internal/nginxconf"
)

// locationReader reads the locations of one server.
type locationReader struct {
	*nginxReader
	server *server
	lost   []*location // by regular expressions that no pattern has
	count  int         // of regular expressions
}

// locations reads the locations of a block.
func (r *locationReader) locations(block []*nginxconf.Directive, outer scope) {
	for _, d := range block {
		if d.Text != "location" || !d.Opens {
			continue
		}
		modifier, path, ok := locationOf(d)
		if !ok {
			r.mistake(d.Place, "must have a path, as in location /search")
			continue
		}
		inner := r.scope(outer, d.Block)
		if strings.HasPrefix(path, "@") || isInternal(d) {
			if inner.ownRequests || inner.ownConnections {
				r.mistake(d.Place, "counts what other locations send here, and a policy counts "+
					"requests by "+
					"the path that a client sends: move the limits there")
			}
			continue
		}
		l := &location{at: d.Place, path: path, block: d.Block, uses: r.uses(&inner)}
		if !passes(d) {
			l.index = inner.index
		}
		switch modifier {
		case "=":
			l.exact = true
		case "^~":
			l.final = true
		case "~", "~*":
			r.count++
			l.regexp = r.count
			if l.path, l.exact, ok = literalOf(modifier, path); !ok {
				r.lost = append(r.lost, l)
				r.locations(d.Block, inner)
				continue
			}
		}
		if !strings.HasPrefix(l.path, "/") {
			r.mistake(d.Place, "no request has a path that begins without a slash")
			continue
		}
		r.server.locations = append(r.server.locations, l)
		r.locations(d.Block, inner)
	}
}

// locationOf returns the arguments of a location.
func locationOf(d *nginxconf.Directive) (modifier, path string, ok bool) {
	switch len(d.Args) {
	case 1:
		path = d.Args[0].Text
		for _, modifier := range []string{"=", "^~", "~*", "~"} {
			if rest, ok := strings.CutPrefix(path, modifier); ok {
				return modifier, rest, rest != ""
			}
		}
		return "", path, path != ""
	case 2:
		return d.Args[0].Text, d.Args[1].Text, d.Args[1].Text != ""
	}
	return "", "", false
}

func isInternal(d *nginxconf.Directive) bool {
	return slices.ContainsFunc(d.Block, func(d *nginxconf.Directive) bool {
		return d.Text == "internal"
	})
}

var literal = regexp.MustCompile(`^\^((?:[A-Za-z0-9_/-]|\\[.-])+)(\$?)$`)

// literalOf returns the path that a regular expression is, if it is one.
func literalOf(modifier, text string) (path string, exact, ok bool) {
	found := literal.FindStringSubmatch(text)
	if modifier == "~*" || found == nil {
		return text, false, false
	}
	return strings.ReplaceAll(found[1], `\`, ""), found[2] != "", true
}

// checkRegexps reports regular expressions that take requests from locations with other limits.
func (r *locationReader) checkRegexps() {
	for _, l := range r.lost {
		signed := sign(l.uses)
		if slices.ContainsFunc(r.server.locations, func(other *location) bool {
			return !other.exact && !other.final && sign(other.uses) != signed
		}) {
			r.mistake(l.at, "a policy has no regular expressions, so the requests of this "+
				"location are limited as "+
				"those of the others: write locations by path")
		}
	}
	for _, l := range r.server.locations {
		if l.regexp == 0 {
			continue
		}
		for _, other := range r.server.locations {
			if l.contains(other) && !other.exact && !other.final &&
				(other.regexp == 0 || other.regexp > l.regexp) && sign(other.uses) != sign(l.uses) {
				r.mistake(other.at, "the regular expression in line %d takes the requests of this "+
					"location: "+
					"write that one as location ^~ with its path", l.at.Line)
			}
		}
	}
}

// checkRewrites reports what moves requests to a location with other limits before they are
// counted.
func (r *locationReader) checkRewrites(d *nginxconf.Directive) {
	locations := r.server.locations
	if !slices.ContainsFunc(locations, func(l *location) bool {
		return sign(l.uses) != sign(locations[0].uses)
	}) {
		return
	}
	r.rewrites(d, false)
}

func (r *locationReader) rewrites(d *nginxconf.Directive, inLocation bool) {
	for _, line := range d.Block {
		switch line.Text {
		case "rewrite":
			breaks := inLocation && len(line.Args) > 2 && line.Args[2].Text == "break"
			if !redirects(line) && !breaks {
				r.mistake(line.Place, "rewrite moves requests to a location with other limits "+
					"before they are "+
					"counted, and a policy counts by the path that a client sends: write rules "+
					"for both paths")
			}
		case "location":
			r.rewrites(line, true)
		case "if":
			r.rewrites(line, inLocation)
		}
	}
}

// redirects reports whether a rewrite answers with another address.
func redirects(d *nginxconf.Directive) bool {
	if len(d.Args) < 2 {
		return false
	}
	to := d.Args[1].Text
	return strings.HasPrefix(to, "http://") || strings.HasPrefix(to, "https://") ||
		strings.HasPrefix(to, "$scheme") ||
		len(d.Args) > 2 && (d.Args[2].Text == "redirect" || d.Args[2].Text == "permanent")
}

// checkAnswers warns of requests of a server that nginx answers before it counts them, under a
// condition that a policy does not have.
func (r *locationReader) checkAnswers(d *nginxconf.Directive) {
	r.answers(d.Block)
	for _, l := range slices.Concat(r.server.locations, r.lost) {
		if l.block != nil && len(l.uses) > 0 {
			r.answers(l.block)
		}
	}
}

func (r *locationReader) answers(block []*nginxconf.Directive) {
	for _, line := range block {
		switch {
		case line.Text == "rewrite" && redirects(line):
		case line.Text == "if" && slices.ContainsFunc(line.Block, func(d *nginxconf.Directive) bool {
			return d.Text == "return" || d.Text == "rewrite" && redirects(d)
		}):
		default:
			continue
		}
		r.warn(line.Place, "nginx answers some requests here before it counts them, and the policy counts them: "+
			"have your proxy answer them before it asks weir")
	}
}

// passes reports whether a location lets another server answer, so that it serves no files.
func passes(d *nginxconf.Directive) bool {
	return slices.ContainsFunc(d.Block, func(d *nginxconf.Directive) bool {
		return strings.HasSuffix(d.Text, "_pass")
	})
}

// checkMoves reports what moves requests from a location without limits to one that counts them:
// nginx counts a request in the first location that has limits.
func (r *locationReader) checkMoves(d *nginxconf.Directive, outer scope) {
	r.moves(d.Block, r.uses(&outer))
	for _, to := range r.server.locations {
		slash := strings.LastIndex(to.path, "/") + 1
		from := r.server.of(to.path[:slash])
		if from != nil && slices.Contains(from.index, to.path[slash:]) {
			r.move(to.at, "index", from.uses, to.path)
		}
	}
}

// moves is checkMoves for the directives of a block where uses count.
func (r *locationReader) moves(block []*nginxconf.Directive, uses []*use) {
	for _, d := range block {
		switch {
		case (d.Text == "try_files" || d.Text == "error_page") && len(d.Args) > 1:
			r.move(d.Place, d.Text, uses, d.Args[len(d.Args)-1].Text)
		case d.Text == "location":
			for _, l := range slices.Concat(r.server.locations, r.lost) {
				if l.at == d.Place {
					r.moves(d.Block, l.uses)
				}
			}
		}
	}
}

// move reports a directive that moves requests to a path, from where uses count, if the path has
// limits of a kind that uses lack.
func (r *locationReader) move(at Place, directive string, uses []*use, path string) {
	path, _, _ = strings.Cut(path, "?")
	to := r.server.of(path)
	if to == nil {
		return
	}
	for _, u := range to.uses {
		if !slices.ContainsFunc(uses, func(other *use) bool {
			return other.zone.connections == u.zone.connections
		}) {
			r.mistake(at, "%s moves requests to %s, whose limits count them, and a policy "+
				"counts by the path that a client sends: limit them where they come from, too",
				directive, path)
			return
		}
	}
}
