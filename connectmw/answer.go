package connectmw

import (
	"context"
	"errors"
	"net/http"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/weir-go/weir/internal/http/gate"
)

// pushback tells gRPC's own retries when to repeat a call: see [answer.Pushback].
const pushback = "Grpc-Retry-Pushback-Ms"

// endedError returns the error of a call whose context ended with err.
func endedError(err error) error {
	code := connect.CodeCanceled
	if errors.Is(err, context.DeadlineExceeded) {
		code = connect.CodeDeadlineExceeded
	}
	return connect.NewError(code, err)
}

// refusal returns an error with details: the wait, if positive, and the rules that denied.
func refusal(
	code connect.Code, message string, wait time.Duration, violated []string,
) *connect.Error {
	err := connect.NewError(code, errors.New(message))
	add := func(m proto.Message) {
		if detail, e := connect.NewErrorDetail(m); e == nil { // always so with these messages
			err.AddDetail(detail)
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

// statusOf returns the HTTP status for the error of a handler.
func statusOf(err error) int {
	switch {
	case err == nil:
		return http.StatusOK
	case errors.As(err, new(*connect.Error)):
		return gate.StatusOfCode(uint32(connect.CodeOf(err)))
	case errors.Is(err, context.Canceled):
		return gate.StatusOfCode(uint32(connect.CodeCanceled))
	case errors.Is(err, context.DeadlineExceeded):
		return gate.StatusOfCode(uint32(connect.CodeDeadlineExceeded))
	}
	return gate.StatusOfCode(uint32(connect.CodeUnknown))
}
