package accesslog

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"strings"
)

const (
	linesTried = 1000    // lines that determine the format
	maxHead    = 4 << 20 // bytes that determine the format
)

// ErrFormat is the error of [New] if it cannot detect the format.
var ErrFormat = errors.New("the format is not known")

// head is the start of a log, which determines its format.
type head struct {
	text []byte
	all  bool // the log has no more
}

// readMore reads more lines, up to the given number or to maxHead.
func (h *head) readMore(r io.Reader, lines int) error {
	for lines > 0 && len(h.text) < maxHead {
		h.text = slices.Grow(h.text, 1<<16)
		n, err := r.Read(h.text[len(h.text):cap(h.text)])
		lines -= bytes.Count(h.text[len(h.text):len(h.text)+n], []byte{'\n'})
		h.text = h.text[:len(h.text)+n]
		if err != nil {
			h.all = true
			return err
		}
	}
	return nil
}

// lines yields the complete lines.
func (h *head) lines(yield func([]byte) bool) {
	for rest := h.text; len(rest) > 0; {
		line, after, ended := bytes.Cut(rest, []byte{'\n'})
		if !ended && !h.all || !yield(line) {
			return
		}
		rest = after
	}
}

// shape is what the first lines of a log tell of all.
type shape struct {
	parser  parser // nil: the log is empty
	format  string // format of most lines
	exact   bool
	hasEnds bool
	extras  []bool
	hidden  bool
	status  bool
	host    bool
	local   bool   // stamps name no zone
	bare    string // the longest duration whose unit is not known, or ""
	guess   string // the column that was chosen for a header, or ""

	envelope *envelope
	survey   survey
}

// detect reads the start of a log and finds the parser that fits most lines. If the log starts with
// lines that are not requests, detect reads further. Of lines that are not requests, objects may
// have the lines in one of their fields.
func detect(r io.Reader, parsers []parser, o *Options) (*head, shape, error) {
	h := &head{}
	best := trial{}
	tried := 0
	for _, most := range []int{linesTried, maxHead} {
		err := h.readMore(r, most)
		if len(h.text) == 0 {
			if err == nil || err == io.EOF {
				return h, shape{}, nil
			}
			return nil, shape{}, fmt.Errorf("cannot be read: %w", err)
		}
		for _, in := range h.envelopes(o) {
			for _, p := range parsers {
				t := try(p, h, most, o, in)
				if tried = t.lines; t.compare(&best) > 0 {
					best = t
				}
			}
			if best.fit > 0 {
				break
			}
		}
		if best.fit > 0 || h.all {
			break
		}
	}
	if !best.isFormat(o) {
		return nil, shape{}, cmp.Or(lack(h, nil), notFound(o, tried))
	}
	s := best.shape(o)
	if s.bare != "" && o.Fields["duration"] != "" {
		return nil, shape{}, fmt.Errorf("the durations in the field %s are numbers, such as %s, "+
			"and the log does not say of what: say it by --duration-unit s, ms, us or ns",
			o.Fields["duration"], s.bare)
	}
	for line := range h.lines {
		e := Entry{Extra: make([]string, len(o.Extras))}
		if line = s.envelope.open(line); s.survey.lines < linesTried && len(line) > 0 &&
			len(line) <= maxLine && s.parser.parse(line, &e) == fine {
			s.survey.add(s.parser, line, &e)
		}
	}
	return h, s, nil
}

// envelopes returns the envelopes that the lines may have: the one that o names, or none and then
// those of collectors, if a line is an object.
func (h *head) envelopes(o *Options) []*envelope {
	if path := o.Fields["line"]; path != "" {
		return []*envelope{newEnvelope(path)}
	}
	all := []*envelope{nil}
	for line := range h.lines {
		if line = unwrap(trim(line)); len(line) > 0 && line[0] == '{' {
			for _, path := range envelopes {
				all = append(all, newEnvelope(path))
			}
			break
		}
	}
	return all
}

func notFound(o *Options, tried int) error {
	switch at := o.Fields["time"]; {
	case o.Format == "jsonl" && at == "":
		return fmt.Errorf("%w: name the fields of its JSON by --field "+
			"time=NAME,address=NAME,method=NAME,path=NAME, or by --field line=NAME the one that "+
			"has the line of a server", ErrFormat)
	case o.Format == "jsonl":
		return fmt.Errorf(
			"%w: none of its first lines is a JSON object with a time in the field %q", ErrFormat,
			at)
	case !o.isAuto():
		return fmt.Errorf("%w: none of its first lines is of the format %s", ErrFormat, o.Format)
	case isForwarded(o.Fields["address"]):
		return fmt.Errorf("%w: no column of its first lines has addresses besides that of the "+
			"client, so %s is not there", ErrFormat, o.Fields["address"])
	}
	if tried == 0 {
		return fmt.Errorf("%w: all of its first lines are empty or longer than %d bytes", ErrFormat, maxLine)
	}
	return fmt.Errorf("%w: none of its first %d lines is a request in a known format: name the "+
		"format by --format", ErrFormat, tried)
}

