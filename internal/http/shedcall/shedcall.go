// Package shedcall sheds remote procedure calls by a [shedgate.Gate].
package shedcall

import (
	"context"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/weir-go/weir/internal/http/answer"
	"github.com/weir-go/weir/internal/http/shedgate"
	"github.com/weir-go/weir/internal/http/watch"
	"github.com/weir-go/weir/shed"
)

// Gate sheds calls of type R. It is safe for concurrent use.
type Gate[R any] struct{ of shedgate.Gate[R] }

// New returns a gate. route returns the route of a call. status returns the HTTP status that stands
// for the error of a handler. New panics if s is nil or was not made by [shed.New].
func New[R any](s *shed.Shedder[R], route func(R) string, status func(error) int) *Gate[R] {
	answered := func(_ R, err error) (int, int64, bool) { return status(err), 0, false }
	return &Gate[R]{shedgate.New(s, shedgate.Config[R]{Route: route, Answered: answered})}
}

// Refusal says why a call may not go on.
type Refusal struct {
	Fields http.Header
	Detail string
	Wait   time.Duration
	Left   error // of the context, which ended in the queue; nil: the call was shed
}

// Stream tells a shedder of the messages of a call.
type Stream struct {
	watch.Listener // nil: the shedder ignores the call
	sent           sync.Once
}

// Serve calls next if the call may go on, with a context for its handler, and returns its error.
// Otherwise it returns a refusal, and the error of [shed.Options].Denied.
func (g *Gate[R]) Serve(
	ctx context.Context, request R, next func(context.Context, *Stream) error,
) (*Refusal, error) {
	h, err := g.of.ServeCall(ctx, request, func(ctx context.Context, l watch.Listener) error {
		return next(ctx, &Stream{Listener: l})
	})
	if h == nil {
		return nil, err
	}
	retry := answer.RetryAfter(h)
	seconds, _ := strconv.Atoi(retry)
	delete(h, "Content-Type")
	return &Refusal{
		Fields: h, Left: ctx.Err(), Wait: time.Duration(seconds) * time.Second,
		Detail: string(answer.AppendRetry(answer.AppendAtCapacity(nil), retry)),
	}, err
}

// Send says that a message goes to the client. The first one takes the call out of flight.
func (s *Stream) Send() {
	if s.Listener != nil {
		s.sent.Do(s.Stream)
	}
}

// Receive receives a message. The time until it comes is the client's.
func (s *Stream) Receive(receive func(any) error, message any) error {
	if s.Listener != nil {
		s.Wait()
		defer s.Resume()
	}
	return receive(message)
}
