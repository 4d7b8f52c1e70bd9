package tokens

import (
	"cmp"
	"slices"
	"strconv"

	"github.com/weir-go/weir/internal/ground/arith"
)

// estimate is what a request may use, by its parts.
type estimate struct {
	text   int64
	media  [mediaKinds]struct{ count, tokens int64 }
	output int64  // of all choices
	bound  string // the member that bounds the output, or ""
}

// newEstimate returns the estimate of a request.
func newEstimate(config *Config, api API, body []byte, asked asked) (e estimate) {
	found := mediaIn(api, body)
	for _, medium := range found {
		n := int64(-1)
		if config.Media != nil {
			n = config.Media(medium.typeIn(body), body[medium.data:medium.text.end])
		}
		if n < 0 {
			n = mediaRows[medium.kind].tokens
		}
		of := &e.media[medium.kind]
		of.count, of.tokens = of.count+1, arith.Sum(of.tokens, n)
	}
	if config.Count == nil {
		e.text = quarter(int64(len(body) - lengthOf(found)))
	} else {
		text := without(body, found)
		if e.text = config.Count(text); e.text < 0 {
			e.text = int64(len(text))
		}
	}
	e.output = product(cmp.Or(asked.output, config.Output), asked.choices)
	e.bound = asked.bound
	return e
}

// usage returns the usage that e is.
func (e *estimate) usage() Usage {
	u := Usage{Input: e.text, Output: e.output}
	for _, m := range e.media {
		u.Input = arith.Sum(u.Input, m.tokens)
	}
	return u
}

// String returns a sentence that names the parts of e, the largest first.
func (e *estimate) String() string {
	type part struct {
		tokens int64
		name   string
	}
	output := " of output (the request names no maximum)"
	if e.bound != "" {
		output = " of output (" + e.bound + ")"
	}
	parts := []part{{e.text, " of text"}, {e.output, output}}
	for kind, m := range e.media {
		switch row := mediaRows[kind]; m.count {
		case 0:
		case 1:
			parts = append(parts, part{m.tokens, " of " + row.one})
		default:
			parts = append(parts, part{m.tokens, " of " + strconv.FormatInt(m.count, 10) + " " + row.many})
		}
	}
	slices.SortStableFunc(parts, func(a, b part) int { return cmp.Compare(b.tokens, a.tokens) })
	u := e.usage()
	b := strconv.AppendInt([]byte("It may use "), u.tokens(), 10)
	b = append(b, " tokens: "...)
	for i, p := range parts {
		switch {
		case i == 0:
		case i == len(parts)-1:
			b = append(b, " and "...)
		default:
			b = append(b, ", "...)
		}
		b = append(strconv.AppendInt(b, p.tokens, 10), p.name...)
	}
	return string(append(b, '.'))
}
