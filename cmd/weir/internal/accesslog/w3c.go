package accesslog

import (
	"bytes"
	"net/url"
	"strings"
	"time"
)

// w3c reads logs whose #Fields line names their columns: the W3C Extended Log File Format
// as IIS writes it, separated by blanks, as Akamai does, by tabs and with texts in quotes, and
// CloudFront's standard logs, by tabs and with texts as in URLs.
type w3c struct {
	options    *Options
	cloudFront bool
	columns    int // 0: no #Fields line was read
	at         struct{ date, time, address, method, stem, query, host, status, bytes, lasted int }
	extras     []int
	day        string // of a #Date line
	seconds    bool   // durations are seconds: some have a fraction
	hint       int
	cells      [][]byte
}

func (p *w3c) format() string {
	if p.cloudFront {
		return "cloudfront"
	}
	return "w3c"
}

// stampsEnds is true: IIS and CloudFront write a line when the answer has been sent.
func (p *w3c) stampsEnds() bool { return true }

// directive reads a line that begins with #.
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
	p.columns = len(names)
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

// cell returns a column of the line in hand; nil for a dash and for a column that is not there.
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
	stamp := make([]byte, 0, 40)
	stamp = append(append(append(stamp, day...), 'T'), clock...)
	at, exact, ok := readStamp(stamp, &p.hint) // without a zone: UTC, in both formats
	if !ok || clock == nil {
		return malformed
	}
	if status := p.cell(p.at.status); status != nil {
		e.Status = readStatus(status)
	}
	e.Bytes = readSize(p.cell(p.at.bytes))
	if lasted := p.cell(p.at.lasted); lasted != nil {
		unit := p.options.unit()
		p.seconds = p.seconds || bytes.IndexByte(lasted, '.') >= 0
		if p.options.Unit == 0 && !p.seconds { // IIS counts milliseconds, CloudFront and the draft seconds
			unit = time.Millisecond
		}
		e.Lasted, e.HasEnd = readDuration(lasted, unit)
	}
	e.arrive(at, exact, p.options.Stamp != AtStart)
	e.Host = view(p.cell(p.at.host))
	for i, column := range p.extras {
		e.Extra[i] = view(p.plain(column))
	}
	target := p.cell(p.at.stem)
	if query := p.cell(p.at.query); query != nil && target != nil {
		target = append(append(append(make([]byte, 0, len(target)+1+len(query)), target...), '?'), query...)
	}
	if why := e.setRequest(p.cell(p.at.method), target); why != fine {
		return why
	}
	list := p.plain(p.at.address)
	if !p.cloudFront { // IIS writes blanks as +, and no address has one
		list = bytes.ReplaceAll(list, []byte{'+'}, []byte{' '})
	}
	return e.setAddress(list)
}

// plain is cell without the escapes of CloudFront.
func (p *w3c) plain(i int) []byte {
	cell := p.cell(i)
	if p.cloudFront && bytes.IndexByte(cell, '%') >= 0 {
		if text, err := url.PathUnescape(string(cell)); err == nil {
			return []byte(text)
		}
	}
	return cell
}

// split cuts a line into its cells. The draft separates them by any white space. A cell may be
// in quotes, which are doubled within it; then it may have a separator, unless the line has
// the right number of cells without that.
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

// splitQuoted appends the cells of a line that are apart by one separator or more, and that may
// have some in quotes.
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
				end++ // doubled
			default:
				inQuotes = end+1 < len(line) && line[end+1] != separator
			}
		}
		cells = append(cells, line[:end])
		line = line[end:]
	}
}

// unquoteCell returns what is in quotes.
func unquoteCell(cell []byte) []byte {
	if n := len(cell); n < 2 || cell[0] != '"' || cell[n-1] != '"' {
		return cell
	}
	return bytes.ReplaceAll(cell[1:len(cell)-1], []byte(`""`), []byte{'"'})
}
