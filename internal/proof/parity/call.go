package parity

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/shed"
)

// Caller is an adapter for remote procedure calls under test. Its calls are of type R.
type Caller[R any] struct {
	// Open starts a server with the application, and returns a client of it. Both end with the
	// test.
	Open func(t *testing.T, app CallApp[R]) CallClient

	Lift            func(func(*http.Request) (string, error)) func(R) (string, error)
	LiftLimit       func(func(*http.Request) (limits.Limit, error)) func(R) (limits.Limit, error)
	Method, Service func(R) (string, error)
	Message         func(R) string // of a unary call

	Error       func(code uint32) error // the error that a handler returns for a code
	OutcomeFrom func(context.Context) (core.Outcome, bool)
	Spend       func(ctx context.Context, rule string, n int64) bool
	Detach      func(ctx context.Context) (end func(core.Result), ok bool)

	// What another protocol than gRPC and Connect does differently.
	Status       func(code uint32) int // of core.Result; nil: gate.StatusOfCode
	WholeSeconds bool                  // CallAnswer.Retry is rounded up
	NoShed       bool                  // there is no shedder
	LateLeaving  bool                  // a client that leaves a queue is noticed when its turn comes
}

// CallApp is the application that an adapter for calls builds. From the outside in, it has an
// interceptor that turns panics into CodeInternal, the shedder, and the limiters, except those that
// are nil. Messages are strings, such as wrapperspb.StringValue. Each of two services,
// parity.v1.First and parity.v1.Second, has the methods
//
//	Unary    one message for one
//	Down     the server streams
//	Up       the client streams
type CallApp[R any] struct {
	Shed        *shed.Shedder[R]
	Site, Group *Config[R] // limiters, the outer one first
	// called before the answer "hello"; nil: none
	Unary    func(ctx context.Context, message string) error
	Down, Up func(ctx context.Context, stream ServerMessages) error // nil: Echo
}

// ServerMessages is the server's side of a stream.
type ServerMessages interface {
	Send(string) error
	Receive() (string, error) // io.EOF at the end
}

// CallClient is a client of a [CallApp].
type CallClient interface {
	// Call calls Unary.
	Call(ctx context.Context, service string, fields http.Header, message string) CallAnswer
	// Stream begins a call of Down or Up of the first service. Down gets a message at once.
	Stream(ctx context.Context, method string, fields http.Header) ClientMessages
}

// ClientMessages is the client's side of a stream.
type ClientMessages interface {
	Send(string) error
	CloseSend()
	Receive() (string, error) // an error at the end
	Answer() CallAnswer       // after the end
}

// CallAnswer is the end of a call.
type CallAnswer struct {
	Code     uint32
	Text     string        // of the error
	Fields   http.Header   // of header and trailer
	Retry    time.Duration // of RetryInfo; 0 without one
	Violated []string      // the subjects of QuotaFailure
}

// The codes that tests expect, as gRPC and Connect number them.
const (
	CodeOK                uint32 = 0
	CodeCanceled          uint32 = 1
	CodeDeadlineExceeded  uint32 = 4
	CodeResourceExhausted uint32 = 8
	CodeAborted           uint32 = 10
	CodeInternal          uint32 = 13
	CodeUnavailable       uint32 = 14
	CodeUnauthenticated   uint32 = 16
)
