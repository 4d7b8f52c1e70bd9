package policy

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Mistake is one thing that has to be changed in a policy file.
type Mistake struct {
	File         string // as passed to [Load], [Parse] or [Check]
	Line, Column int    // from 1; 0: the whole file
	Rule         string // name of the rule; "": outside of rules
	Field        string // such as "limit.plans.free"; "": none
	Text         string // what to change
}

// Error returns the mistake as one line: file:line:column: rule "x": field: text. The name of the
// file is quoted if a character of it is invisible.
func (m *Mistake) Error() string {
	var b strings.Builder
	b.WriteString(shownName(m.File))
	if m.Line > 0 {
		fmt.Fprintf(&b, ":%d:%d", m.Line, m.Column)
	}
	b.WriteString(": ")
	if m.Rule != "" {
		fmt.Fprintf(&b, "rule %q: ", m.Rule)
	}
	if m.Field != "" {
		b.WriteString(m.Field + ": ")
	}
	b.WriteString(m.Text)
	return b.String()
}

// shownName returns the name of a file for errors: quoted, with escapes, if a character of it is
// invisible. A newline in a name would otherwise look like the start of another error.
func shownName(file string) string {
	if utf8.ValidString(file) &&
		!strings.ContainsFunc(file, func(c rune) bool { return !unicode.IsGraphic(c) }) {
		return file
	}
	return strconv.Quote(file)
}

// maxShown is the number of mistakes that the text of an error lists. A program that logs the text
// must survive a file with a million mistakes.
const maxShown = 50

// collect returns mistakes as one error, in the order of the file, or nil if there are none.
func collect(mistakes []*Mistake) error {
	if len(mistakes) == 0 {
		return nil
	}
	sortMistakes(mistakes)
	return mistakesError(mistakes)
}

// sortMistakes sorts mistakes in the order of the file.
func sortMistakes(mistakes []*Mistake) {
	slices.SortStableFunc(mistakes, func(a, b *Mistake) int {
		return cmp.Or(a.Line-b.Line, a.Column-b.Column)
	})
}

// mistakesError holds every mistake of a file. [Mistakes] returns them.
type mistakesError []*Mistake

func (e mistakesError) Error() string {
	var b strings.Builder
	for i, m := range e {
		if i > 0 {
			b.WriteByte('\n')
		}
		if i == maxShown {
			fmt.Fprintf(&b, "%s: and %d more mistakes", shownName(m.File), len(e)-i)
			break
		}
		b.WriteString(m.Error())
	}
	return b.String()
}

func (e mistakesError) Unwrap() []error {
	errs := make([]error, len(e))
	for i, m := range e {
		errs[i] = m
	}
	return errs
}

// Mistakes returns every mistake that err reports, in the order of the file. It returns nil if err
// is not an error of [Load], [Parse] or [Check], or is about a file that cannot be read.
func Mistakes(err error) []*Mistake {
	var all mistakesError
	if errors.As(err, &all) {
		return slices.Clone([]*Mistake(all))
	}
	return nil
}
