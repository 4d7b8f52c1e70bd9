package connect2mw

import (
	"context"
	"errors"
	"net/http"
	"os"
	"time"

	"connectrpc.com/connect/v2"
	"connectrpc.com/connect/v2/connectproto"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/weir-go/weir/internal/http/gate"
)

// pushback tells gRPC's own retries when to repeat a call: see [answer.Pushback].
const pushback = "Grpc-Retry-Pushback-Ms"

// fieldsOf returns the fields of h, for package headers.
func fieldsOf(h *connect.Header) http.Header {
	fields := make(http.Header, h.Len()+4)
	for name, values := range h.All() {
		fields[name] = values
	}
	return fields
}

// replace replaces the fields of h.
func replace(h *connect.Header, fields http.Header) {
	for name := range h.All() {
		if _, stays := fields[name]; !stays {
			h.Delete(name)
		}
	}
	for name, values := range fields {
		h.SetValues(name, values)
	}
}

// endedError returns the error of a call whose context ended with err.
func endedError(err error) error {
	code := connect.CodeCanceled
	if errors.Is(err, context.DeadlineExceeded) {
		code = connect.CodeDeadlineExceeded
	}
	return connect.NewError(code, err.Error()).WithCause(err)
}

// refusal returns an error with details: the wait, if positive, and the rules that denied.
func refusal(
	code connect.Code, message string, wait time.Duration, violated []string,
) *connect.Error {
	err := connect.NewError(code, message)
	add := func(m proto.Message) {
		if detail, e := connectproto.NewErrorDetail(m); e == nil { // always so with these messages
			err = err.WithDetail(detail)
		}
	}
	if wait > 0 {
		add(&errdetails.RetryInfo{RetryDelay: durationpb.New(wait)})
	}
	if len(violated) > 0 {
		failure := new(errdetails.QuotaFailure)
		for _, name := range violated {
			failure.Violations = append(failure.Violations,
				&errdetails.QuotaFailure_Violation{Subject: name, Description: message})
		}
		add(failure)
	}
	return err
}

// statusOf returns the HTTP status for the error of a handler, as its client sees it: a transport
// hides the error of a service behind.
func statusOf(err error) int {
	e, ok := errors.AsType[*connect.Error](err)
	switch {
	case err == nil:
		return http.StatusOK
	case ok && e != nil && e.IsRemote():
		return http.StatusInternalServerError
	case ok && e != nil:
		return gate.StatusOfCode(uint32(e.Code()))
	case errors.Is(err, context.Canceled):
		return gate.StatusOfCode(uint32(connect.CodeCanceled))
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded):
		return gate.StatusOfCode(uint32(connect.CodeDeadlineExceeded))
	}
	return gate.StatusOfCode(uint32(connect.CodeUnknown))
}
