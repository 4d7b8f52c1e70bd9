package accesslog

import (
	"bytes"
	"slices"
	"strings"
)

type jsonParser struct {
	layout  *layout
	scanner scanner
	message int // -1: none
	needs   []int
	clock   stamps
	stamp   []byte
	at      struct {
		date, time, address, method, target, query, line, host, status, bytes, lasted, extras []int
	}
}

// newJSON returns a parser of a layout, with the fields of o replacing those of the layout.
func newJSON(l layout, o *Options) (*jsonParser, error) {
	p := &jsonParser{layout: &l, message: -1}
	if l.message != "" {
		p.message = p.scanner.want(l.message)
	}
	for _, path := range l.needs {
		p.needs = append(p.needs, p.scanner.want(path))
	}
	for role, paths := range map[string]struct {
		at    *[]int
		paths []string
	}{
		"date": {&p.at.date, l.date}, "time": {&p.at.time, l.time},
		"address": {&p.at.address, l.address},
		"method":  {&p.at.method, l.method},
		"path":    {&p.at.target, l.target}, "query": {&p.at.query, l.query},
		"request": {&p.at.line, l.line}, "host": {&p.at.host, l.host},
		"status":   {&p.at.status, l.status},
		"bytes":    {&p.at.bytes, l.bytes},
		"duration": {&p.at.lasted, l.lasted},
	} {
		if own := o.Fields[role]; own != "" {
			paths.paths = []string{own}
		}
		for _, path := range paths.paths {
			*paths.at = append(*paths.at, p.scanner.want(path))
		}
	}
	l.unit, l.atEnd = o.unit(l.unit), o.atEnd(l.atEnd || o.Fields["duration"] != "")
	for _, extra := range o.Extras {
		path := o.Fields[extra]
		if header, ok := strings.CutPrefix(extra, "header."); ok && path == "" && l.header != nil {
			path = l.header(header)
		}
		at := -1
		if path != "" {
			at = p.scanner.want(path)
		}
		p.at.extras = append(p.at.extras, at)
	}
	return p, nil
}

func (p *jsonParser) stampsEnds() bool { return p.layout.atEnd }

// one returns the first non-empty value among the given fields. known reports whether the line has
// one of them, even as a dash.
func (p *jsonParser) one(among []int) (text []byte, known bool) {
	for _, i := range among {
		v := p.scanner.values[i]
		known = known || v.known
		if len(v.text) > 0 && string(v.text) != "-" {
			return v.text, true
		}
	}
	return nil, known
}

// has reports whether the line has one of the fields.
func (p *jsonParser) has(among []int) bool {
	_, known := p.one(among)
	return known
}

func (p *jsonParser) parse(line []byte, e *Entry) problem {
	if !p.scanner.scan(line) {
		return malformed
	}
	stamp, _ := p.one(p.at.time)
	if day, _ := p.one(p.at.date); day != nil && stamp != nil {
		p.stamp = append(append(append(p.stamp[:0], day...), 'T'), stamp...)
		stamp = p.stamp
	}
	return p.entry(stamp, e)
}

// entry sets e from the line that was scanned and from its stamp.
func (p *jsonParser) entry(stamp []byte, e *Entry) problem {
	e.format = p.layout.name
	at, exact, ok := p.clock.read(stamp)
	switch isOther := !p.isRequest(); {
	// the fields of jsonl are named: without a time, the name is wrong
	case isOther && (ok || p.layout.name != "jsonl"):
		return otherLine
	case !ok:
		return malformed
	}
	e.local = p.clock.local
	if text, ok := p.one(p.at.status); ok {
		e.Status = readStatus(text)
	}
	if text, ok := p.one(p.at.bytes); ok {
		e.Bytes = readSize(text)
	}
	if text, ok := p.one(p.at.lasted); ok {
		e.last(text, p.layout.unit)
	}
	if text, ok := p.one(p.at.host); ok {
		e.Host = view(text)
	}
	e.arrive(at, exact, p.layout.atEnd)
	for i, at := range p.at.extras {
		if at < 0 || !p.scanner.values[at].known {
			continue
		}
		e.Extra[i] = dashless(view(p.scanner.values[at].text))
		if strings.HasPrefix(e.Extra[i], "REDACTED") { // Caddy redacts credentials
			e.Extra[i], e.Redacted = "", true
		}
	}
	if why := p.request(e); why != fine {
		return why
	}
	text, _ := p.one(p.at.address)
	return e.setAddress(text)
}

