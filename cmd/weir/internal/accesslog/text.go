package accesslog

import (
	"bytes"
	"slices"
	"strings"
	"time"

	"github.com/weir-go/weir/internal/ground/address"
)

// textFormat describes a format whose lines are texts with columns at fixed places.
type textFormat struct {
	name, says string

	// lines are the forms of a line, those with more columns first. A column is <name>, a word
	// without blanks; <name...>, a text up to what follows it in the form; or <"name">, a text in
	// quotes, in which a backslash escapes. A blank stands for several, and * at the end for
	// anything. Names of roles are those of Options.Fields; ms, us, s and took are durations, the
	// last with a unit in the log.
	lines []string

	roles map[string]string // by role, the column that has it, if its name is another
	after string            // a text in front of the line, such as the name of a logger
	cut   string            // ends the target of a request, where a server appends to it
	port  bool              // the address has a port behind it, without brackets for IPv6
	atEnd bool              // if durations are known, stamps are the ends of requests

	decoded bool // the target of a request is logged without its escapes

	messages []string          // begin lines that are no requests
	refused  map[string]string // columns of requests that the server refused itself
}

// column is a column of a line.
type column struct {
	before string // the text before it
	name   string // "": nothing, or anything follows
	kind   byte   // w: a word, a: anything, q: in quotes
}

// columnsOf returns the columns of a form.
func columnsOf(form string) (columns []column) {
	for {
		before, rest, ok := strings.Cut(form, "<")
		if !ok {
			return append(columns, column{before: form})
		}
		name, after, _ := strings.Cut(rest, ">")
		c := column{before: before, name: name, kind: 'w'}
		if text, ok := strings.CutSuffix(name, "..."); ok {
			c.name, c.kind = text, 'a'
		} else if strings.HasPrefix(name, `"`) {
			c.name, c.kind = strings.Trim(name, `"`), 'q'
		}
		columns, form = append(columns, c), after
	}
}

// textForm is one form of the lines of a textFormat.
type textForm struct {
	columns []column
	cells   [][]byte
	at      struct{ time, address, method, path, request, host, status, bytes, lasted int }
	unit    time.Duration // of durations
	extras  []int
}

// textParser reads the lines of a textFormat.
type textParser struct {
	format *textFormat
	forms  []textForm
	clock  stamps
	atEnd  bool
}

// textHeaders are the columns that have request headers.
var textHeaders = map[string]string{
	"User-Agent": "agent", "Referer": "referer", "X-Forwarded-For": "x-forwarded-for",
	"X-Request-Id": "request_id",
}

// textUnits are the units of columns with durations. took has texts such as 12ms.
var textUnits = map[string]time.Duration{
	"ms": time.Millisecond, "us": time.Microsecond, "s": time.Second, "took": 0,
}

// newText returns a parser of a format, with the columns that o names for roles.
func newText(f *textFormat, o *Options) (parser, error) {
	p := &textParser{format: f, atEnd: o.atEnd(f.atEnd)}
	var known []string
	for _, line := range f.lines {
		form := textForm{columns: columnsOf(line)}
		for _, c := range form.columns {
			if c.name != "" && !slices.Contains(known, c.name) {
				known = append(known, c.name)
			}
		}
		form.cells = make([][]byte, len(form.columns))
		p.forms = append(p.forms, form)
	}
	if err := o.fixed(f.name, "address", "host", "duration"); err != nil {
		return nil, err
	}
	for _, name := range o.Fields {
		if !slices.Contains(known, name) {
			return nil, noField(f.name, name, strings.Join(known, ", "))
		}
	}
	for i := range p.forms {
		form := &p.forms[i]
		at := func(role string) int { return form.find(f, o, role) }
		form.at.time, form.at.address, form.at.host = at("time"), at("address"), at("host")
		form.at.method, form.at.path, form.at.request = at("method"), at("path"), at("request")
		form.at.status, form.at.bytes = at("status"), at("bytes")
		form.at.lasted = at("duration")
		for name, unit := range textUnits {
			if n := form.index(name); form.at.lasted < 0 && n >= 0 {
				form.at.lasted, form.unit = n, unit
			}
		}
		form.unit = o.unit(form.unit)
		for _, extra := range o.Extras {
			name := o.Fields[extra]
			if header, ok := strings.CutPrefix(extra, "header."); ok && name == "" {
				name = textHeaders[header]
			}
			form.extras = append(form.extras, form.index(name))
		}
	}
	return p, nil
}

// find returns the column of a role, or −1.
func (f *textForm) find(format *textFormat, o *Options, role string) int {
	if name := o.Fields[role]; name != "" {
		return f.index(name)
	}
	if name := format.roles[role]; name != "" {
		return f.index(name)
	}
	return f.index(role)
}

// index returns the column of a name, or −1.
func (f *textForm) index(name string) int {
	return slices.IndexFunc(f.columns, func(c column) bool { return name != "" && c.name == name })
}

// cell returns a column of the current line, or nil for a dash or a missing column.
func (f *textForm) cell(i int) []byte {
	if i < 0 || len(f.cells[i]) == 1 && f.cells[i][0] == '-' {
		return nil
	}
	return f.cells[i]
}

