package accesslog

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
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
}

// detect reads the start of a log and finds the parser that fits most lines. If the log starts with
// lines that are not requests, detect reads further.
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
		for _, p := range parsers {
			t := try(p, h, most, o)
			if tried = t.lines; t.compare(&best) > 0 {
				best = t
			}
		}
		if best.fit > 0 || h.all {
			break
		}
	}
	if !best.isFormat(o) {
		return nil, shape{}, notFound(o, tried)
	}
	return h, shape{
		parser: best.parser, format: best.format(o),
		exact: best.mostly(best.exact), hasEnds: best.mostly(best.ends),
		status: best.mostly(best.statuses), host: best.mostly(best.hosts),
		extras: best.extras, hidden: best.hidden,
	}, nil
}

func notFound(o *Options, tried int) error {
	switch at := o.Fields["time"]; {
	case o.Format == "jsonl" && at == "":
		return fmt.Errorf("%w: name the fields of its JSON by --field "+
			"time=NAME,address=NAME,method=NAME,path=NAME",
			ErrFormat)
	case o.Format == "jsonl":
		return fmt.Errorf(
			"%w: none of its first lines is a JSON object with a time in the field %q", ErrFormat,
			at)
	case o.Format != "" && o.Format != "auto":
		return fmt.Errorf("%w: none of its first lines is of the format %s", ErrFormat, o.Format)
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
	read, exact, ends, statuses, hosts int

	formats map[string]int // number in fit by format
	extras  []bool         // a line has the extra
	hidden  bool
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
	return t.fit > 0 || isW3C || o.Format != "" && o.Format != "auto"
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
func try(p parser, h *head, most int, o *Options) trial {
	t := trial{parser: p, formats: make(map[string]int), extras: make([]bool, len(o.Extras))}
	e := Entry{Extra: make([]string, len(o.Extras))}
	for line := range h.lines {
		if t.lines == most {
			break
		}
		if line = unwrap(trim(line)); len(line) == 0 || len(line) > maxLine {
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
	t.hidden = t.hidden || e.Redacted
	for i, text := range e.Extra {
		t.extras[i] = t.extras[i] || text != ""
	}
}
