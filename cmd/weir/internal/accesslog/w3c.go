package accesslog

import (
	"bytes"
	"net/url"
	"strings"
	"time"
)

// w3c reads logs whose #Fields line names their columns: the W3C Extended Log File Format
// as IIS writes it, separated by blanks, and CloudFront's standard logs, separated by tabs.
type w3c struct {
	options    *Options
	cloudFront bool
	columns    int // 0: no #Fields line was read
	at         struct{ date, time, address, method, stem, query, host, status, bytes, lasted int }
	extras     []int
	day        string // of a #Date line
	hint       int
	cells      [][]byte
}

func (p *w3c) name() string {
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
	p.at.address = column("address", "c-ip")
	p.at.method, p.at.stem, p.at.query = column("method", "cs-method"), column("path", "cs-uri-stem", "cs-uri"), column("query", "cs-uri-query")
	p.at.host = column("host", "x-host-header", "cs(host)", "cs-host")
	p.at.status, p.at.bytes, p.at.lasted = column("status", "sc-status"), column("bytes", "sc-bytes"), column("duration", "time-taken")
	p.extras = p.extras[:0]
	for _, extra := range p.options.Extras {
		candidate := "-"
		if header, ok := strings.CutPrefix(extra, "header."); ok {
			candidate = "cs(" + header + ")"
		}
		p.extras = append(p.extras, column(extra, candidate))
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
	separator := byte(' ')
	if p.cloudFront {
		separator = '\t'
	}
	p.cells = split(p.cells[:0], line, separator)
	if len(p.cells) != p.columns {
		return malformed
	}
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
		if p.options.Unit == 0 { // IIS counts milliseconds, CloudFront and the draft seconds
			if unit = time.Millisecond; bytes.IndexByte(lasted, '.') >= 0 {
				unit = time.Second
			}
		}
		e.Lasted, e.HasEnd = readDuration(lasted, unit)
	}
	e.arrive(at, exact, p.options.Stamp != AtStart)
	e.Host = view(p.cell(p.at.host))
	for i, column := range p.extras {
		e.Extra[i] = view(p.cell(column))
		if p.cloudFront && strings.IndexByte(e.Extra[i], '%') >= 0 {
			if plain, err := url.PathUnescape(e.Extra[i]); err == nil {
				e.Extra[i] = plain
			}
		}
	}
	address := p.cell(p.at.address)
	if address == nil {
		return noAddress
	}
	if why := e.setAddress(address); why != fine {
		return why
	}
	target := p.cell(p.at.stem)
	if query := p.cell(p.at.query); query != nil && target != nil {
		target = append(append(append(make([]byte, 0, len(target)+1+len(query)), target...), '?'), query...)
	}
	return e.setRequest(p.cell(p.at.method), target)
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
