// Package nginxconf reads configuration files of nginx as directives with their places.
//
// It knows the language (ngx_conf_file.c), blocks of Lua, and include. It knows no directive: what
// a directive means is for the caller. Modules that read such files exist, but none of them keeps
// the column of an argument, and those with a list of known directives refuse the others.
package nginxconf

import (
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// Place is a place in a file. Lines and columns count from 1, columns in characters.
type Place struct {
	File         string
	Line, Column int
}

// Word is the name of a directive or an argument, without its quotes and escapes.
type Word struct {
	Place
	Text string
}

// Directive is a directive with its arguments.
type Directive struct {
	Word
	Args  []Word
	Block []*Directive // directives between braces
	Opens bool         // it has braces
}

// Mistake is a part of a file that cannot be read.
type Mistake struct {
	Place
	Text string
}

const (
	maxDepth = 64      // of blocks and of files that include each other
	maxFiles = 10_000  // that a file may include
	maxBytes = 4 << 20 // of a file
)

// Files finds the files of include. The zero value finds none.
type Files struct {
	Dir  string // of relative names: the directory of the first file
	Open func(name string) (io.ReadCloser, error)
	Glob func(pattern string) (names []string, err error)
}

// Parse reads the text of a file, and of all that it includes. A text that nginx -T printed has
// these files itself. It returns what could be read beside the mistakes.
func (files Files) Parse(name string, text []byte) ([]*Directive, []Mistake) {
	p := &parser{files: files}
	if first, ok := p.readDump(text); ok {
		name, text = first, p.dumped[first]
	}
	directives := p.file(name, text)
	return directives, p.mistakes
}

// parser reads a file and those that it includes.
type parser struct {
	files    Files
	dumped   map[string][]byte // files that nginx -T printed, by name; nil: none
	depth    int
	included int
	mistakes []Mistake
}

func (p *parser) mistake(at Place, format string, args ...any) {
	p.mistakes = append(p.mistakes, Mistake{at, fmt.Sprintf(format, args...)})
}

// dumpMark begins a file in what nginx -T prints.
const dumpMark = "# configuration file "

// readDump splits what nginx -T printed into files, and returns the name of the first one.
func (p *parser) readDump(text []byte) (first string, ok bool) {
	rest := text
	for len(rest) > 0 && !bytes.HasPrefix(rest, []byte(dumpMark)) {
		line, after, _ := bytes.Cut(rest, []byte("\n"))
		if len(line) > 0 && !bytes.HasPrefix(line, []byte("nginx: ")) { // the verdict of the test
			return "", false
		}
		rest = after
	}
	if len(rest) == 0 {
		return "", false
	}
	p.dumped = make(map[string][]byte)
	name := ""
	for line := range bytes.Lines(rest) {
		if mark, ok := bytes.CutPrefix(line, []byte(dumpMark)); ok {
			name = strings.TrimSuffix(strings.TrimSpace(string(mark)), ":")
			if first == "" {
				first = name
			}
			p.dumped[name] = nil
			continue
		}
		p.dumped[name] = append(p.dumped[name], line...)
	}
	p.files.Dir = path.Dir(first)
	return first, true
}

// file reads one file.
func (p *parser) file(name string, text []byte) []*Directive {
	s := &scanner{text: text, at: Place{name, 1, 1}}
	if len(text) > maxBytes {
		p.mistake(s.at, "the file has more than %d bytes: no configuration has", maxBytes)
		return nil
	}
	directives := p.block(s, nil)
	return directives
}

// block reads directives up to the end of the block that open began, or of the file if it is nil.
func (p *parser) block(s *scanner, open *Directive) (directives []*Directive) {
	p.depth++
	defer func() { p.depth-- }()
	var d *Directive
	for {
		t, why := s.next()
		if why != "" {
			p.mistake(t.Place, "%s", why)
			return directives
		}
		switch t.kind {
		case word:
			if d == nil {
				d = &Directive{Word: t.Word}
			} else {
				d.Args = append(d.Args, t.Word)
			}
			continue
		case semicolon:
			if d == nil {
				p.mistake(t.Place, "a semicolon without a directive: remove it")
			} else if d.Text == "include" {
				directives = append(directives, p.include(d)...)
			} else {
				directives = append(directives, d)
			}
		case opening:
			switch {
			case d == nil:
				p.mistake(t.Place, "a brace without a directive: remove it")
				return directives
			case p.depth > maxDepth:
				p.mistake(t.Place, "blocks are more than %d deep: write it flatter", maxDepth)
				return directives
			}
			d.Opens = true
			if strings.HasSuffix(d.Text, "_by_lua_block") {
				if !s.skipLua() {
					p.mistake(t.Place, "the block of Lua does not end: write }")
					return directives
				}
			} else {
				d.Block = p.block(s, d)
			}
			directives = append(directives, d)
		case closing, end:
			if d != nil {
				p.mistake(d.Place, "the directive %q does not end: write a semicolon behind it",
					d.Text)
			}
			switch {
			case t.kind == closing && open == nil:
				p.mistake(t.Place, "a brace closes no block: remove it")
				d = nil
				continue
			case t.kind == end && open != nil:
				p.mistake(open.Place, "the block of %q does not end: write } behind it", open.Text)
			}
			return directives
		}
		d = nil
	}
}

// include reads the files that a directive includes.
func (p *parser) include(d *Directive) (directives []*Directive) {
	if len(d.Args) != 1 {
		p.mistake(d.Place, "include has one argument: a file, or a pattern of files")
		return nil
	}
	at := d.Args[0]
	if p.depth > maxDepth {
		p.mistake(at.Place, "files include each other more than %d deep: remove one", maxDepth)
		return nil
	}
	names, why := p.find(at.Text)
	if why != "" {
		p.mistake(at.Place, "%s", why)
		return nil
	}
	p.depth++
	defer func() { p.depth-- }()
	for _, name := range names {
		if p.included++; p.included > maxFiles {
			p.mistake(at.Place, "more than %d files are included: name them apart", maxFiles)
			return directives
		}
		text, err := p.read(name)
		if err != nil {
			p.mistake(at.Place, "%s cannot be read, so what it limits is not known: %v", name,
				plainError(err))
			continue
		}
		directives = append(directives, p.file(name, text)...)
	}
	return directives
}

// find returns the files of a name or pattern, sorted.
func (p *parser) find(pattern string) (names []string, why string) {
	if !filepath.IsAbs(pattern) && !path.IsAbs(pattern) {
		pattern = filepath.Join(p.files.Dir, pattern)
	}
	if !strings.ContainsAny(pattern, "*?[") {
		return []string{pattern}, ""
	}
	if p.dumped != nil {
		for name := range p.dumped {
			ok, err := path.Match(pattern, name)
			if err != nil {
				return nil, "is no pattern of files: " + err.Error()
			}
			if ok {
				names = append(names, name)
			}
		}
		slices.Sort(names)
		return names, ""
	}
	if p.files.Glob == nil {
		return nil, "files cannot be included here"
	}
	names, err := p.files.Glob(pattern)
	if err != nil {
		return nil, "is no pattern of files: " + err.Error()
	}
	slices.Sort(names)
	return names, ""
}

func (p *parser) read(name string) ([]byte, error) {
	if p.dumped != nil {
		if text, ok := p.dumped[name]; ok {
			return text, nil
		}
		return nil, fs.ErrNotExist
	}
	if p.files.Open == nil {
		return nil, fs.ErrPermission
	}
	f, err := p.files.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, maxBytes+1))
}

// plainError returns an error without the operation and the path.
func plainError(err error) error {
	if path, ok := err.(*fs.PathError); ok {
		return path.Err
	}
	return err
}
