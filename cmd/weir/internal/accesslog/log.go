package accesslog

import (
	"bufio"
	"bytes"
	"compress/bzip2"
	"compress/gzip"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"time"

	"github.com/weir-go/weir/cmd/weir/internal/visible"
)

// Log reads one log. It is not safe for concurrent use.
type Log struct {
	file  string
	lines *bufio.Reader
	shape
	tally   tally
	line    int64  // number of the latest line, as in editors
	last    []byte // the latest line
	closers []io.Closer
	text    maphash.Hash // hash of the decompressed text so far
	longest time.Duration
	origins origins
	options *Options
}

// seed is shared by all logs, so that equal texts have equal hashes.
var seed = maphash.MakeSeed()

// New reads the start of a log, which may be compressed by gzip or bzip2, and detects its format.
// name is for errors. Close the log afterwards; r stays open.
func New(name string, r io.Reader, o *Options) (*Log, error) {
	l := &Log{file: name, options: o}
	plain, err := l.decompress(bufio.NewReaderSize(r, 1<<16))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", visible.Name(name), err)
	}
	l.text.SetSeed(seed)
	plain = io.TeeReader(plain, &l.text)
	parsers, why, err := newParsers(o)
	if err != nil {
		return nil, err
	}
	head, shape, err := detect(plain, parsers, o)
	if err != nil {
		l.Close()
		if why != nil {
			err = fmt.Errorf("%w (%w)", err, why)
		}
		return nil, fmt.Errorf("%s: %w", visible.Name(name), err)
	}
	l.shape = shape
	l.lines = bufio.NewReaderSize(io.MultiReader(bytes.NewReader(head.text), plain), maxLine)
	return l, nil
}

func (l *Log) decompress(r *bufio.Reader) (io.Reader, error) {
	magic, _ := r.Peek(4)
	switch {
	case bytes.HasPrefix(magic, []byte{0x1f, 0x8b}):
		z, err := gzip.NewReader(r)
		if err != nil {
			return nil, fmt.Errorf("is not readable as gzip: %w", err)
		}
		l.closers = append(l.closers, z)
		return z, nil
	case bytes.HasPrefix(magic, []byte("BZh")):
		return bzip2.NewReader(r), nil
	case bytes.Equal(magic, []byte{0x28, 0xb5, 0x2f, 0xfd}):
		return nil,
			errors.New("is compressed by zstd: decompress it first, such as by zstdcat file | " +
				"weir simulate … -")
	case bytes.HasPrefix(magic, []byte("\xff\xfe")) || bytes.HasPrefix(magic, []byte("\xfe\xff")):
		return nil,
			errors.New("is UTF-16, as PowerShell writes it: make it UTF-8 first, such as by " +
				"iconv -f UTF-16 -t UTF-8 file")
	case bytes.HasPrefix(magic, []byte("\xfd7zX")):
		return nil,
			errors.New("is compressed by xz: decompress it first, such as by xzcat file | weir " +
				"simulate … -")
	}
	return r, nil
}

// Close releases the decompressor.
func (l *Log) Close() {
	for _, c := range l.closers {
		c.Close()
	}
}

// Name returns the name of the log.
func (l *Log) Name() string { return l.file }

// Format returns the name of the format; "" if the log is empty.
func (l *Log) Format() string { return l.format }

// Exact reports whether most stamps are finer than a second.
func (l *Log) Exact() bool { return l.exact }

// HasEnds reports whether most requests have a duration.
func (l *Log) HasEnds() bool { return l.hasEnds }

// HasStatus reports whether most requests have a status.
func (l *Log) HasStatus() bool { return l.status }

// HasHost reports whether most requests have a host.
func (l *Log) HasHost() bool { return l.host }

// StampsEnds reports whether stamps are the ends of requests, so that arrival is the stamp minus
// the duration.
func (l *Log) StampsEnds() bool { return l.parser != nil && l.parser.stampsEnds() }

// Has reports whether the first lines have the i-th of Options.Extras.
func (l *Log) Has(i int) bool { return l.parser != nil && l.extras[i] }

