package accesslog

import (
	"bytes"
	"fmt"
	"io"
)

// linesTried is how many lines decide about the format.
const linesTried = 50

// detect finds the parser that reads most of the first lines.
func (l *Log) detect(parsers []parser, o *Options) error {
	head, err := l.lines.Peek(maxLine)
	if len(head) == 0 {
		if err == nil || err == io.EOF {
			return nil
		}
		return fmt.Errorf("cannot be read: %w", err)
	}
	best := trial{}
	for _, p := range parsers {
		if t := l.try(p, head, o); t.score > best.score {
			best = t
		}
	}
	if best.parser == nil {
		if at := o.Fields["time"]; o.Format == "jsonl" && at == "" {
			return fmt.Errorf("%w: name the fields of its JSON by --field time=NAME,address=NAME,method=NAME,path=NAME", ErrFormat)
		} else if o.Format == "jsonl" {
			return fmt.Errorf("%w: none of its first lines is a JSON object with a time in the field %q", ErrFormat, at)
		}
		if o.Format != "" && o.Format != "auto" {
			return fmt.Errorf("%w: none of its first lines is of the format %s", ErrFormat, o.Format)
		}
		return fmt.Errorf("%w: none of its first lines is of a known format; name the format by --format, or the fields of JSON by --field", ErrFormat)
	}
	l.parser, l.exact, l.hasEnds, l.extras, l.hidden = best.parser, best.exact, best.ends*2 > best.read, best.extras, best.hidden
	l.status, l.host = best.status, best.host
	return nil
}

// trial is how well a parser reads the first lines.
type trial struct {
	parser     parser
	score      int
	exact      bool // there is a stamp finer than a second
	read, ends int  // entries, and those that have a duration
	extras     []bool
	hidden     bool
	status     bool
	host       bool
}

// A line of the format that is no request says less than an entry.
var scores = [problems]int{fine: 4, noRequest: 2, noAddress: 2, otherLine: 1}

func (l *Log) try(p parser, head []byte, o *Options) trial {
	t := trial{extras: make([]bool, len(o.Extras))}
	e := Entry{Extra: make([]string, len(o.Extras))}
	complete := len(head) < maxLine
	for tried := 0; tried < linesTried && len(head) > 0; tried++ {
		line, rest, ended := bytes.Cut(head, []byte("\n"))
		if !ended && !complete {
			break
		}
		head = rest
		if line = trim(line); len(line) == 0 {
			continue
		}
		e.reset()
		why := p.parse(line, &e)
		t.score += scores[why]
		if why != fine {
			continue
		}
		t.read++
		t.exact = t.exact || e.Exact
		t.hidden = t.hidden || e.Redacted
		t.status = t.status || e.Status != 0
		t.host = t.host || e.Host != ""
		if e.HasEnd {
			t.ends++
		}
		for i, text := range e.Extra {
			t.extras[i] = t.extras[i] || text != ""
		}
	}
	if t.score > 0 {
		t.parser = p
	}
	return t
}