// isRequest reports whether the line is about a request. Servers log other messages, too.
func (p *jsonParser) isRequest() bool {
	if p.message >= 0 {
		v := p.scanner.values[p.message]
		if v.known && !bytes.HasSuffix(v.text, []byte(p.layout.ending)) {
			return false
		}
	}
	for _, i := range p.needs {
		if !p.scanner.values[i].known {
			return false
		}
	}
	return p.has(p.at.line) || p.has(p.at.method) && p.has(p.at.target)
}

func (p *jsonParser) request(e *Entry) problem {
	target, ok := p.one(p.at.target)
	line, hasLine := p.one(p.at.line)
	if method, hasMethod := p.one(p.at.method); ok && hasMethod {
		if hasLine { // $uri of nginx is decoded and has no query, unlike the request line
			if i := bytes.IndexByte(line, ' '); i > 0 && e.setRequestLine(line) == fine {
				return fine
			}
		}
		if query, _ := p.one(p.at.query); query != nil {
			target = slices.Concat(target, []byte{'?'}, bytes.TrimPrefix(query, []byte{'?'}))
		}
		return e.setRequest(method, target)
	}
	return e.setRequestLine(line)
}

// forwarded are names of fields that have the header X-Forwarded-For or its like.
var forwarded = []string{
	"x_forwarded_for", "x-forwarded-for", "X-Forwarded-For", "xff", "http_x_forwarded_for",
	"forwarded_for", "http_x_real_ip", "cf_connecting_ip", "http_cf_connecting_ip",
}

func (p *jsonParser) others(line []byte, yield func(name string, text []byte)) {
	var s scanner
	paths := slices.Clone(forwarded)
	if p.layout.header != nil {
		for _, header := range []string{"X-Forwarded-For", "X-Real-Ip", "Cf-Connecting-Ip"} {
			paths = append(paths, p.layout.header(header))
		}
	}
	for _, path := range paths {
		s.want(path)
	}
	if !s.scan(line) {
		return
	}
	for path, i := range s.wanted {
		at, used := p.scanner.wanted[path]
		if path != "" && s.values[i].known && !(used && slices.Contains(p.at.address, at)) {
			yield(path, s.values[i].text)
		}
	}
}

// console reads what Caddy writes for a console: columns apart by tabs, and an object.
//
//	2026/11/29 07:50:44.781	INFO	http.log.access.log0	handled request	{"request": …}
type console struct{ *jsonParser }

func newConsole(o *Options) (parser, error) {
	l := caddyLayout
	l.name, l.message = "caddy-console", ""
	for _, role := range []string{"time", "date"} {
		if name, ok := o.Fields[role]; ok {
			return nil, noField(l.name, role+"="+name, "its time in front, and the fields of its object")
		}
	}
	p, err := newJSON(l, o)
	return &console{p}, err
}

func (p *console) parse(line []byte, e *Entry) problem {
	stamp, rest, ok := bytes.Cut(line, []byte{'\t'})
	if !ok || !isStampLike(stamp) {
		return malformed
	}
	before, object, ok := bytes.Cut(rest, []byte("\t{"))
	if !ok || !bytes.HasSuffix(before, []byte(caddyLayout.ending)) {
		if _, _, ok := p.clock.read(stamp); ok {
			return otherLine
		}
		return malformed
	}
	if !p.scanner.scan(rest[len(rest)-len(object)-1:]) {
		return malformed
	}
	return p.entry(stamp, e)
}

// isStampLike reports whether text may be a stamp, which begins with a digit.
func isStampLike(text []byte) bool { return len(text) > 0 && text[0] >= '0' && text[0] <= '9' }

func (p *console) others(line []byte, yield func(name string, text []byte)) {
	if i := bytes.Index(line, []byte("\t{")); i >= 0 {
		p.jsonParser.others(line[i+1:], yield)
	}
}
