package policy

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/weir-go/weir/core"
)

// Policy is a policy file for requests of type R. It never changes and is safe for
// concurrent use. Make one with [Load] or [Parse].
type Policy[R any] struct {
	file  *fileText
	names Names[R]
	rules []core.Rule[R]
}

// Load reads the policy file at path. Its error reports every mistake of the file (see
// [Mistakes]), or why it cannot be read.
func Load[R any](path string, names Names[R]) (*Policy[R], error) {
	text, err := readAll(path)
	if err != nil {
		return nil, err
	}
	return Parse(path, text, names)
}

// Parse is [Load] of a text. name stands for the file in mistakes, and [Watch] reads the
// file of that name.
func Parse[R any](name string, text []byte, names Names[R]) (*Policy[R], error) {
	f, err := readFile(name, text)
	if err != nil {
		return nil, err
	}
	names = names.complete()
	if mistakes := names.missing(f); len(mistakes) > 0 {
		return nil, collect(mistakes)
	}
	return &Policy[R]{f, names, build(f, names)}, nil
}

// Check reads a file as far as that needs no program: it takes the names that the file
// declares under program for granted. Its error is that of [Parse].
func Check(name string, text []byte) error {
	_, err := readFile(name, text)
	return err
}

// Rules returns the rules of p, for the Rules of a configuration. Rules of mode disabled
// are among them. Overrides are found by what Key of a rule returns: a program that puts
// another key in its place passes LimitFor that of the file. The slice is the caller's.
func (p *Policy[R]) Rules() []core.Rule[R] { return slices.Clone(p.rules) }

// Digest returns the SHA-256 of the file in hexadecimal, by which one can tell whether
// all servers have the same.
func (p *Policy[R]) Digest() string { return p.file.digest }

// Expired returns one line for each override of p that has ended by now, so that somebody
// removes it. It does nothing any more. The lines name no key.
func (p *Policy[R]) Expired(now time.Time) []string { return p.file.expired(time.Time{}, now) }

// expired returns one line for each override that has ended after one instant and by
// another.
func (f *fileText) expired(after, by time.Time) (lines []string) {
	for _, r := range f.rules {
		for _, o := range r.overrides {
			if o.hasEnded(by) && !o.hasEnded(after) {
				m := Mistake{f.name, o.at.line, o.at.column, r.name, "overrides", o.endedText()}
				lines = append(lines, m.Error())
			}
		}
	}
	return lines
}

var errNoFile = errors.New("is not a file")

// readAll reads a file of at most a byte more than a policy file may have. It opens files
// only: to open a device may do something.
func readAll(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("policy: %w", err)
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("policy: %s: %w", path, errNoFile)
	}
	return open(path)
}

// open is readAll of what was a file a moment ago.
func open(path string) ([]byte, error) {
	file, err := os.OpenFile(path, os.O_RDONLY|nonBlocking, 0)
	if err != nil {
		return nil, fmt.Errorf("policy: %w", err)
	}
	defer file.Close()
	if info, err := file.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, fmt.Errorf("policy: %s: %w", path, errNoFile)
	}
	text, err := io.ReadAll(io.LimitReader(file, maxSize+1))
	if err != nil {
		return nil, fmt.Errorf("policy: %w", err)
	}
	return text, nil
}