// Redacted reports whether the first lines hide a value of Options.Extras.
func (l *Log) Redacted() bool { return l.hidden }

// Longest returns the longest duration so far.
func (l *Log) Longest() time.Duration { return l.longest }

// Notes returns what a reader of a report should know about the log, once it was read to its end:
// what was guessed, and what the lines do not say.
func (l *Log) Notes() (notes []string) {
	if l.parser == nil || l.tally.counts.Requests == 0 {
		return nil
	}
	note := func(format string, args ...any) { notes = append(notes, fmt.Sprintf(format, args...)) }
	if l.guess != "" {
		note("The column %s was taken for %s, since it has addresses: --field address=NAME names "+
			"another.", l.guess, l.parser.(*clf).guess)
	}
	if text := says(l.format); text != "" && l.options.Fields["address"] == "" {
		note("%s", text)
	}
	if l.options.Fields["address"] == "" {
		if text := l.survey.note(l.origins); text != "" {
			note("%s", text)
		}
	}
	_, isW3C := l.parser.(*w3c)
	switch {
	case l.bare != "":
		note("The durations, such as %s, were not used, since the log does not say what they "+
			"count: say it by --duration-unit s, ms, us or ns.", l.bare)
	case l.longest > 0 && (isW3C || l.options.Unit != 0 || l.options.Fields["duration"] != ""):
		note("The longest duration was read as %s. If requests take other times, say what "+
			"durations count by --duration-unit.", l.longest)
	case l.longest == 0 && l.options.Unit != 0:
		note("--duration-unit has no effect: the lines have no durations, or their field is not " +
			"named by --field duration=NAME.")
	}
	if l.local {
		note("The stamps name no zone, and were read as UTC. If the server has another zone, " +
			"periods of the calendar, such as a day, begin at other requests.")
	}
	return notes
}

// Text returns a hash of the log's text, once it was read to its end. Logs of equal text have equal
// hashes.
func (l *Log) Text() uint64 { return l.text.Sum64() }

// Counts returns the counts of the lines so far.
func (l *Log) Counts() *Counts { return &l.tally.counts }

// Skipped returns the lines that are not simulated, by kind.
func (l *Log) Skipped() []Skipped { return l.tally.skipped() }

// Next reads the next request into e. It returns false at the end of the log.
func (l *Log) Next(e *Entry) bool {
	counts := l.Counts()
	for {
		line, err := l.lines.ReadSlice('\n')
		if len(line) > 0 {
			l.line++
		}
		if err == bufio.ErrBufferFull {
			counts.Incomplete = !l.skip() || counts.Incomplete
			counts.Lines++
			l.tally.add(tooLong, nil, l.line, l.format)
			continue
		}
		if err != nil && err != io.EOF {
			counts.Incomplete = true
		}
		if line = l.envelope.open(line); len(line) > 0 {
			e.reset()
			l.last = line
			why := l.parser.parse(line, e)
			// no newline: the line was cut off
			if err == io.EOF && (isDamaged(why) || l.isLess(e)) {
				counts.Incomplete = true
			}
			if why != directive {
				counts.Lines++
			}
			if why == fine {
				counts.Requests++
				l.longest = max(l.longest, e.Lasted)
				l.origins.add(e.Address)
				return true
			}
			l.tally.add(why, line, l.line, l.format)
		}
		if err != nil {
			return false
		}
	}
}

// isLess reports whether a line has fewer fields of the common log format than most others.
func (l *Log) isLess(e *Entry) bool {
	_, isCLF := l.parser.(*clf)
	return isCLF && rankOf(e.format) > rankOf(l.format)
}

// Reject moves the latest request of Next to the lines without a request: a server would have
// rejected it.
func (l *Log) Reject() {
	l.tally.counts.Requests--
	l.tally.add(noRequest, l.last, l.line, l.format)
}

// skip skips the rest of a line that is too long. It returns false if the log ended.
func (l *Log) skip() bool {
	for {
		if _, err := l.lines.ReadSlice('\n'); err != bufio.ErrBufferFull {
			return err == nil
		}
	}
}
