// Package httpsig reads HTTP Message Signatures of requests (RFC 9421) and rebuilds the text that
// was signed. It verifies Ed25519 alone. It knows no policy: which components must be covered, how
// long a signature is good for and whose key counts is for the caller.
//
// It is strict where the RFC leaves room. A field of more than 8 KiB, a label or a parameter that
// occurs twice, a component that is covered twice, and parameters of other types than Integer,
// String, Token and Boolean are refused. So one request has one reading.
package httpsig

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"errors"
	"iter"
	"net/http"
	"slices"
	"strconv"

	"github.com/weir-go/weir/internal/http/structured"
)

// Bounds of what is read.
const (
	maxField      = 8 << 10 // bytes of a field, all lines together
	maxSignatures = 8       // in a request
	maxComponents = 24      // that a signature covers
)

// ErrMalformed is the error for fields that are no signature, or exceed a bound.
var ErrMalformed = errors.New("httpsig: the signature is malformed")

// Signature is a signature of a request, as the field Signature-Input describes it. Its texts are
// the content of Strings, which may have escapes.
type Signature struct {
	Label            string
	KeyID            string
	Nonce            string
	Algorithm        string // "": not said
	Tag              string
	Created, Expires int64 // in seconds of Unix time; 0: not said
	Value            [ed25519.SignatureSize]byte

	covered [maxComponents]component
	count   int
	params  []byte // the canonical text of the list of components and its parameters
}

// component is the identifier of what a signature covers.
type component struct {
	name string
	key  string // the member of a Dictionary, or the parameter of a query
	part part
}

// part says which part or form of a field a component is.
type part uint8

const (
	whole  part = iota
	member      // the parameter key: one member of a Dictionary
	query       // the parameter name of @query-param
	binary      // the parameter bs
)

// Signed reports whether h has the fields of a signature.
func Signed(h http.Header) bool { return len(h["Signature-Input"]) > 0 || len(h["Signature"]) > 0 }

// Find returns the signatures of h that have a tag, in the order of Signature-Input. It returns
// ErrMalformed if the fields can be read in no way, or in two. Signatures with another tag may be
// by another algorithm; their values are not read.
func Find(h http.Header, tag string) ([]Signature, error) {
	if size(h["Signature-Input"]) > maxField || size(h["Signature"]) > maxField {
		return nil, ErrMalformed
	}
	var found []Signature
	var labels [maxSignatures]string
	n := 0
	inputs := structured.Dictionary(h["Signature-Input"])
	for inputs.Member() {
		s := Signature{Label: inputs.Key}
		if n == maxSignatures || slices.Contains(labels[:n], s.Label) || inputs.Value.Kind != structured.InnerList {
			return nil, ErrMalformed
		}
		labels[n] = s.Label
		n++
		ok := s.read(&inputs)
		if s.Tag != tag {
			continue
		}
		if !ok {
			return nil, ErrMalformed
		}
		found = append(found, s)
	}
	if inputs.Malformed() || !readValues(h["Signature"], found) {
		return nil, ErrMalformed
	}
	return found, nil
}

func size(lines []string) (n int) {
	for _, line := range lines {
		n += len(line) + 2 // for the comma and the space that join two lines
	}
	return n
}

// read reads a member of Signature-Input. It reports false if that is no signature of this package.
func (s *Signature) read(inputs *structured.Scanner) bool {
	ok := true
	b := append(make([]byte, 0, 256), '(')
	for inputs.Item() {
		if s.count > 0 {
			b = append(b, ' ')
		}
		var c component
		b, c = appendComponent(b, inputs)
		if c.name == "" || s.count == maxComponents || slices.Contains(s.covered[:s.count], c) {
			ok = false
			continue
		}
		s.covered[s.count] = c
		s.count++
	}
	b = append(b, ')')
	var seen keys
	for inputs.Parameter() {
		ok = seen.add(inputs.Key) && ok
		v := inputs.Value
		text, number := "", int64(0)
		switch v.Kind {
		case structured.String:
			text = v.Text
		case structured.Integer:
			number = v.N
		}
		switch inputs.Key {
		case "keyid":
			s.KeyID, ok = text, ok && v.Kind == structured.String
		case "nonce":
			s.Nonce, ok = text, ok && v.Kind == structured.String
		case "alg":
			s.Algorithm, ok = text, ok && v.Kind == structured.String
		case "tag":
			s.Tag, ok = text, ok && v.Kind == structured.String
		case "created":
			s.Created, ok = number, ok && v.Kind == structured.Integer && number > 0
		case "expires":
			s.Expires, ok = number, ok && v.Kind == structured.Integer && number > 0
		}
		var written bool
		b, written = appendParameter(b, inputs.Key, v)
		ok = ok && written
	}
	s.params = b
	return ok
}

// keys are the keys of parameters that were read, to find one that occurs twice.
type keys struct {
	seen [16]string
	n    int
}

// add reports false if key was added before, or if there is no room.
func (k *keys) add(key string) bool {
	if k.n == len(k.seen) || slices.Contains(k.seen[:k.n], key) {
		return false
	}
	k.seen[k.n] = key
	k.n++
	return true
}

