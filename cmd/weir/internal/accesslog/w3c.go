package accesslog

import (
	"bytes"
	"net/url"
	"strings"
	"time"
)

// w3c reads logs with a #Fields line that names their columns: the W3C Extended Log File Format of
// IIS (separated by spaces) and of Akamai (by tabs, texts in quotes), and CloudFront's standard
// logs (by tabs, texts URL-encoded).
type w3c struct {
	options    *Options
	cloudFront bool
	columns    int // 0: no #Fields line yet
	at         struct{ date, time, address, method, stem, query, host, status, bytes, lasted int }
	extras     []int
	day        string // from a #Date line
	seconds    bool   // durations are seconds, since some have a fraction
	names      []string
	clock      stamps
	stamp      []byte
	cells      [][]byte
}

// columnFormats are the rows of formats whose lines name their columns.
var columnFormats = []format{
	{name: "cloudfront", free: true, new: newW3C},
	{name: "w3c", auto: true, free: true, new: newW3C},
}

func newW3C(o *Options) (parser, error) {
	if name, ok := o.Fields["request"]; ok {
		return nil, noField("w3c", "request="+name, "method, path and query apart")
	}
	return &w3c{options: o}, nil
}

func (p *w3c) format() string {
	if p.cloudFront {
		return "cloudfront"
	}
	return "w3c"
}

// stampsEnds returns true: IIS and CloudFront write a line after the response.
func (p *w3c) stampsEnds() bool { return true }

// directive parses a line that begins with #.
func (p *w3c) directive(line []byte) {
	name, rest, _ := bytes.Cut(line, []byte(":"))
	rest = bytes.TrimSpace(rest)
	switch string(name) {
	case "#Date":
		p.day = string(rest[:min(len(rest), len(time.DateOnly))])
	case "#Fields":
		p.fields(strings.Fields(string(rest)))
	}
}

func (p *w3c) fields(names []string) {
	column := func(role string, candidates ...string) int {
		if own := p.options.Fields[role]; own != "" {
			candidates = []string{own}
		}
		for _, candidate := range candidates {
			for i, name := range names {
				if strings.EqualFold(name, candidate) {
					return i
				}
			}
		}
		return -1
	}
	p.columns, p.names = len(names), names
	p.cloudFront = column("", "x-edge-location") >= 0
	p.at.date, p.at.time = column("date", "date"), column("time", "time")
	p.at.address = column("address", "c-ip", "cs-ip") // Akamai
	p.at.method, p.at.stem = column("method", "cs-method"), column("path", "cs-uri-stem", "cs-uri")
	p.at.query = column("query", "cs-uri-query")
	p.at.host = column("host", "x-host-header", "cs(host)", "cs-host")
	p.at.status, p.at.bytes = column("status", "sc-status"), column("bytes", "sc-bytes")
	p.at.lasted = column("duration", "time-taken")
	p.extras = p.extras[:0]
	for _, extra := range p.options.Extras {
		header, ok := strings.CutPrefix(extra, "header.")
		if !ok {
			p.extras = append(p.extras, column(extra))
			continue
		}
		p.extras = append(p.extras, column(extra, "cs("+header+")", "cs-"+header))
	}
}

// cell returns a column of the current line, or nil for a dash or a missing column.
func (p *w3c) cell(i int) []byte {
	if i < 0 || len(p.cells[i]) == 1 && p.cells[i][0] == '-' {
		return nil
	}
	return p.cells[i]
}

