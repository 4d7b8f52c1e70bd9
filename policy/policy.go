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

// Policy is a policy file for requests of type R. It is immutable and safe for concurrent use. Make
// one with [Load] or [Parse].
type Policy[R any] struct {
	file  *fileText
	names Names[R]
	rules []core.Rule[R]
}

// Load reads the policy file at path. Its error reports every mistake of the file (see [Mistakes]),
// or why the file cannot be read.
func Load[R any](path string, names Names[R]) (*Policy[R], error) {
	text, err := readAll(path)
	if err != nil {
		return nil, err
	}
	return Parse(path, text, names)
}

// Parse is [Load] for a text. name is the file name in mistakes, and [Watch] reads the file of that
// name.
func Parse[R any](name string, text []byte, names Names[R]) (*Policy[R], error) {
	f, err := readFile(name, text)
	if err != nil {
		return nil, err
	}
	names = names.complete()
	if mistakes := names.missing(f); len(mistakes) > 0 {
		return nil, collect(mistakes)
	}
	f.readPaths(names.AnyServer)
	return &Policy[R]{f, names, build(f, names)}, nil
}

// Check checks a file without the functions of the program: it assumes that the program supplies
// all names declared under program. Its error is that of [Parse].
func Check(name string, text []byte) error {
	_, err := readFile(name, text)
	return err
}

// Rules returns the rules of p for a limiter's Config, including rules of mode disabled. Overrides
// look up the key that the rule's Key returns: a program that wraps Key must pass the original key
// to LimitFor. The caller owns the slice.
func (p *Policy[R]) Rules() []core.Rule[R] { return slices.Clone(p.rules) }

// Digest returns the SHA-256 of the file in hexadecimal. Compare it to see whether all servers use
// the same file.
func (p *Policy[R]) Digest() string { return p.file.digest }

// Expired returns one line for each override of p that ended before now. Such an override has no
// effect and can be removed from the file. The lines contain no key.
func (p *Policy[R]) Expired(now time.Time) []string { return p.file.expired(time.Time{}, now) }

// expired returns one line for each override that ended after the time after and not after by.
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

// readAll reads a file, up to one byte more than a policy file may have. It opens regular files
// only: opening a device may have an effect.
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

// open opens path without blocking, in case it is no longer a regular file.
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
