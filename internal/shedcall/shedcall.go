// Package shedcall sheds remote procedure calls by a [shed.Gate], which is made for HTTP.
package shedcall

import (
	"context"
	"io"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/weir-go/weir/internal/answer"
	"github.com/weir-go/weir/shed"
)

// Gate sheds calls of type R. It is safe for concurrent use.
type Gate[R any] struct{ of *shed.Gate[R] }

// New returns a gate. route returns the route of a call, and status that of the answer if its handler
// returns an error. New panics if s is nil or was not made by [shed.New].
func New[R any](s *shed.Shedder[R], route func(R) string, status func(error) int) *Gate[R] {
	return &Gate[R]{shed.NewGate(shed.Gate[R]{
		Shedder:  s,
		Route:    route,
		Answered: func(_ R, err error) (int, int64, bool) { return status(err), 0, false },
		WithRequest: func(request R, r *http.Request) R {
			r.Context().Value(streamKey{}).(*Stream).body = r.Body
			return request
		},
	})}
}

// Refusal says why a call may not go on.
type Refusal struct {
	Fields http.Header
	Detail string
	Wait   time.Duration
	Left   error // of the context that ended in the queue; nil: the call was shed
}

// Stream is what a shedder sees of a call under way.
type Stream struct {
	writer  answered
	watched http.ResponseWriter // around writer
	sent    sync.Once
	receive func() error // nil: the messages have arrived
	body    io.ReadCloser
	err     error // of receive
}

type streamKey struct{}

// Serve calls next if the call may go on, and returns its error. Otherwise it returns why not, and the
// error of [shed.Options].Denied. receive receives the next message; nil: all have arrived.
func (g *Gate[R]) Serve(ctx context.Context, request R, receive func() error, next func(*Stream) error) (*Refusal, error) {
	s := &Stream{writer: answered{header: make(http.Header)}, receive: receive, body: http.NoBody}
	r := &http.Request{Method: http.MethodPost, ProtoMajor: 2, Body: http.NoBody}
	if receive != nil {
		s.body = (*incoming)(s)
		r.Body = s.body
		ctx = context.WithValue(ctx, streamKey{}, s)
	}
	served := false
	err := g.of.Serve(&s.writer, r.WithContext(ctx), request, func(w http.ResponseWriter, _ R) error {
		served = true
		s.watched = w
		return next(s)
	})
	if served {
		return nil, err
	}
	retry := answer.RetryAfter(s.writer.header)
	seconds, _ := strconv.Atoi(retry)
	delete(s.writer.header, "Content-Type")
	return &Refusal{
		Fields: s.writer.header, Left: ctx.Err(), Wait: time.Duration(seconds) * time.Second,
		Detail: string(answer.AppendRetry(answer.AppendAtCapacity(nil), retry)),
	}, err
}

// Send says that a message goes to the client: the call is in flight no more.
func (s *Stream) Send() { s.sent.Do(func() { shed.Stream(s.watched) }) }

// Receive receives a message. The time that takes is the client's.
func (s *Stream) Receive() error {
	_, _ = s.body.Read(nil)
	return s.err
}

// incoming reads messages in the form of a body.
type incoming Stream

func (s *incoming) Read([]byte) (int, error) {
	s.err = s.receive()
	return 0, nil
}

func (s *incoming) Close() error { return nil }

// answered is the writer of an answer of which the header matters alone.
type answered struct{ header http.Header }

func (a *answered) Header() http.Header         { return a.header }
func (a *answered) Write(p []byte) (int, error) { return len(p), nil }
func (a *answered) WriteHeader(int)             {}
