package headers

import (
	"net/http"
	"strconv"
)

// field is a header field that a [Writer] may set.
type field uint8

const (
	fieldRetryAfter field = iota

	fieldRateLimit
	fieldPolicy

	fieldLimit
	fieldRemaining
	fieldReset

	fieldOpenAI // limit, remaining and reset of requests, and those of tokens
)

const fieldAnthropic = fieldOpenAI + 6 // those of requests, tokens, input tokens, output tokens

// Fields that the SDKs of language models read on denials.
const (
	fieldRetryAfterMs = fieldAnthropic + 12 + iota
	fieldShouldRetry
)

const (
	fieldXLimit = fieldShouldRetry + 1 + iota // first of the X-RateLimit fields
	fieldXRemaining
	fieldXReset
	fieldXUsed
	fieldXResource
	fieldXResetAfter
	fieldXBucket
	fieldXScope
	fieldXGlobal

	fields // those that Delete deletes

	// fieldVia is Via (RFC 9110, section 7.6.3). Discord answers through proxies, and discord.py takes
	// a denial without this field for a ban of its address: it raises an error and does not wait.
	fieldVia = fields

	allFields = fields + 1
)

// keys are the field names in the canonical form of [http.Header].
var keys = [allFields]string{
	fieldRetryAfter: "Retry-After",

	fieldRateLimit: "Ratelimit",
	fieldPolicy:    "Ratelimit-Policy",

	fieldLimit:     "Ratelimit-Limit",
	fieldRemaining: "Ratelimit-Remaining",
	fieldReset:     "Ratelimit-Reset",

	fieldOpenAI: "X-Ratelimit-Limit-Requests",
	"X-Ratelimit-Remaining-Requests",
	"X-Ratelimit-Reset-Requests",
	"X-Ratelimit-Limit-Tokens",
	"X-Ratelimit-Remaining-Tokens",
	"X-Ratelimit-Reset-Tokens",

	fieldAnthropic: "Anthropic-Ratelimit-Requests-Limit",
	"Anthropic-Ratelimit-Requests-Remaining",
	"Anthropic-Ratelimit-Requests-Reset",
	"Anthropic-Ratelimit-Tokens-Limit",
	"Anthropic-Ratelimit-Tokens-Remaining",
	"Anthropic-Ratelimit-Tokens-Reset",
	"Anthropic-Ratelimit-Input-Tokens-Limit",
	"Anthropic-Ratelimit-Input-Tokens-Remaining",
	"Anthropic-Ratelimit-Input-Tokens-Reset",
	"Anthropic-Ratelimit-Output-Tokens-Limit",
	"Anthropic-Ratelimit-Output-Tokens-Remaining",
	"Anthropic-Ratelimit-Output-Tokens-Reset",

	fieldRetryAfterMs: "Retry-After-Ms",
	fieldShouldRetry:  "X-Should-Retry",

	fieldXLimit:      "X-Ratelimit-Limit",
	fieldXRemaining:  "X-Ratelimit-Remaining",
	fieldXReset:      "X-Ratelimit-Reset",
	fieldXUsed:       "X-Ratelimit-Used",
	fieldXResource:   "X-Ratelimit-Resource",
	fieldXResetAfter: "X-Ratelimit-Reset-After",
	fieldXBucket:     "X-Ratelimit-Bucket",
	fieldXScope:      "X-Ratelimit-Scope",
	fieldXGlobal:     "X-Ratelimit-Global",

	fieldVia: "Via",
}

// in returns the lines of f in h.
func (f field) in(h http.Header) []string {
	if len(h) == 0 { // true for most answers: saves 2% of a request
		return nil
	}
	return h[keys[f]]
}

// Delete deletes the fields of all formats from h, and keeps Retry-After. It is for answers that
// the client's quotas did not cause, such as a 503, if an outer limiter may have written fields. A
// [Writer] does this itself. A field that h had stays in the map, without lines, so that no outer
// limiter restores it: see [Kept].
func Delete(h http.Header) {
	for f := fieldRetryAfter + 1; f < fields; f++ {
		if _, ok := h[keys[f]]; ok {
			h[keys[f]] = nil
		}
	}
}

// values records which part of an answer's text is the value of which field. The values are written
// one after another into one text, so all of them together cost one string and one slice. Both
// belong to this answer alone.
//
// Functions pass the text as an argument instead of keeping it in a field of values: behind a
// pointer, its first bytes could not be on the stack.
type values struct {
	n      int
	field  [allFields]field
	end    [allFields]uint32
	shared string // value of the field whose text is empty
}

// add makes the text after the end of the previous value the value of f. f must not
// have a value yet.
func (v *values) add(f field, text []byte) {
	v.field[v.n], v.end[v.n] = f, uint32(len(text))
	v.n++
}

// addInteger appends n to text as the value of f.
func (v *values) addInteger(f field, text []byte, n int64) []byte {
	text = strconv.AppendInt(text, n, 10)
	v.add(f, text)
	return text
}

// addString appends s to text as the value of f.
func (v *values) addString(f field, text []byte, s string) []byte {
	text = append(text, s...)
	v.add(f, text)
	return text
}

// addShared makes s the value of f without copying it, which takes 5% off a request. Only one field
// can have a shared value.
func (v *values) addShared(f field, text []byte, s string) {
	v.add(f, text)
	v.shared = s
}

// set sets the fields in h. The slices of two fields never share memory that a later
// append or assignment could change.
func (v *values) set(h http.Header, whole string) {
	if v.n == 0 {
		return
	}
	lines := make([]string, v.n)
	start := uint32(0)
	for i := range lines {
		end := v.end[i]
		if lines[i] = whole[start:end]; start == end {
			lines[i] = v.shared
		}
		h[keys[v.field[i]]] = lines[i : i+1 : i+1]
		start = end
	}
}
