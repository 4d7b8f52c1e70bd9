package tokens

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/weir-go/weir/internal/http/gate"
)

// handler is the handler that [Meter.Handler] returns.
type handler struct {
	meter   *Meter
	api     API
	limited http.Handler // the limit around serve
	next    http.Handler
}

func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, status, err := h.readBody(w, r)
	if err != nil {
		refuse(w, err, status)
		return
	}
	call, err := h.meter.Estimate(h.api, body)
	if err != nil {
		refuse(w, err, http.StatusBadRequest)
		return
	}
	h.limited.ServeHTTP(w, withCall(r, call, body))
}

// refuse answers as the services do. OpenAI's SDK for Python shows its user error.message alone.
func refuse(w http.ResponseWriter, err error, status int) {
	type problem struct {
		Type    string `json:"type"`
		Message string `json:"message"`
	}
	document, _ := json.Marshal(struct {
		Type  string  `json:"type"`
		Error problem `json:"error"`
	}{"error", problem{"invalid_request_error", err.Error()}})
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	w.Write(document)
}

func (h *handler) readBody(w http.ResponseWriter, r *http.Request) ([]byte, int, error) {
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		return nil, http.StatusMethodNotAllowed, errors.New("the method must be POST")
	}
	if isEncoded(r.Header) {
		return nil, http.StatusUnsupportedMediaType, errors.New("the body must not be compressed")
	}
	if !isUTF8(r.Header) {
		return nil, http.StatusUnsupportedMediaType, errors.New("the charset of the body must be utf-8")
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, h.meter.config.MaxBody))
	if tooLong := (*http.MaxBytesError)(nil); errors.As(err, &tooLong) {
		return nil, http.StatusRequestEntityTooLarge,
			fmt.Errorf("the body must have at most %d bytes", tooLong.Limit)
	}
	if err != nil {
		return nil, http.StatusBadRequest, errors.New("the body did not arrive: send it again")
	}
	return body, http.StatusOK, nil
}

// isUTF8 reports whether the content of a message with header h is in UTF-8, as far as h says. Some
// servers, such as Express with body-parser, read JSON in UTF-7, in which other members are there.
func isUTF8(h http.Header) bool {
	for _, value := range h["Content-Type"] {
		if !strings.Contains(strings.ToLower(value), "charset") {
			continue
		}
		_, params, err := mime.ParseMediaType(value)
		if err != nil || !strings.EqualFold(params["charset"], "utf-8") {
			return false
		}
	}
	return true
}

// withCall returns r with the body that was read and its call.
func withCall(r *http.Request, call *Call, body []byte) *http.Request {
	call.outer = callOf(r.Context())
	ctx := context.WithValue(r.Context(), callKey{}, call)
	r = r.WithContext(gate.WithCause(ctx, call.Explain))
	r.Header = r.Header.Clone() // outer handlers keep theirs
	r.Header.Set("Accept-Encoding", "identity")
	r.Header.Del("Upgrade")
	r.Header.Del("Expect")
	r.Body, r.ContentLength, r.TransferEncoding = &content{rest: body}, int64(len(body)), nil
	return r
}

// content is a body that was read. It is freed when it has been read again: the answer may take
// minutes. No GetBody repeats it, so no client can have a request sent twice by an Idempotency-Key.
// Transports may read or close it when the answer has begun, or after it.
type content struct {
	mu   sync.Mutex
	rest []byte
}

func (c *content) Read(p []byte) (n int, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n = copy(p, c.rest)
	if c.rest = c.rest[n:]; len(c.rest) == 0 {
		c.rest, err = nil, io.EOF
	}
	return n, err
}

func (c *content) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.rest = nil
	return nil
}

// serve serves a request that the limit has let pass.
func (h *handler) serve(w http.ResponseWriter, r *http.Request) {
	call, ctx := callOf(r.Context()), r.Context()
	call.status, call.answer = 0, answer{} // of another try
	upstream := &exchange{}
	answering := &writer{ResponseWriter: w, call: call, ctx: ctx, fields: len(w.Header())}
	defer func() {
		if call.status >= 400 && (answering.left || upstream.isOpen(answering.bare)) {
			call.status, call.answer = 0, answer{} // the error is not the model's
		}
		call.settle(ctx)
		if h.meter.config.Observe != nil {
			h.meter.config.Observe(r, call)
		}
	}()
	h.next.ServeHTTP(answering, r.WithContext(upstream.watched(ctx)))
}

// exchange is what is known of the last request that next has sent to another server by net/http.
type exchange struct{ sent, answered atomic.Bool }

func (e *exchange) watched(ctx context.Context) context.Context {
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn:              func(httptrace.GotConnInfo) { e.answered.Store(false) }, // of an earlier one
		WroteRequest:         func(httptrace.WroteRequestInfo) { e.sent.Store(true) },
		GotFirstResponseByte: func() { e.answered.Store(true) },
		Got1xxResponse: func(int, textproto.MIMEHeader) error { // which is no answer yet
			e.answered.Store(false)
			return nil
		},
	})
}

// isOpen reports whether next has sent a request that was not answered. A bare 502 is that of a
// ReverseProxy for bytes that are no answer: a server sends at least a field or a body.
func (e *exchange) isOpen(bare bool) bool {
	if e.answered.Load() { // which WroteRequest may follow
		return bare
	}
	return e.sent.Load()
}

// writer passes the answer on and lets the call read it.
type writer struct {
	http.ResponseWriter
	call   *Call
	ctx    context.Context // of the request
	fields int             // of the header, before the answer
	begun  bool
	left   bool // the client had left when the answer began: an error need not be the model's
	bare   bool // it is a 502 for which next has set no field and written no body
}

func (w *writer) WriteHeader(status int) {
	if !w.begun {
		w.call.Answer(status, w.Header())
		w.begun = w.call.status != 0
		w.left = w.ctx.Err() != nil
		// Less, since a ReverseProxy deletes all fields after a 1xx.
		w.bare = status == http.StatusBadGateway && len(w.Header()) <= w.fields
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *writer) Write(p []byte) (int, error) {
	if !w.begun {
		w.begun = true
		w.call.Answer(http.StatusOK, w.Header())
	}
	w.bare = false
	n, err := w.ResponseWriter.Write(p)
	w.call.Write(p) // all of it: the model has written it, whether the client reads it or not
	return n, err
}

func (w *writer) Flush() { _ = w.FlushError() }

// FlushError is the method that http.ResponseController looks for before Flush.
func (w *writer) FlushError() error { return http.NewResponseController(w.ResponseWriter).Flush() }

func (w *writer) Unwrap() http.ResponseWriter { return w.ResponseWriter }
