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

// finality returns what says that no wait cures a denial: a field, or a code in its body; or "". It
// waits for the body, 16 KiB at most, if that is JSON, and leaves it as it was. It closes a body that
// does not end in peekingTime: a server may never end it, and the request would wait for ever.
func finality(response *http.Response) string {
	for _, f := range finalFields {
		if strings.EqualFold(quota.First(response.Header, f.name), "false") {
			return f.source + " is false"
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
		return ""
	}
	var document struct {
		problem
		Error json.RawMessage
	}
	if json.Unmarshal(text, &document) != nil {
		return ""
	}
	why := document.finality()
	if inner := (problem{}); why == "" && json.Unmarshal(document.Error, &inner) == nil {
		why = inner.finality()
	}
	return why
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
