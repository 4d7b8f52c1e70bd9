package client

import (
	"bytes"
	"cmp"
	"encoding/json"
	"io"
	"mime"
	"net/http"
	"strings"
	"time"

	"github.com/weir-go/weir/client/internal/quota"
)

// finalFields are fields by which a server says that no repetition helps: "false". The SDKs of
// OpenAI, Anthropic and Stripe obey them.
var finalFields = [...]struct{ name, source string }{
	{"X-Should-Retry", "x-should-retry"},
	{"Stripe-Should-Retry", "Stripe-Should-Retry"},
}

// finalCodes are codes and types of errors that no wait cures: the account has to be paid for. The
// services send them with status 429.
var finalCodes = map[string]bool{
	"insufficient_quota":           true, // OpenAI and DashScope: the type of several codes, too
	"billing_hard_limit_reached":   true, // OpenAI
	"billing_not_active":           true, // OpenAI
	"exceeded_current_quota_error": true, // Moonshot
	"1113":                         true, // Z.ai: docs.z.ai/api-reference/api-code
}

// finalDetail is the end of the detail of a problem document of weir: the request costs more than
// its limit ever allows.
const finalDetail = "retrying will not help."

// sourceBody is the source of a wait that no field tells, and the body does.
const sourceBody = "body"

// readBody reads a denial for what its fields do not tell. final is what says that no wait cures it, a
// field or a code in its body, or "". wait is how long its body asks to wait, 0 unless it does. readBody
// waits for the body, 16 KiB at most, if that is JSON, and leaves it as it was. It closes a body that
// does not end in peekingTime: a server may never end it, and the request would wait for ever.
func readBody(response *http.Response) (final string, wait time.Duration) {
	for _, f := range finalFields {
		if strings.EqualFold(quota.First(response.Header, f.name), "false") {
			return f.source + " is false", 0
		}
	}
	var timer *time.Timer
	if body := response.Body; body != nil {
		timer = time.AfterFunc(peekingTime, func() { body.Close() })
	}
	text := peek(response)
	if timer != nil {
		timer.Stop()
	}
	if len(text) == 0 {
		return "", 0
	}
	var document struct {
		problem
		retries
		Error json.RawMessage
	}
	if json.Unmarshal(text, &document) != nil {
		return "", 0
	}
	final, wait = document.finality(), document.wait()
	var inner struct {
		problem
		retries
	}
	if json.Unmarshal(document.Error, &inner) == nil {
		final, wait = cmp.Or(final, inner.finality()), cmp.Or(wait, inner.wait())
	}
	return final, wait
}

// problem is the part of an error in JSON that says what it is about.
type problem struct {
	Code, Type any // a text or a number
	Detail     string
}

func (p *problem) finality() string {
	for _, of := range [...]any{p.Code, p.Type} {
		if code, ok := of.(string); ok && finalCodes[code] {
			return "its error is " + code
		}
	}
	if strings.HasSuffix(p.Detail, finalDetail) {
		return "it costs more than its limit ever allows"
	}
	return ""
}

// retries is the part of an error in JSON that says when to repeat the request. docs/outgoing.md says
// who sends what.
type retries struct {
	RetryAfter   any `json:"retry_after"`    // seconds
	RetryAfterMs any `json:"retry_after_ms"` // milliseconds
	Parameters   any // of Telegram: an object with retry_after
	Details      any // of google.rpc.Status: a list of objects, one of which may have retryDelay
}

func (r *retries) wait() time.Duration {
	wait := cmp.Or(times(r.RetryAfter, time.Second), times(r.RetryAfterMs, time.Millisecond))
	if parameters, ok := r.Parameters.(map[string]any); ok {
		wait = cmp.Or(wait, times(parameters["retry_after"], time.Second))
	}
	details, _ := r.Details.([]any)
	for _, detail := range details {
		detail, _ := detail.(map[string]any)
		if text, ok := detail["retryDelay"].(string); ok {
			delay, _ := time.ParseDuration(text)
			wait = cmp.Or(wait, min(max(delay, 0), quota.Longest))
		}
	}
	return wait
}

// times returns n units, and 0 unless n is a positive number that can be one of seconds to go.
func times(n any, unit time.Duration) time.Duration {
	const instants = 1e9 // larger numbers are instants, of which no service is known
	number, ok := n.(float64)
	if !ok || number <= 0 || number >= instants {
		return 0
	}
	return time.Duration(min(number*float64(unit), float64(quota.Longest)))
}

const (
	maxPeek     = 16 << 10
	peekingTime = 5 * time.Second
)

// peek waits for the beginning of a body in JSON, 16 KiB at most, and leaves the body as it was. It
// returns nothing of a body that is as long, or another one.
func peek(response *http.Response) []byte {
	media, _, _ := mime.ParseMediaType(quota.First(response.Header, "Content-Type"))
	body := response.Body
	if body == nil || body == http.NoBody || !strings.HasSuffix(media, "json") ||
		response.ContentLength > maxPeek {
		return nil
	}
	text, err := io.ReadAll(io.LimitReader(body, maxPeek))
	response.Body = &readAhead{io.MultiReader(bytes.NewReader(text), failing{err}, body), body}
	if len(text) == maxPeek { // what follows may be spaces, or the rest of another text
		return nil
	}
	return text
}

// readAhead is a body whose beginning was read.
type readAhead struct {
	io.Reader
	io.Closer
}

// failing is a reader that fails with err, or is empty if err is nil.
type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, cmp.Or(f.err, io.EOF) }
