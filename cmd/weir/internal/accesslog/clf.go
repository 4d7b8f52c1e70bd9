package accesslog

import (
	"bytes"
	"strings"
	"time"
)

// clf reads the Common Log Format and what servers append to it: the fields of the combined
// format, and those of Traefik. A name of a virtual host may stand in front, as in Apache's
// vhost_combined. Each line is read for what it has.
//
//	192.0.2.7 - ann [17/May/2015:10:05:03 +0000] "GET / HTTP/1.1" 200 512 "referer" "agent"
type clf struct {
	named  *clfKind // the format that Options name; nil: that of each line
	clock  clfClock
	hint   int
	extras []clfField
}

type clfKind struct {
	name                     string
	vhost, combined, traefik bool
}

// clfKinds are the formats of the family; those that ask for more come first.
var clfKinds = []clfKind{
	{"vhost-combined", true, true, false},
	{"traefik-common", false, true, true},
	{"combined", false, true, false},
	{"vhost-common", true, false, false},
	{"common", false, false, false},
}

// clfField is a field of a line that has no place of its own in an [Entry].
type clfField uint8

const (
	clfNone clfField = iota
	clfUser
	clfReferer
	clfAgent
	clfHost
	clfAddress
)

var clfFields = map[string]clfField{
	"user": clfUser, "referer": clfReferer, "agent": clfAgent, "user-agent": clfAgent, "host": clfHost,
	"vhost": clfHost, "address": clfAddress,
}

// clfHeaders are the request headers of a combined line.
var clfHeaders = map[string]string{"Referer": "referer", "User-Agent": "agent"}

// newCLF returns a parser of one format of the family, or of all for the name "common" where
// nothing is named.
func newCLF(kind *clfKind, o *Options) (parser, error) {
	p := &clf{extras: make([]clfField, len(o.Extras))}
	if o.Format == kind.name {
		p.named = kind
	}
	for i, extra := range o.Extras {
		name := o.Fields[extra]
		if header, ok := strings.CutPrefix(extra, "header."); ok && name == "" {
			name = clfHeaders[header]
		}
		field, ok := clfFields[name]
		if name != "" && !ok {
			return nil, noField(kind.name, name, "user, referer, agent, vhost, address")
		}
		p.extras[i] = field
	}
	for role := range o.Fields {
		if !isExtra(role) {
			return nil, fixedField(kind.name, role)
		}
	}
	return p, nil
}

// stampsEnds is false: %t of Apache is when the request was received, and so is Traefik's
// stamp. nginx stamps the end, in the same format: nobody can tell them apart.
func (p *clf) stampsEnds() bool { return false }

func (p *clf) parse(line []byte, e *Entry) problem {
	before, rest, at, exact, ok := p.cutStamp(line)
	if !ok {
		return malformed
	}
	vhost, host, user, ok := p.cutClient(before)
	if !ok {
		return malformed
	}
	request, status, size, tail, ok := cutRequest(rest)
	if !ok {
		return malformed
	}
	kind := clfKind{vhost: vhost != nil}
	tail, e.Lasted, e.HasEnd = cutTraefik(tail)
	kind.traefik = e.HasEnd
	referer, agent, ok := cutAgent(tail)
	kind.combined = ok
	e.format = p.format(kind)
	e.Status, e.Bytes = readStatus(status), readSize(size)
	e.arrive(at, exact, false)
	e.Host = view(vhost)
	for i, field := range p.extras {
		e.Extra[i] = dashless(view(unescape([][]byte{nil, user, referer, agent, vhost, host}[field])))
	}
	if why := e.setRequestLine(unescape(request)); why != fine {
		return why
	}
	return e.setAddress(host)
}

// format returns the name of the format of a line: that which Options name, if the line has
// all of it.
func (p *clf) format(line clfKind) string {
	if n := p.named; n != nil && (line.vhost || !n.vhost) && (line.combined || !n.combined) && (line.traefik || !n.traefik) {
		return n.name
	}
	for _, kind := range clfKinds {
		if (line.vhost || !kind.vhost) && (line.combined || !kind.combined) && (line.traefik || !kind.traefik) {
			return kind.name
		}
	}
	return ""
}

// maxStamp is how long a stamp may be, with its bracket.
const maxStamp = 80

// cutStamp cuts a line at its stamp. That is the last bracket before the request: the name
// of a user may have brackets, and is what a client likes. No server leaves a quote in it.
// Formats of one's own may have a stamp such as 2024-02-24T12:00:59+00:00.
func (p *clf) cutStamp(line []byte) (before, request []byte, at int64, exact, ok bool) {
	for from := 0; ; {
		i := bytes.Index(line[from:], []byte(`] "`))
		if i < 0 {
			return nil, nil, 0, false, false
		}
		end := from + i
		if open := end - len(clfStamp) - len(" ["); open > 0 && line[open] == ' ' && line[open+1] == '[' {
			if at, ok := p.clock.read(line[open+2 : end]); ok {
				return line[:open], line[end+2:], at, false, true
			}
		}
		near := max(0, end-maxStamp) // a line may have many brackets
		if open := near + bytes.LastIndex(line[near:end], []byte(" [")); open > near {
			if at, exact, ok := readStamp(line[open+2:end], &p.hint); ok {
				return line[:open], line[end+2:], at, exact, true
			}
		}
		from = end + 1
	}
}

