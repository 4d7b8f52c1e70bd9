package answer

import (
	"net/http"
	"strconv"
)

// Document is what a problem document (RFC 9457) says of a denial. SDKs of APIs read no problem
// documents: each reads members of its own, and without them takes a denial for another error, or
// for a success. So the document has those members, too. Clients ignore what they do not know (RFC
// 9457, section 3.2).
type Document struct {
	Status int    // 429 or 503
	Detail []byte // a sentence of printable ASCII, without quotes and backslashes
	Retry  string // the value of Retry-After, or ""
	Bots   bool   // with the members that libraries of bots read
}

// maxSentence is the room for a Detail on the stack. Longer ones are fine.
const maxSentence = 128

// kind is what documents of one status have in common.
type kind struct {
	begin string // up to the detail: a type of draft-ietf-httpapi-ratelimit-headers-11, section 5
	error string // the member error, up to its message
	bots  string // up to the description
}

var (
	quotaExceeded = kind{
		begin: `{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded",` +
			`"title":"Quota Exceeded","status":429,"detail":"`,
		error: `"error":{"type":"rate_limit_error","code":"rate_limit_exceeded","message":"`,
		bots:  `"ok":false,"code":"rate_limited","error_code":429,"description":"`,
	}
	reducedCapacity = kind{
		begin: `{"type":"https://iana.org/assignments/http-problem-types#` +
			`temporary-reduced-capacity","title":"Temporary Reduced Capacity","status":503,"detail":"`,
		error: `"error":{"type":"overloaded_error","code":"service_unavailable","message":"`,
		bots:  `"ok":false,"code":"service_unavailable","error_code":503,"description":"`,
	}
)

// AppendProblem appends d as a JSON object, without its end: the caller may add members.
//
// message and retry_after are read by the SDKs of Twilio and Discord, error by those of Stripe,
// OpenAI and Anthropic; code by that of Notion, and ok, error_code, description and parameters by
// libraries for Telegram. retry_after and parameters are there if Retry-After is a number.
func AppendProblem(b []byte, d Document) []byte {
	k := &reducedCapacity
	if d.Status == http.StatusTooManyRequests {
		k = &quotaExceeded
	}
	b = append(append(b, k.begin...), d.Detail...)
	b = append(append(b, `","message":"`...), d.Detail...)
	b = append(append(append(b, `",`...), k.error...), d.Detail...)
	b = append(b, `"}`...)
	seconds, err := strconv.ParseUint(d.Retry, 10, 63)
	if err == nil {
		b = strconv.AppendUint(append(b, `,"retry_after":`...), seconds, 10)
	}
	if !d.Bots {
		return b
	}
	b = append(append(append(b, ','), k.bots...), d.Detail...)
	b = append(b, '"')
	if err == nil {
		b = strconv.AppendUint(append(b, `,"parameters":{"retry_after":`...), seconds, 10)
		b = append(b, '}')
	}
	return b
}
