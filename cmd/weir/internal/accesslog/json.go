package accesslog

import (
	"bytes"
	"strings"
	"time"
)

// layout says where a server's JSON logs have what a request is made of. Of several paths,
// the first that a line has counts.
type layout struct {
	name                                string
	time, address, method, target, line []string
	host, status, bytes, lasted         []string
	unit                                time.Duration // of lasted
	atEnd                               bool          // the stamp is the end of the request, if lasted is known
	header                              func(canonical string) string
	marks                               []string // fields by which the format is told from others
}

// jsonLayouts are the JSON formats that need no field map. The order is that in which they
// are tried.
var jsonLayouts = []layout{
	{
		name: "caddy", marks: []string{"request.uri", "request.method"},
		time: []string{"ts", "time", "timestamp"}, address: []string{"request.client_ip", "request.remote_ip", "request.remote_addr"},
		method: []string{"request.method"}, target: []string{"request.uri"}, host: []string{"request.host"},
		status: []string{"status"}, bytes: []string{"size"}, lasted: []string{"duration"}, unit: time.Second, atEnd: true,
		header: func(name string) string { return "request.headers." + name },
	},
	{
		name: "traefik", marks: []string{"RequestMethod", "RequestPath"},
		time: []string{"StartUTC", "StartLocal"}, address: []string{"ClientHost", "ClientAddr"},
		method: []string{"RequestMethod"}, target: []string{"RequestPath"}, host: []string{"RequestHost", "RequestAddr"},
		status: []string{"DownstreamStatus", "OriginStatus"}, bytes: []string{"DownstreamContentSize"}, lasted: []string{"Duration"}, unit: time.Nanosecond,
		header: func(name string) string { return "request_" + name },
	},
	{
		name:    "nginx-json",
		time:    []string{"msec", "time_msec", "time_iso8601", "time_local", "time", "timestamp", "@timestamp", "ts"},
		address: []string{"remote_addr", "remote_ip", "client_ip", "clientip", "client", "ip", "address"},
		method:  []string{"request_method", "method"}, target: []string{"request_uri", "uri", "url", "path"}, line: []string{"request"},
		host: []string{"http_host", "host", "server_name", "vhost"}, status: []string{"status", "status_code"},
		bytes: []string{"body_bytes_sent", "bytes_sent", "bytes"}, lasted: []string{"request_time"}, unit: time.Second, atEnd: true,
		header: func(name string) string { return "http_" + strings.ReplaceAll(strings.ToLower(name), "-", "_") },
	},
}

// jsonParser reads lines of JSON.
type jsonParser struct {
	layout  *layout
	scanner scanner
	marks   []int
	at      struct{ time, address, method, target, line, host, status, bytes, lasted, extras []int }
	hint    int
}

// newJSON returns a parser of a layout, with the fields of o in place of those of the layout.
func newJSON(l layout, o *Options) (parser, error) {
	p := &jsonParser{layout: &l}
	if len(o.Fields) > 0 {
		l.marks = nil
	}
	for _, mark := range l.marks {
		p.marks = append(p.marks, p.scanner.want(mark))
	}
	for role, paths := range map[string]struct {
		at    *[]int
		paths []string
	}{
		"time": {&p.at.time, l.time}, "address": {&p.at.address, l.address}, "method": {&p.at.method, l.method}, "path": {&p.at.target, l.target},
		"request": {&p.at.line, l.line}, "host": {&p.at.host, l.host}, "status": {&p.at.status, l.status}, "bytes": {&p.at.bytes, l.bytes},
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

func (p *jsonParser) name() string     { return p.layout.name }
func (p *jsonParser) stampsEnds() bool { return p.layout.atEnd }

// one returns the first of the values that the line has.
func (p *jsonParser) one(among []int) ([]byte, bool) {
	for _, i := range among {
		if v := p.scanner.values[i]; v.known {
			return v.text, true
		}
	}
	return nil, false
}

func (p *jsonParser) parse(line []byte, e *Entry) problem {
	if !p.scanner.scan(line) {
		return malformed
	}
	for _, mark := range p.marks {
		if !p.scanner.values[mark].known {
			return otherLine
		}
	}
	stamp, ok := p.one(p.at.time)
	at, exact, read := readStamp(stamp, &p.hint)
	if !ok || !read {
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
		e.Host = dashless(view(text))
	}
	e.arrive(at, exact, p.layout.atEnd)
	for i, at := range p.at.extras {
		if at < 0 || !p.scanner.values[at].known {
			continue
		}
		e.Extra[i] = dashless(view(p.scanner.values[at].text))
		if e.Extra[i] == "REDACTED" { // Caddy, for credentials
			e.Extra[i], e.Redacted = "", true
		}
	}
	address, ok := p.one(p.at.address)
	if !ok {
		return noAddress
	}
	if why := e.setAddress(address); why != fine {
		return why
	}
	return p.request(e)
}

func (p *jsonParser) request(e *Entry) problem {
	target, ok := p.one(p.at.target)
	line, hasLine := p.one(p.at.line)
	if method, hasMethod := p.one(p.at.method); ok && hasMethod {
		if hasLine { // $uri of nginx is decoded and without query, and the line is neither
			if i := bytes.IndexByte(line, ' '); i > 0 && e.setRequestLine(line) == fine {
				return fine
			}
		}
		return e.setRequest(method, target)
	}
	if hasLine {
		return e.setRequestLine(line)
	}
	return noRequest
}
