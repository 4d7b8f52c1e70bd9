package convert

import (
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
)

// rule is a rule of the policy.
type rule struct {
	at            Place
	from          []string // where it is from
	name, scope   string
	match, except []string
	key           *key
	limit         string
	noDelay       int64
	shadow        bool
}

// ruler makes the rules that mean what a proxy means.
type ruler struct{ *proxy }

func (p ruler) rules() (rules []*rule) {
	p.checkServers()
	for _, z := range p.zones {
		rules = append(rules, p.rulesOf(z)...)
	}
	return rules
}

// checkServers leaves out servers that a policy cannot tell from others, and reports them: it knows
// hosts, and no ports.
func (p ruler) checkServers() {
	var kept []*server
	var unknown *server // serves hosts that no other has
	owner := make(map[string]*server)
	differs := func(s, other *server) bool { return s.limited() || other.limited() }
	for _, s := range p.servers {
		if s.byDefault && unknown != nil {
			if differs(s, unknown) {
				p.mistake(s.at, "serves unknown hosts as the server in line %d does, at another "+
					"port: a policy "+
					"knows hosts, and no ports, so this server is left out: give it a policy of "+
					"its own",
					unknown.at.Line)
			}
			continue
		}
		left, named := false, len(s.hosts) > 0 // left out
		s.hosts = slices.DeleteFunc(s.hosts, func(host string) bool {
			other := owner[host]
			switch {
			case other == nil:
			case s.ignores(other):
				if differs(s, other) {
					p.warn(s.at, "nginx ignores the name %s here, since the server in line %d has it at the same "+
						"port, and so does the policy: remove one of them", host, other.at.Line)
				}
			default:
				left = true
				if differs(s, other) {
					p.mistake(s.at, "serves %s as the server in line %d does, at another port: a "+
						"policy knows hosts, "+
						"and no ports, so this server is left out: give it a policy of its own",
						host, other.at.Line)
				}
			}
			return other != nil
		})
		if !s.byDefault && (left || named && len(s.hosts) == 0) {
			continue
		}
		for _, host := range s.hosts {
			owner[host] = s
		}
		if s.byDefault {
			unknown = s
		}
		kept = append(kept, s)
	}
	p.servers = kept
	for _, s := range kept {
		if s.strange != "" && !s.byDefault && (s.limited() || unknown != nil && unknown.limited()) {
			p.mistake(s.at, "the patterns of a policy have no host such as %s: name each host in "+
				"a "+
				"server_name", s.strange)
		}
	}
}

// group is a set of servers whose rules have the same exceptions.
type group struct {
	servers []*server
	except  []string // hosts of others
	name    string   // of a server that counts apart; "": all count together
}

// groups returns the groups of servers for a zone that counts for each server apart, or not.
func (p ruler) groups(apart bool) (groups []group) {
	var named group
	for _, s := range p.servers {
		if !s.byDefault {
			named.servers = append(named.servers, s)
		}
	}
	for _, s := range p.servers {
		if !s.byDefault {
			continue
		}
		own := group{servers: []*server{s}}
		for _, other := range named.servers {
			for _, host := range other.hosts {
				own.except = append(own.except, host+"/")
			}
		}
		groups = append(groups, own)
	}
	if !apart {
		if len(named.servers) > 0 {
			groups = append(groups, named)
		}
		return groups
	}
	for _, s := range named.servers {
		groups = append(groups, group{servers: []*server{s}})
	}
	for i := range groups {
		if s := groups[i].servers[0]; len(p.servers) > 1 && len(s.hosts) > 0 {
			groups[i].name = s.hosts[0]
		} else if len(p.servers) > 1 {
			groups[i].name = "default"
		}
	}
	return groups
}

// rulesOf returns the rules of one zone.
func (p ruler) rulesOf(z *zone) (rules []*rule) {
	kept := p.usesOf(z)
	if len(kept) == 0 || z.key == nil {
		return nil
	}
	for _, g := range p.groups(z.key.perServer) {
		scope := nameOf(strings.TrimSpace(z.name + " " + g.name))
		for _, dry := range []bool{false, true} {
			for _, r := range p.levels(g, kept, dry) {
				if r.name = scope; len(rules) > 0 {
					r.name = p.unused(scope, rules)
					r.scope = scope
				}
				rules = append(rules, r)
			}
		}
	}
	return rules
}

