package accesslog

import (
	"bytes"
	"strings"
	"time"
)

// layout maps the fields of a server's JSON logs. Of several paths, the first one present counts.
type layout struct {
	name                                string
	time, address, method, target, line []string
	host, status, bytes, lasted         []string
	unit                                time.Duration // unit of lasted
	// if lasted is known, the stamp is the end of the request
	atEnd  bool
	header func(canonical string) string

	// message is a field whose text ends in "handled request" in lines about requests. "": none.
	message string
}

// handled ends the message of a request. Caddy also logs errors with the request.
const handled = "handled request"

// jsonLayouts are the JSON formats without a field map, in the order in which they are tried.
var jsonLayouts = []layout{
	{
		name: "caddy", message: "msg",
		time:    []string{"ts", "time", "timestamp"},
		address: []string{"request.client_ip", "request.remote_ip", "request.remote_addr"},
		method:  []string{"request.method"}, target: []string{"request.uri"},
		host:   []string{"request.host"},
		status: []string{"status"}, bytes: []string{"size"}, lasted: []string{"duration"},
		unit: time.Second, atEnd: true,
		header: func(name string) string { return "request.headers." + name },
	},
	{
		name: "traefik",
		time: []string{"StartUTC", "StartLocal"}, address: []string{"ClientHost", "ClientAddr"},
		method: []string{"RequestMethod"}, target: []string{"RequestPath"},
		host:   []string{"RequestHost", "RequestAddr"},
		status: []string{"DownstreamStatus", "OriginStatus"},
		bytes:  []string{"DownstreamContentSize"},
		lasted: []string{"Duration"}, unit: time.Nanosecond,
		header: func(name string) string { return "request_" + name },
	},
	{
		name: "nginx-json",
		time: []string{
			"msec", "time_msec", "time_iso8601", "time_local", "time", "timestamp", "@timestamp",
			"ts",
		},
		address: []string{
			"remote_addr", "remote_ip", "client_ip", "clientip", "client", "ip", "address",
		},
		method: []string{"request_method", "method"},
		target: []string{"request_uri", "uri", "url", "path"},
		line:   []string{"request"},
		host:   []string{"http_host", "host", "server_name", "vhost"},
		status: []string{"status", "status_code"},
		bytes:  []string{"body_bytes_sent", "bytes_sent", "bytes"},
		lasted: []string{"request_time"},
		unit:   time.Second, atEnd: true,
		header: func(name string) string {
			return "http_" + strings.ReplaceAll(strings.ToLower(name), "-", "_")
		},
	},
}

type jsonParser struct {
	layout  *layout
	scanner scanner
	message int // -1: none
	at      struct{ time, address, method, target, line, host, status, bytes, lasted, extras []int }
	hint    int
}

// newJSON returns a parser of a layout, with the fields of o replacing those of the layout.
func newJSON(l layout, o *Options) (parser, error) {
	p := &jsonParser{layout: &l, message: -1}
	if l.message != "" {
		p.message = p.scanner.want(l.message)
	}
	for role, paths := range map[string]struct {
		at    *[]int
		paths []string
	}{
		"time": {&p.at.time, l.time}, "address": {&p.at.address, l.address},
		"method":  {&p.at.method, l.method},
		"path":    {&p.at.target, l.target},
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
	if o.Fields["duration"] != "" {
		l.unit = o.unit()
		l.atEnd = o.Stamp != AtStart
	}
	switch o.Stamp {
	case AtStart:
		l.atEnd = false
	case AtEnd:
		l.atEnd = true
	}
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
	e.format = p.layout.name
	stamp, _ := p.one(p.at.time)
	at, exact, ok := readStamp(stamp, &p.hint)
	switch isOther := !p.isRequest(); {
	// the fields of jsonl are named: without a time, the name is wrong
	case isOther && (ok || p.layout.name != "jsonl"):
		return otherLine
	case !ok:
		return malformed
	}
	if text, ok := p.one(p.at.status); ok {
		e.Status = readStatus(text)
	}
	if text, ok := p.one(p.at.bytes); ok {
		e.Bytes = readSize(text)
	}
	if text, ok := p.one(p.at.lasted); ok {
		e.Lasted, e.HasEnd = readDuration(text, p.layout.unit)
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
		if v := p.scanner.values[p.message]; v.known && !bytes.HasSuffix(v.text, []byte(handled)) {
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
		return e.setRequest(method, target)
	}
	return e.setRequestLine(line)
}