// appendComponent appends the identifier of the item that s has read. Its name is "" if no request
// has such a component.
func appendComponent(b []byte, s *structured.Scanner) ([]byte, component) {
	c := component{name: s.Value.Text}
	ok := s.Value.Kind == structured.String && isName(c.name)
	isField := ok && c.name[0] != '@'
	b, _ = appendItem(b, s.Value)
	for s.Parameter() {
		ok = ok && c.part == whole // all others go with no second parameter
		switch {
		case s.Key == "key" && s.Value.Kind == structured.String && isField:
			c.key, c.part = s.Value.Text, member
		case s.Key == "name" && s.Value.Kind == structured.String && c.name == "@query-param":
			c.key, c.part = s.Value.Text, query
		case s.Key == "bs" && s.Value == (structured.Value{Kind: structured.Boolean, N: 1}) && isField:
			c.part = binary
		default: // sf needs the type of the field; req and tr belong to answers and trailers
			ok = false
		}
		b, _ = appendParameter(b, s.Key, s.Value)
	}
	if !ok || (c.name == "@query-param") != (c.part == query) {
		return b, component{}
	}
	return b, c
}

// isName reports whether s is the name of a field in lower case, or of a derived component.
func isName(s string) bool {
	if s == "" || s == "@" {
		return false
	}
	for i := range len(s) {
		c := s[i]
		lower := 'a' <= c && c <= 'z' || '0' <= c && c <= '9' || c == '-' || c == '_' || c == '.'
		if !lower && !(i == 0 && c == '@') {
			return false
		}
	}
	return true
}

// appendParameter appends a parameter in its canonical form (RFC 9651, section 4.1.1.2). It reports
// false if a bare item of its type is not written.
func appendParameter(b []byte, key string, v structured.Value) ([]byte, bool) {
	b = append(append(b, ';'), key...)
	if v.Kind == structured.Boolean && v.N == 1 {
		return b, true
	}
	return appendItem(append(b, '='), v)
}

// appendItem appends a bare item in its canonical form. It reports false for types that no
// parameter of a signature has.
func appendItem(b []byte, v structured.Value) ([]byte, bool) {
	switch v.Kind {
	case structured.Integer:
		return strconv.AppendInt(b, v.N, 10), true
	case structured.String: // Text has the escapes that it needs, and no others
		return append(append(append(b, '"'), v.Text...), '"'), true
	case structured.Token:
		return append(b, v.Text...), true
	case structured.Boolean:
		return append(b, '?', '0'+byte(v.N)), true
	}
	return b, false
}

// readValues reads the values of signatures from the lines of the field Signature.
func readValues(lines []string, signatures []Signature) bool {
	var seen keys
	values, missing := structured.Dictionary(lines), len(signatures)
	for values.Member() {
		if !seen.add(values.Key) {
			return false
		}
		for i := range signatures {
			if s := &signatures[i]; s.Label == values.Key {
				if values.Value.Kind != structured.Bytes || !decode(&s.Value, values.Value.Text) {
					return false
				}
				missing--
			}
		}
	}
	return missing == 0 && !values.Malformed()
}

// decode decodes a Byte Sequence of the length of a signature. Its padding may be missing, and bits
// that no byte needs are 0.
func decode(to *[ed25519.SignatureSize]byte, text string) bool {
	for text != "" && text[len(text)-1] == '=' {
		text = text[:len(text)-1]
	}
	var room [ed25519.SignatureSize + 2]byte
	if base64.RawStdEncoding.DecodedLen(len(text)) != len(to) {
		return false
	}
	n, err := base64.RawStdEncoding.Strict().Decode(room[:], []byte(text))
	return err == nil && n == len(to) && copy(to[:], room[:n]) == n
}

// Covers reports whether the signature covers a field, or a derived component, as a whole.
func (s *Signature) Covers(name string) bool {
	for i := range s.count {
		if s.covered[i] == (component{name: name}) {
			return true
		}
	}
	return false
}

// Members returns the key of each member of a Dictionary field that the signature covers.
func (s *Signature) Members(field string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for i := range s.count {
			if c := &s.covered[i]; c.name == field && c.part == member && !yield(c.key) {
				return
			}
		}
	}
}

// AppendBase appends the signature base (RFC 9421, section 2.5): the text that was signed if s is a
// signature of m.
func (s *Signature) AppendBase(b []byte, m Message) ([]byte, error) {
	// The identifiers stand in params in the same order, and apart by a space.
	rest := s.params[1:]
	for i := range s.count {
		c := &s.covered[i]
		end := c.length()
		b = append(append(b, rest[:end]...), ": "...)
		start, ok := len(b), false
		if b, ok = m.appendValue(b, c); !ok || bytes.IndexByte(b[start:], '\n') >= 0 {
			return b, ErrComponent
		}
		b, rest = append(b, '\n'), rest[end+1:]
	}
	b = append(b, `"@signature-params": `...)
	return append(b, s.params...), nil
}

// Verify reports whether the signature is that of key over base, the text of [Signature.AppendBase].
// The key has the size of an Ed25519 key.
func (s *Signature) Verify(key ed25519.PublicKey, base []byte) bool {
	return ed25519.Verify(key, base, s.Value[:])
}