// cutClient cuts what stands before the stamp: the client, its identity by RFC 1413, and the
// user, whose name may have blanks. A virtual host may stand in front: then the second text is
// an address. vhost is nil without one. The client may be a list, if X-Forwarded-For is logged in
// its place.
func (p *clf) cutClient(s []byte) (vhost, host, user []byte, ok bool) {
	first, rest, ok := cutSpace(s)
	for bytes.HasSuffix(first, []byte{','}) && hasBlanks(rest) {
		first, rest, ok = cutSpace(rest)
	}
	if !ok {
		return nil, nil, nil, false
	}
	first = bytes.Trim(first, `"`)
	second, user, ok := cutSpace(rest)
	if !ok {
		return nil, nil, nil, false
	}
	isVHost := p.named != nil && p.named.vhost
	if p.named == nil {
		isVHost = looksLikeAddress(second)
	}
	if _, name, four := cutSpace(user); isVHost && four {
		return first, second, name, true
	}
	return nil, first, user, !isVHost || p.named == nil
}

// cutRequest cuts what follows the stamp: the request in quotes, the status and the size. A
// server that escapes no quotes, such as Traefik, may have some within the request: the last
// one is before a status.
func cutRequest(s []byte) (request, status, size, tail []byte, ok bool) {
	_, after, ok := cutQuoted(s)
	for ok {
		if status, size, tail, found := cutStatus(after); found {
			return s[1 : len(s)-len(after)-1], status, size, tail, true
		}
		_, after, ok = bytes.Cut(after, []byte{'"'})
	}
	return nil, nil, nil, nil, false
}

// cutStatus cuts a status and a size, each of which may be a dash.
func cutStatus(s []byte) (status, size, tail []byte, ok bool) {
	if len(s) == 0 || s[0] != ' ' {
		return nil, nil, nil, false
	}
	s = s[1:]
	status, _, ok = cutSpace(s[:min(len(s), len("200 "))])
	if !ok || string(status) != "-" && !isDigits(status) {
		return nil, nil, nil, false
	}
	size, tail, _ = cutSpace(s[len(status)+1:])
	return status, size, tail, string(size) == "-" || isDigits(size)
}

// cutAgent cuts the referer and the agent, which the combined format has.
func cutAgent(s []byte) (referer, agent []byte, ok bool) {
	referer, rest, ok := cutQuoted(s)
	if !ok || len(rest) < 3 || rest[0] != ' ' || rest[1] != '"' {
		return nil, nil, false
	}
	if agent, _, ok = cutQuoted(rest[1:]); !ok { // a server that escapes no quotes
		agent, ok = bytes.CutSuffix(rest[2:], []byte{'"'})
	}
	return referer, agent, ok
}

// cutTraefik cuts what Traefik appends: how many requests there were, the router, the server,
// and the duration. What is not known is a dash. It is cut from the end, since Traefik
// escapes no quotes of the agent that stands before.
//
//	1 "router@docker" "http://10.0.0.2:80" 12ms
func cutTraefik(s []byte) (before []byte, lasted time.Duration, ok bool) {
	rest, ok := bytes.CutSuffix(s, []byte("ms"))
	if !ok {
		return s, 0, false
	}
	rest, took := cutLast(rest)
	rest, server := cutLast(rest)
	rest, router := cutLast(rest)
	rest, number := cutLast(rest)
	if !isDigits(took) || !isName(server) || !isName(router) || string(number) != "-" && !isDigits(number) {
		return s, 0, false
	}
	lasted, ok = readDuration(took, time.Millisecond)
	return rest, lasted, ok
}

// isName reports whether s is a text in quotes, or a dash.
func isName(s []byte) bool {
	return string(s) == "-" || len(s) >= 2 && s[0] == '"' && s[len(s)-1] == '"'
}

// cutLast cuts s at its last blank.
func cutLast(s []byte) (before, last []byte) {
	i := bytes.LastIndexByte(s, ' ')
	return s[:max(i, 0)], s[i+1:]
}

// cutSpace cuts s at its first blank.
func cutSpace(s []byte) (before, after []byte, ok bool) {
	i := bytes.IndexByte(s, ' ')
	if i < 0 {
		return s, nil, false
	}
	return s[:i], s[i+1:], true
}

// hasBlanks reports whether s has two blanks at least.
func hasBlanks(s []byte) bool {
	_, s, _ = cutSpace(s)
	return bytes.IndexByte(s, ' ') >= 0
}

// cutQuoted returns the quoted text at the start of s, and what follows. A backslash
// escapes a quote.
func cutQuoted(s []byte) (text, after []byte, ok bool) {
	if len(s) == 0 || s[0] != '"' {
		return nil, nil, false
	}
	from := 1
	for {
		i := bytes.IndexByte(s[from:], '"')
		if i < 0 {
			return nil, nil, false
		}
		end := from + i
		escapes := 0
		for escapes < end-1 && s[end-1-escapes] == '\\' {
			escapes++
		}
		if escapes%2 == 0 {
			return s[1:end], s[end+1:], true
		}
		from = end + 1
	}
}

// dashless returns "" for the dash that stands for nothing.
func dashless(s string) string {
	if s == "-" {
		return ""
	}
	return s
}