func (p *w3c) parse(line []byte, e *Entry) problem {
	if line[0] == '#' {
		p.directive(line)
		return directive
	}
	if p.columns == 0 {
		return malformed
	}
	if !p.split(line) {
		return malformed
	}
	e.format = p.format()
	day, clock := p.cell(p.at.date), p.cell(p.at.time)
	if day == nil {
		day = []byte(p.day)
	}
	p.stamp = append(append(append(p.stamp[:0], day...), 'T'), clock...)
	at, exact, ok := p.clock.read(p.stamp) // no zone: UTC in both formats
	if !ok || clock == nil {
		return malformed
	}
	if status := p.cell(p.at.status); status != nil {
		e.Status = readStatus(status)
	}
	e.Bytes = readSize(p.cell(p.at.bytes))
	if lasted := p.cell(p.at.lasted); lasted != nil {
		// IIS counts milliseconds; CloudFront and the draft count seconds
		unit := time.Millisecond
		if p.seconds = p.seconds || bytes.IndexByte(lasted, '.') >= 0; p.seconds {
			unit = time.Second
		}
		e.last(lasted, p.options.unit(unit))
	}
	e.arrive(at, exact, p.options.atEnd(true))
	e.Host = view(p.cell(p.at.host))
	for i, column := range p.extras {
		e.Extra[i] = view(p.plain(column))
	}
	target := p.cell(p.at.stem)
	if query := p.cell(p.at.query); query != nil && target != nil {
		target = append(append(append(make([]byte, 0, len(target)+1+len(query)), target...), '?'),
			query...)
	}
	if why := e.setRequest(p.cell(p.at.method), target); why != fine {
		return why
	}
	list := p.plain(p.at.address)
	if !p.cloudFront { // IIS writes spaces as +, and addresses have none
		list = bytes.ReplaceAll(list, []byte{'+'}, []byte{' '})
	}
	return e.setAddress(list)
}

func (p *w3c) others(line []byte, yield func(name string, text []byte)) {
	if line[0] == '#' || p.columns == 0 || !p.split(line) {
		return
	}
	for i, name := range p.names {
		if i != p.at.address && !strings.EqualFold(name, "s-ip") {
			yield(name, bytes.ReplaceAll(p.plain(i), []byte{'+'}, []byte{' '}))
		}
	}
}

// plain returns a cell with the escapes of CloudFront decoded.
func (p *w3c) plain(i int) []byte {
	cell := p.cell(i)
	if p.cloudFront && bytes.IndexByte(cell, '%') >= 0 {
		if text, err := url.PathUnescape(string(cell)); err == nil {
			return []byte(text)
		}
	}
	return cell
}

// split splits a line into cells. The draft separates cells by any white space. A quoted cell may
// contain separators and doubled quotes, unless the line has the right number of cells without
// quoting.
func (p *w3c) split(line []byte) bool {
	separator := byte(' ')
	if bytes.IndexByte(line, '\t') >= 0 {
		separator = '\t'
	}
	for _, how := range []func([][]byte, []byte, byte) [][]byte{split, splitQuoted} {
		if p.cells = how(p.cells[:0], line, separator); len(p.cells) == p.columns {
			for i, cell := range p.cells {
				p.cells[i] = unquoteCell(cell)
			}
			return true
		}
	}
	return false
}

// split appends the cells of a line.
func split(cells [][]byte, line []byte, separator byte) [][]byte {
	for {
		i := bytes.IndexByte(line, separator)
		if i < 0 {
			return append(cells, line)
		}
		cells = append(cells, line[:i])
		line = line[i+1:]
	}
}

// splitQuoted appends the cells of a line, some of them quoted, separated by one or more
// separators.
func splitQuoted(cells [][]byte, line []byte, separator byte) [][]byte {
	for {
		line = bytes.TrimLeft(line, string(separator))
		if len(line) == 0 {
			return cells
		}
		end := 0
		for inQuotes := false; end < len(line) && (inQuotes || line[end] != separator); end++ {
			switch {
			case line[end] != '"':
			case !inQuotes:
				inQuotes = end == 0
			case end+1 < len(line) && line[end+1] == '"':
				end++ // a doubled quote
			default:
				inQuotes = end+1 < len(line) && line[end+1] != separator
			}
		}
		cells = append(cells, line[:end])
		line = line[end:]
	}
}

// unquoteCell removes the quotes of a cell.
func unquoteCell(cell []byte) []byte {
	if n := len(cell); n < 2 || cell[0] != '"' || cell[n-1] != '"' {
		return cell
	}
	return bytes.ReplaceAll(cell[1:len(cell)-1], []byte(`""`), []byte{'"'})
}
