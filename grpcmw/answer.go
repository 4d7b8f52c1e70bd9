package grpcmw

import (
	"net/http"
	"strings"
	"sync"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/weir-go/weir/internal/http/gate"
)

// headerPool holds empty headers for the fields, whose values are moved into metadata.
var headerPool = sync.Pool{New: func() any { return make(http.Header) }}

// metadata returns the written fields as metadata. The second call returns nil.
func (c *call) metadata() metadata.MD {
	if c.fields == nil {
		return nil
	}
	md := metadataOf(c.fields)
	c.dropFields()
	return md
}

// dropFields returns the header of Fields to the pool.
func (c *call) dropFields() {
	clear(c.fields)
	headerPool.Put(c.fields)
	c.fields = nil
}

func metadataOf(fields http.Header) metadata.MD {
	md := make(metadata.MD, len(fields)+1)
	for name, values := range fields {
		md[lower(name)] = values
	}
	return md
}

// lower returns the name of a field in lower case, without an allocation for common names.
func lower(name string) string {
	switch name {
	case "Ratelimit":
		return "ratelimit"
	case "Ratelimit-Policy":
		return "ratelimit-policy"
	case "Retry-After":
		return "retry-after"
	}
	return strings.ToLower(name)
}

// pushback tells gRPC's own retries when to repeat a call: see [answer.Pushback].
const pushback = "grpc-retry-pushback-ms"

// trailer returns the trailer of a call that may not go on.
func (c *call) trailer(r *gate.Refusal) metadata.MD {
	md := c.metadata()
	if r.Status != 0 {
		md[pushback] = []string{r.Pushback(c.Context)}
	}
	return md
}

// refuse returns the error of a call that may not go on. Call it before trailer, since it decides
// whether the client may try again.
func (c *call) refuse(r *gate.Refusal) error {
	if r.Status == 0 {
		return status.FromContextError(r.Err).Err()
	}
	code := codes.Unavailable
	if r.Status == http.StatusTooManyRequests {
		code = codes.ResourceExhausted
	}
	s := refusal(code, r.Detail, r.Wait, r.Violated())
	if denied := c.limiter.denied; denied != nil {
		if err := denied(&c.Call, r.Outcome, s); err != nil {
			if r.NoWaitHelps(uint32(status.Code(err))) {
				r.Wait = 0
				c.fields.Del("Retry-After")
			}
			return err
		}
	}
	return s.Err()
}

// refusal returns a status with details: the wait, if positive, and the rules that denied.
func refusal(
	code codes.Code, message string, wait time.Duration, violated []string,
) *status.Status {
	s := status.New(code, message)
	var details []protoadapt.MessageV1
	if wait > 0 {
		details = append(details, &errdetails.RetryInfo{RetryDelay: durationpb.New(wait)})
	}
	if len(violated) > 0 {
		failure := new(errdetails.QuotaFailure)
		for _, name := range violated {
			failure.Violations = append(failure.Violations,
				&errdetails.QuotaFailure_Violation{Subject: name, Description: message})
		}
		details = append(details, failure)
	}
	detailed, err := s.WithDetails(details...)
	if err != nil { // impossible with these messages
		return s
	}
	return detailed
}

// statusOf returns the HTTP status for the error of a handler.
func statusOf(err error) int {
	if err == nil {
		return http.StatusOK
	}
	s, ok := status.FromError(err)
	if !ok {
		s = status.FromContextError(err)
	}
	return gate.StatusOfCode(uint32(s.Code()))
}