// trial is the result of a parser on the first lines.
type trial struct {
	parser parser
	lines  int // lines tried
	fit    int // lines with a request, even without an address
	other  int // lines of the format without a request

	// Numbers of lines in fit: those that became entries, and entries with each property.
	read, exact, ends, statuses, hosts, locals int

	formats map[string]int // number in fit by format
	extras  []bool         // a line has the extra
	hidden  bool
	bare    string

	envelope *envelope
	guess    string
}

// shape returns what the trial tells of the log.
func (t *trial) shape(o *Options) shape {
	return shape{
		parser: t.parser, format: t.format(o), exact: t.mostly(t.exact), hasEnds: t.mostly(t.ends),
		status: t.mostly(t.statuses), host: t.mostly(t.hosts), extras: t.extras, hidden: t.hidden,
		local: t.mostly(t.locals), bare: t.bare, envelope: t.envelope, guess: t.guess,
		survey: survey{clients: make(map[netip.Addr]bool), columns: make(map[string]*addresses)},
	}
}

// compare orders two parsers by the number of lines that fit.
func (t *trial) compare(other *trial) int {
	return cmp.Or(cmp.Compare(t.fit, other.fit), cmp.Compare(t.read, other.read),
		cmp.Compare(t.other, other.other))
}

// mostly reports whether n is more than half of the entries. A minority proves nothing: a client
// can write a request with a host into any log.
func (t *trial) mostly(n int) bool { return n*2 > t.read }

// isFormat reports whether the log has the format. Lines without requests are enough if the format
// was named, or if a directive tells it.
func (t *trial) isFormat(o *Options) bool {
	if t.parser == nil {
		return false
	}
	if kind, ok := t.parser.(*clf); ok && kind.named != nil {
		return t.formats[kind.named.name] > 0
	}
	_, isW3C := t.parser.(*w3c)
	return t.fit > 0 || isW3C || !o.isAuto()
}

// format returns the named format, or the format of most lines that fit.
func (t *trial) format(o *Options) string {
	best := ""
	for name, n := range t.formats {
		if n > t.formats[best] || n == t.formats[best] && name < best {
			best = name
		}
	}
	if kind, ok := t.parser.(*clf); ok && kind.named != nil {
		best = kind.named.name
	}
	if w, ok := t.parser.(*w3c); ok && best == "" {
		best = w.format()
	}
	return cmp.Or(best, o.Format)
}

// try parses up to most of the first lines.
func try(p parser, h *head, most int, o *Options, in *envelope) trial {
	t := trial{parser: p, formats: make(map[string]int), extras: make([]bool, len(o.Extras)),
		envelope: in}
	if c, ok := p.(*clf); ok && c.guess != "" {
		if t.guess = c.choose(h, in); t.guess == "" {
			t.parser = nil
			return t
		}
	}
	e := Entry{Extra: make([]string, len(o.Extras))}
	for line := range h.lines {
		if t.lines == most {
			break
		}
		if line = in.open(line); len(line) == 0 || len(line) > maxLine {
			continue
		}
		t.lines++
		e.reset()
		switch p.parse(line, &e) {
		case fine:
			t.entry(&e)
			fallthrough
		case noAddress, noRequest:
			t.fit++
			t.formats[e.format]++
		case otherLine, directive:
			t.other++
		}
	}
	if w, ok := p.(*w3c); t.fit+t.other == 0 || ok && w.columns == 0 {
		t.parser = nil
	}
	return t
}

// entry counts the properties of an entry.
func (t *trial) entry(e *Entry) {
	count := func(n *int, is bool) {
		if is {
			*n++
		}
	}
	t.read++
	count(&t.exact, e.Exact)
	count(&t.ends, e.HasEnd)
	count(&t.statuses, e.Status != 0)
	count(&t.hosts, e.Host != "")
	count(&t.locals, e.local)
	if len(e.bare) > len(t.bare) || len(e.bare) == len(t.bare) && e.bare > t.bare {
		t.bare = strings.Clone(e.bare)
	}
	t.hidden = t.hidden || e.Redacted
	for i, text := range e.Extra {
		t.extras[i] = t.extras[i] || text != ""
	}
}
