package headers

import (
	"net/http"
	"strings"
)

// Kept is the fields that an answer had when its request was allowed. Handlers inside a limiter may
// answer with the header of another answer: a cache, or a proxy after an informational answer. The
// zero Kept has no fields. See [Writer.Keep].
type Kept struct {
	n    int
	few  [2]keptLine // those of IETF, without an allocation
	more []keptLine
}

type keptLine struct {
	field field
	text  string
}

// Changed reports whether h has lost a field of k, has it more than once, or has that of another
// answer. A limiter inside may have added members or written numbers that bind more, and [Delete]
// is on purpose.
func (k *Kept) Changed(h http.Header) bool {
	for i := range k.n {
		if k.few[i].changed(h) {
			return true
		}
	}
	for i := range k.more {
		if k.more[i].changed(h) {
			return true
		}
	}
	return false
}

// Restore writes the fields of k that h has lost, or has not as k has them: see [Kept.Changed].
func (k *Kept) Restore(h http.Header) {
	for i := range k.n {
		k.few[i].restore(h)
	}
	for i := range k.more {
		k.more[i].restore(h)
	}
}

func (l *keptLine) changed(h http.Header) bool {
	lines, ok := h[keys[l.field]]
	switch len(lines) {
	case 0:
		return !ok // Delete leaves a field without lines
	case 1:
		return l.field <= fieldPolicy && !extends(lines[0], l.text)
	}
	return true
}

func (l *keptLine) restore(h http.Header) {
	if l.changed(h) {
		h[keys[l.field]] = []string{l.text}
	}
}

// extends reports whether the list in line begins with text.
func extends(line, text string) bool {
	rest, ok := strings.CutPrefix(line, text)
	return ok && (rest == "" || rest[0] == ',')
}
