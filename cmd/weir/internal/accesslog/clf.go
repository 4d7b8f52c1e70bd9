package accesslog

import (
	"bytes"
	"strconv"
	"strings"
	"time"
)

// clf reads the Common Log Format and what servers append to it: the fields of the combined
// format, and those of Traefik. A name of a virtual host may stand in front, as in Apache's
// vhost_combined.
//
//	192.0.2.7 - ann [17/May/2015:10:05:03 +0000] "GET / HTTP/1.1" 200 512 "referer" "agent"
type clf struct {
	kind   clfKind
	clock  clfClock
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
	"user": clfUser, "referer": clfReferer, "agent": clfAgent, "user-agent": clfAgent, "host": clfHost, "vhost": clfHost, "address": clfAddress,
}

// clfHeaders are the request headers of a combined line.
var clfHeaders = map[string]string{"Referer": "referer", "User-Agent": "agent"}

func newCLF(kind clfKind, o *Options) (parser, error) {
	p := &clf{kind: kind, extras: make([]clfField, len(o.Extras))}
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

func (p *clf) name() string { return p.kind.name }

// stampsEnds is false: %t of Apache is when the request was received, and so is Traefik's
// stamp. nginx stamps the end, in the same format: nobody can tell them apart.
func (p *clf) stampsEnds() bool { return false }

func (p *clf) parse(line []byte, e *Entry) problem {
	open := bytes.Index(line, []byte(" ["))
	if open < 0 || len(line) < open+2+len(clfStamp)+3 {
		return malformed
	}
	stamp := line[open+2 : open+2+len(clfStamp)]
	at, ok := p.clock.read(stamp)
	rest := line[open+2+len(clfStamp):]
	if !ok || !bytes.HasPrefix(rest, []byte(`] "`)) {
		return malformed
	}
	var vhost, user []byte
	host, before, ok := cutSpace(line[:open])
	if p.kind.vhost && ok {
		vhost, host = host, nil
		host, before, ok = cutSpace(before)
	}
	if ok {
		_, user, ok = cutSpace(before) // user names may have blanks
	}
	if !ok {
		return malformed
	}
	request, rest, ok := cutQuoted(rest[2:])
	if !ok || len(rest) < 5 || rest[0] != ' ' || rest[4] != ' ' {
		return malformed
	}
	status, err := strconv.Atoi(view(rest[1:4]))
	if err != nil || status < 0 {
		return malformed
	}
	size, rest, _ := cutSpace(rest[5:])
	if string(size) != "-" {
		if e.Bytes, err = strconv.ParseInt(view(size), 10, 64); err != nil || e.Bytes < 0 {
			return malformed
		}
	}
	var referer, agent []byte
	if p.kind.combined {
		if referer, rest, ok = cutQuoted(rest); !ok || len(rest) == 0 || rest[0] != ' ' {
			return malformed
		}
		if agent, rest, ok = cutQuoted(rest[1:]); !ok {
			return malformed
		}
	}
	if p.kind.traefik {
		if e.Lasted, e.HasEnd = traefikTail(rest); !e.HasEnd {
			return malformed
		}
	}
	e.Status = status
	e.arrive(at, false, false)
	if p.kind.vhost {
		e.Host = view(vhost)
	}
	for i, field := range p.extras {
		e.Extra[i] = dashless(view([][]byte{nil, user, referer, agent, vhost, host}[field]))
	}
	if why := e.setAddress(host); why != fine {
		return why
	}
	return e.setRequestLine(request)
}

// traefikTail reads what Traefik appends: how many requests there were, the router, the
// server, and the duration.
//
//	1 "router@docker" "http://10.0.0.2:80" 12ms
func traefikTail(s []byte) (time.Duration, bool) {
	if len(s) == 0 || s[0] != ' ' {
		return 0, false
	}
	_, s, ok := cutSpace(s[1:])
	if !ok {
		return 0, false
	}
	if _, s, ok = cutQuoted(s); !ok || len(s) < 2 {
		return 0, false
	}
	if _, s, ok = cutQuoted(s[1:]); !ok || len(s) < 4 || !bytes.HasSuffix(s, []byte("ms")) {
		return 0, false
	}
	return readDuration(s[1:len(s)-2], time.Millisecond)
}

// cutSpace cuts s at its first blank.
func cutSpace(s []byte) (before, after []byte, ok bool) {
	i := bytes.IndexByte(s, ' ')
	if i < 0 {
		return s, nil, false
	}
	return s[:i], s[i+1:], true
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