// nameOf returns a name of a rule for a text: printable, and with room for a number.
func nameOf(text string) string {
	name := strings.Map(func(c rune) rune {
		if c < ' ' || c > '~' {
			return '_'
		}
		return c
	}, text)
	const most = 58
	if len(name) <= most && name == text {
		return name
	}
	hash := fnv.New32()
	hash.Write([]byte(text))
	return fmt.Sprintf("%s %08x", name[:min(len(name), most-9)], hash.Sum32())
}

// unused returns a name that no rule has.
func (p ruler) unused(name string, rules []*rule) string {
	for n := 2; ; n++ {
		numbered := fmt.Sprintf("%s %d", name, n)
		if !slices.ContainsFunc(rules, func(r *rule) bool { return r.name == name }) {
			return name
		}
		if !slices.ContainsFunc(rules, func(r *rule) bool { return r.name == numbered }) {
			return numbered
		}
	}
}

// usesOf returns the uses of a zone by location. It leaves out, and reports, those under another
// limit: a policy counts a key under one.
func (p ruler) usesOf(z *zone) map[*location]*use {
	kept := make(map[*location]*use)
	var first *use
	for _, s := range p.servers {
		for _, l := range s.locations {
			for _, u := range l.uses {
				if u.zone != z {
					continue
				}
				if first == nil {
					first = u
				}
				want, wantDelay := first.limit()
				if limit, noDelay := u.limit(); limit != want || noDelay != wantDelay {
					p.mistake(u.at, "the zone %s is also used in line %d with other numbers, and "+
						"a policy "+
						"counts a key under one limit: give this one a zone of its own", z.name,
						first.at.Line)
					continue
				}
				kept[l] = u
			}
		}
	}
	return kept
}

// levels returns the rules of a zone in the servers of a group. The first has the outermost
// locations in which the zone counts, except those within in which it does not. Where it counts
// again within an exception, there is another rule.
func (p ruler) levels(g group, kept map[*location]*use, dry bool) (rules []*rule) {
	counts := func(l *location) bool { return l != nil && kept[l] != nil && kept[l].dry == dry }
	at := func(level int) *rule {
		for len(rules) <= level {
			rules = append(rules, &rule{shadow: dry})
		}
		return rules[level]
	}
	for _, s := range g.servers {
		hosts := s.hosts
		if s.byDefault {
			hosts = []string{""}
		}
		if len(hosts) == 0 || !slices.ContainsFunc(s.locations, counts) {
			continue
		}
		for _, l := range s.locations {
			parent := s.parent(l)
			if counts(l) == counts(parent) {
				if counts(l) {
					at(s.level(l, counts)).note(kept[l])
				}
				continue
			}
			level := s.level(l, counts)
			if !l.isSlash() {
				p.mistake(l.at, "nginx takes %[1]s-x and the like for this location, too, and the "+
					"pattern "+
					"%[1]s/ does not: write location %[1]s/, and location = %[1]s", l.path)
			}
			for _, host := range hosts {
				r := at(level)
				if counts(l) {
					r.note(kept[l])
					r.match = append(r.match, l.patterns(host)...)
				} else {
					r.except = append(r.except, l.patterns(host)...)
				}
			}
		}
	}
	for _, r := range rules {
		if slices.Contains(r.match, "/") { // every path of every host
			r.match = nil
		}
		r.except = append(r.except, g.except...)
	}
	return slices.DeleteFunc(rules, func(r *rule) bool { return r.key == nil })
}

// note adds where r is from.
func (r *rule) note(u *use) {
	if r.key == nil {
		r.at, r.key = u.at, u.zone.key
		r.limit, r.noDelay = u.limit()
		r.from = append(r.from, comment(u.zone.at, u.zone.text))
	}
	if u.text == "" {
		return
	}
	if text := comment(u.at, u.text); !slices.Contains(r.from, text) {
		r.from = append(r.from, text)
	}
}

// comment returns the source of a part of the policy.
func comment(at Place, text string) string {
	return fmt.Sprintf("%s:%d: %s", at.File, at.Line, text)
}
