package mcpmw

import (
	"bytes"
	"encoding/json"
	"net/http"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/internal/http/answer"
	"github.com/weir-go/weir/internal/http/gate"
)

// HTTPDenied is a Denied for a limiter of package nethttp around the handler of an MCP server. A
// request of JSON-RPC gets the status 200 with an error for its id, as from [Limiter]: many clients
// end their session, or hide the reason, if the status is another. Each request of a batch gets one.
//
// A message without an id, such as a notification, gets the status of [core.Outcome.Status] with an
// error without id, and so does all that is no message. To find the id, HTTPDenied reads up to 1 MiB
// of the body, as DrainLimit of the Config describes. The code of the error is [CodeDenied] or
// [CodeUnavailable].
//
// The data has retryAfter and the fields RateLimit and RateLimit-Policy, if the answer has them. It
// names no rule otherwise. If o is allowed or abandoned, HTTPDenied does nothing. See [EndsSession]
// for the request that ends a session.
func HTTPDenied(w http.ResponseWriter, r *http.Request, o core.Outcome) {
	httpDenied(w, r, &o, CodeDenied)
}

// HTTPDeniedAs returns [HTTPDenied] with another code of denials than [CodeDenied], such as
// [CodeProposed]. The status of HTTP is the same.
func HTTPDeniedAs(code int64) func(http.ResponseWriter, *http.Request, core.Outcome) {
	return func(w http.ResponseWriter, r *http.Request, o core.Outcome) { httpDenied(w, r, &o, code) }
}

func httpDenied(w http.ResponseWriter, r *http.Request, o *core.Outcome, code int64) {
	if v := o.Verdict(); v != core.Denied && v != core.Unavailable {
		return
	}
	h := w.Header()
	detail, wait := gate.Explain(h, o)
	fields := make(http.Header, 2)
	for _, name := range []string{"Ratelimit", "Ratelimit-Policy"} {
		if v := h[name]; len(v) > 0 {
			fields[name] = v
		}
	}
	e := refusal(o.Status(), detail, dataOf(fields, wait, nil))
	e.Code = codeAs(e.Code, code)
	refused, _ := json.Marshal(e) // cannot fail
	ids, batch := idsIn(w, r)
	if len(ids) == 0 {
		answer.Write(w, r, o.Status(), jsonType, appendError(nil, []byte("null"), refused))
		return
	}
	var b []byte
	for i, id := range ids {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendError(b, id, refused)
	}
	if batch {
		b = append(append([]byte{'['}, b...), ']')
	}
	answer.Write(w, r, http.StatusOK, jsonType, b)
}

const jsonType = "application/json"

// appendError appends the response of JSON-RPC to the request with id.
func appendError(b, id, refused []byte) []byte {
	b = append(append(b, `{"jsonrpc":"2.0","id":`...), id...)
	b = append(append(b, `,"error":`...), refused...)
	return append(b, '}')
}

// Bounds of what a denial reads and answers.
const (
	mostRead  = 1 << 20 // bytes of a body
	mostIDs   = 100     // in a batch
	longestID = 256     // bytes
)

// idsIn returns the ids of the requests in the body of r, and whether they are a batch. It returns
// none if there is something that HTTPDenied does not answer.
func idsIn(w http.ResponseWriter, r *http.Request) (ids []json.RawMessage, batch bool) {
	if r.Method != http.MethodPost {
		return nil, false
	}
	body, ok := answer.ReadDenied(w, r, mostRead)
	if !ok {
		return nil, false
	}
	var err error
	var messages []message
	if body = bytes.TrimSpace(body); len(body) > 0 && body[0] == '[' {
		batch = true
		err = json.Unmarshal(body, &messages)
	} else {
		messages = make([]message, 1)
		err = json.Unmarshal(body, &messages[0])
	}
	if err != nil {
		return nil, false
	}
	for _, m := range messages {
		switch {
		case !m.isRequest():
		case !m.hasID(): // the client would wait for the answer to this one
			return nil, false
		default:
			ids = append(ids, m.ID)
		}
	}
	if len(ids) > mostIDs {
		return nil, false
	}
	return ids, batch
}

// message is a message of JSON-RPC.
type message struct {
	ID     json.RawMessage
	Method *string // nil: a response
}

// isRequest reports whether m has an answer.
func (m *message) isRequest() bool {
	return m.Method != nil && len(m.ID) > 0 && string(m.ID) != "null"
}

// hasID reports whether the id of the request m is a string or a number, and short.
func (m *message) hasID() bool {
	c := m.ID[0]
	return len(m.ID) <= longestID && (c == '"' || c == '-' || '0' <= c && c <= '9')
}

// EndsSession reports whether r is the request by which a client ends its session: a DELETE with
// Mcp-Session-Id. It is a condition for [core.When], for a rule of a limiter of package nethttp. Give
// such requests a budget of their own, or a client that is denied leaves its session behind:
//
//	ends := nethttp.Rule{Name: "ends", Limit: limit, Key: core.When(mcpmw.EndsSession, client)}
//	requests := nethttp.Rule{Name: "requests", Limit: limit,
//		Key: core.Otherwise([]nethttp.Rule{ends}, client)}
func EndsSession(r *http.Request) bool {
	return r.Method == http.MethodDelete && r.Header.Get("Mcp-Session-Id") != ""
}