// match cuts a line into cells. A text in front of the last column, which is a word, ends where
// that begins. Other texts end at the first that ends them. Where a server escapes nothing, a client may
// write that, but it cannot take columns away: the last column is no word then.
func (f *textForm) match(line []byte) bool {
	for i, c := range f.columns {
		before, any := strings.CutSuffix(c.before, "*")
		var ok bool
		if line, ok = cutLiteral(line, before); !ok {
			return false
		}
		if c.name == "" {
			return any && i == len(f.columns)-1 || len(bytes.TrimRight(line, " ")) == 0
		}
		if c.kind == 'q' {
			text, rest, ok := cutQuoted(line)
			if !ok {
				return false
			}
			if plain, ok := unescaped(text); ok {
				text = plain
			} else {
				text = unescape(text)
			}
			f.cells[i], line = text, rest
			continue
		}
		next := strings.TrimSuffix(f.columns[i+1].before, "*")
		end := bytes.Index(line, []byte(next))
		if c.kind == 'a' && i == len(f.columns)-3 {
			end = bytes.LastIndex(line, []byte(next))
		}
		if blank := bytes.IndexByte(line, ' '); c.kind == 'w' {
			if next == "" || next[0] == ' ' || blank >= 0 && blank < end {
				end = blank
			}
			if end < 0 && strings.TrimLeft(next, " ") == "" {
				end = len(line)
			}
		}
		if end < 0 || c.kind == 'w' && end == 0 {
			return false
		}
		f.cells[i], line = line[:end], line[end:]
	}
	return true
}

// cutLiteral cuts a text at the start of line. A blank of the text stands for several.
func cutLiteral(line []byte, text string) (rest []byte, ok bool) {
	for i := range len(text) {
		if len(line) == 0 || line[0] != text[i] {
			return nil, text[i:] == " " && len(line) == 0
		}
		if line = line[1:]; text[i] == ' ' {
			line = bytes.TrimLeft(line, " ")
		}
	}
	return line, true
}

func (p *textParser) stampsEnds() bool { return p.atEnd }

// form returns the form that a line has, or nil.
func (p *textParser) form(line []byte) *textForm {
	if after := p.format.after; after != "" {
		if i := bytes.Index(line, []byte(after)); i >= 0 {
			line = bytes.TrimLeft(line[i+len(after):], " -:|")
		}
	}
	for i := range p.forms {
		if p.forms[i].match(line) {
			return &p.forms[i]
		}
	}
	return nil
}

func (p *textParser) parse(line []byte, e *Entry) problem {
	f := p.form(line)
	if f == nil {
		for _, begin := range p.format.messages {
			if bytes.HasPrefix(line, []byte(begin)) {
				return otherLine
			}
		}
		return malformed
	}
	stamp := f.cell(f.at.time)
	at, exact, ok := p.clock.read(stamp)
	if !ok || stamp[0] == '[' { // the brackets of the common format are part of the forms here
		return malformed
	}
	e.format, e.local = p.format.name, p.clock.local
	e.Status, e.Bytes = readStatus(f.cell(f.at.status)), readSize(f.cell(f.at.bytes))
	if lasted := f.cell(f.at.lasted); lasted != nil {
		e.last(bytes.TrimPrefix(lasted, []byte("+")), f.unit) // HAProxy's option logasap
	}
	e.arrive(at, exact, p.atEnd)
	e.Host = view(f.cell(f.at.host))
	for i, at := range f.extras {
		e.Extra[i] = view(f.cell(at))
	}
	if p.isRefused(f) {
		return noRequest
	}
	if why := p.request(f, e); why != fine {
		return why
	}
	if p.format.port && f.at.address == 0 {
		return e.setParsed(address.ParseWithPort(view(f.cell(0))))
	}
	return e.setAddress(firstCaptured(f.cell(f.at.address)))
}

// isRefused reports whether the server refused the current line's request before any limit.
func (p *textParser) isRefused(f *textForm) bool {
	for name, text := range p.format.refused {
		if i := f.index(name); i < 0 || string(f.cells[i]) != text {
			return false
		}
	}
	return len(p.format.refused) > 0
}

func (p *textParser) request(f *textForm, e *Entry) problem {
	if f.at.path < 0 {
		return e.setRequestLine(unescape(f.cell(f.at.request)))
	}
	path := f.cell(f.at.path)
	if p.format.cut != "" {
		path, _, _ = bytes.Cut(path, []byte(p.format.cut))
	}
	if p.format.decoded && bytes.IndexByte(path, '%') >= 0 {
		path = bytes.ReplaceAll(path, []byte{'%'}, []byte("%25"))
	}
	return e.setRequest(f.cell(f.at.method), path)
}

func (p *textParser) others(line []byte, yield func(name string, text []byte)) {
	f := p.form(line)
	if f == nil {
		return
	}
	for i, c := range f.columns {
		if c.name != "" && i != f.at.address && i != f.at.path && i != f.at.request &&
			!slices.Contains(serversOwn, c.name) {
			yield(c.name, firstCaptured(f.cells[i]))
		}
	}
}

// serversOwn are the columns that have addresses of servers.
var serversOwn = []string{"upstream", "upstream_local", "local", "host", "hierarchy"}

// firstCaptured returns the first of the texts that HAProxy captures, as in {a|b}, or another text
// as it is.
func firstCaptured(text []byte) []byte {
	inner, ok := bytes.CutPrefix(text, []byte{'{'})
	if !ok {
		return text
	}
	if end := bytes.IndexAny(inner, "|}"); end >= 0 {
		inner = inner[:end]
	}
	return inner
}
