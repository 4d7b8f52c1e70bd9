package accesslog

import (
	"bytes"
	"strings"
	"time"
)

// clf reads the Common Log Format and its extensions: the fields of the combined format, and those
// of Traefik. A virtual host may come first, as in Apache's vhost_combined. Each line may have a
// different subset.
//
//	192.0.2.7 - ann [17/May/2015:10:05:03 +0000] "GET / HTTP/1.1" 200 512 "referer" "agent"
type clf struct {
	named  *clfKind // format named by Options; nil: detect per line
	clock  clfClock
	hint   int
	extras []clfField
}

type clfKind struct {
	name                     string
	vhost, combined, traefik bool
}

// clfKinds are the formats of the family, those with more fields first.
var clfKinds = []clfKind{
	{"vhost-combined", true, true, false},
	{"traefik-common", false, true, true},
	{"combined", false, true, false},
	{"vhost-common", true, false, false},
	{"common", false, false, false},
}

// clfField is a field of a line that [Entry] has no field for.
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
	"user": clfUser, "referer": clfReferer, "agent": clfAgent, "user-agent": clfAgent,
	"host":  clfHost,
	"vhost": clfHost, "address": clfAddress,
}

// clfHeaders are the request headers of a combined line.
var clfHeaders = map[string]string{"Referer": "referer", "User-Agent": "agent"}

// newCLF returns a parser of one format of the family, or of all formats for the name "common"
// without field names.
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

// stampsEnds returns false: %t of Apache is the time when the request arrived, and so is the stamp
// of Traefik. nginx stamps the end in the same format; a log does not tell which.
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
		e.Extra[i] = dashless(
			view(unescape([][]byte{nil, user, referer, agent, vhost, host}[field])))
	}
	if why := e.setRequestLine(unescape(request)); why != fine {
		return why
	}
	return e.setAddress(host)
}

// format returns the format of a line: the one named by Options if the line has all its fields.
func (p *clf) format(line clfKind) string {
	if n := p.named; n != nil && (line.vhost || !n.vhost) && (line.combined || !n.combined) &&
		(line.traefik || !n.traefik) {
		return n.name
	}
	for _, kind := range clfKinds {
		if (line.vhost || !kind.vhost) && (line.combined || !kind.combined) &&
			(line.traefik || !kind.traefik) {
			return kind.name
		}
	}
	return ""
}

// maxStamp is the maximal length of a stamp, including its bracket.
const maxStamp = 80

// cutStamp cuts a line at its stamp, which is the last bracket before the request: the name of a
// user may contain brackets, since clients choose it, but servers escape quotes in it. Custom
// formats may have a stamp such as 2024-02-24T12:00:59+00:00.
func (p *clf) cutStamp(line []byte) (before, request []byte, at int64, exact, ok bool) {
	for from := 0; ; {
		i := bytes.Index(line[from:], []byte(`] "`))
		if i < 0 {
			return nil, nil, 0, false, false
		}
		end := from + i
		if open := end - len(clfStamp) - len(" ["); open > 0 && line[open] == ' ' &&
			line[open+1] == '[' {
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

// cutClient cuts the text before the stamp: the client, its identity by RFC 1413, and the user,
// whose name may contain spaces. A virtual host may come first: then the second text is an address.
// vhost is nil without one. The client may be a list, if X-Forwarded-For is logged in its place.
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

// cutRequest cuts the text after the stamp: the quoted request, the status and the size. Some
// servers, such as Traefik, do not escape quotes in the request: the last quote is the one before a
// status.
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

// cutStatus cuts a status and a size. Each may be a dash.
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

// cutAgent cuts the referer and the agent of the combined format.
func cutAgent(s []byte) (referer, agent []byte, ok bool) {
	referer, rest, ok := cutQuoted(s)
	if !ok || len(rest) < 3 || rest[0] != ' ' || rest[1] != '"' {
		return nil, nil, false
	}
	if agent, _, ok = cutQuoted(rest[1:]); !ok { // the server does not escape quotes
		agent, ok = bytes.CutSuffix(rest[2:], []byte{'"'})
	}
	return referer, agent, ok
}

// cutTraefik cuts the fields that Traefik appends: the number of requests, the router, the server,
// and the duration. An unknown field is a dash. It cuts from the end, since Traefik does not escape
// quotes in the agent before.
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
	if !isDigits(took) || !isName(server) || !isName(router) ||
		string(number) != "-" && !isDigits(number) {
		return s, 0, false
	}
	lasted, ok = readDuration(took, time.Millisecond)
	return rest, lasted, ok
}

// isName reports whether s is a quoted text or a dash.
func isName(s []byte) bool {
	return string(s) == "-" || len(s) >= 2 && s[0] == '"' && s[len(s)-1] == '"'
}
