package envoy

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
	"time"
	"unicode/utf8"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	ratelimit "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/weir-go/weir/gateway"
	"github.com/weir-go/weir/gateway/descriptors"
)

// RateLimitOptions are the options of [RegisterRateLimits] and [JSON]. The zero value is
// ready to use.
type RateLimitOptions struct {
	// Fields adds the header fields RateLimit-Limit, RateLimit-Remaining and RateLimit-Reset of
	// the limit that binds to the answer of each request, and Retry-After to denials. Envoy has
	// fields of its own, by enable_x_ratelimit_headers. false: no fields.
	Fields bool

	// Names are the names of the fields of Fields, but not of Retry-After. Zero: those above.
	Names gateway.Names

	// Metadata adds dynamic metadata: the domain, the metadata of the rules that are not
	// exceeded, and who counted, such as "fallback". false: metadata only tells of a source
	// that is not the backend.
	Metadata bool

	// Shadow answers OK whatever is exceeded. Metrics tell of it. false: limits are enforced.
	Shadow bool
}

// RegisterRateLimits lets server answer envoy.service.ratelimit.v3.RateLimitService by
// service.
func RegisterRateLimits(
	server grpc.ServiceRegistrar, service *descriptors.Service, o RateLimitOptions,
) {
	ratelimit.RegisterRateLimitServiceServer(server, &rateLimits{service: service, options: o})
}

type rateLimits struct {
	ratelimit.UnimplementedRateLimitServiceServer
	service *descriptors.Service
	options RateLimitOptions
}

// ShouldRateLimit answers one request.
func (s *rateLimits) ShouldRateLimit(
	ctx context.Context, r *ratelimit.RateLimitRequest,
) (*ratelimit.RateLimitResponse, error) {
	asked := requestOf(r)
	a, err := s.service.Decide(ctx, asked)
	if err != nil {
		return nil, statusOf(err)
	}
	return s.response(asked, &a), nil
}

// statusOf returns an error of a service as gRPC has it. Its text has no part of the request.
func statusOf(err error) error {
	if invalid, ok := errors.AsType[descriptors.Invalid](err); ok {
		return status.Error(codes.InvalidArgument, invalid.Error())
	}
	if errors.Is(err, descriptors.ErrUnavailable) {
		return status.Error(codes.Unavailable, "the limits cannot be decided now")
	}
	return status.FromContextError(err).Err()
}

// requestOf returns a message as package descriptors has it.
func requestOf(r *ratelimit.RateLimitRequest) *descriptors.Request {
	asked := &descriptors.Request{
		Domain:      r.GetDomain(),
		Hits:        uint64(r.GetHitsAddend()),
		Descriptors: make([]descriptors.Descriptor, len(r.GetDescriptors())),
	}
	for i, from := range r.GetDescriptors() {
		d := &asked.Descriptors[i]
		d.Refund = from.GetIsNegativeHits()
		d.Entries = make([]descriptors.Entry, len(from.GetEntries()))
		for j, e := range from.GetEntries() {
			d.Entries[j] = descriptors.Entry{Key: e.GetKey(), Value: e.GetValue()}
		}
		if limit := from.GetLimit(); limit != nil {
			d.Limit = &descriptors.Override{
				RequestsPerUnit: limit.GetRequestsPerUnit(), Unit: unitOf(int32(limit.GetUnit())),
				Multiplier: limit.GetUnitMultiplier().GetValue(),
			}
		}
		if hits := from.GetHitsAddend(); hits != nil {
			value := hits.GetValue()
			d.Hits = &value
		}
	}
	return asked
}

// unitOf returns a unit of Envoy, which has the same numbers; 0 if it is not known.
func unitOf(n int32) descriptors.Unit {
	if n < 0 || n > int32(descriptors.Week) {
		return 0
	}
	return descriptors.Unit(n)
}

// response returns an answer as a message.
func (s *rateLimits) response(
	r *descriptors.Request, a *descriptors.Answer,
) *ratelimit.RateLimitResponse {
	over := a.Over && !s.options.Shadow
	response := &ratelimit.RateLimitResponse{
		OverallCode: codeOf(over),
		Statuses:    make([]*ratelimit.RateLimitResponse_DescriptorStatus, len(a.Statuses)),
	}
	for i := range a.Statuses {
		from := &a.Statuses[i]
		to := &ratelimit.RateLimitResponse_DescriptorStatus{
			Code: codeOf(from.Over), LimitRemaining: from.Remaining,
		}
		if l := from.Limit; l != nil {
			to.CurrentLimit = &ratelimit.RateLimitResponse_RateLimit{
				Name: l.Name, RequestsPerUnit: l.RequestsPerUnit,
				Unit: ratelimit.RateLimitResponse_RateLimit_Unit(l.Unit),
			}
			if l.Multiplier > 1 {
				to.CurrentLimit.UnitMultiplier = wrapperspb.UInt32(l.Multiplier)
			}
			to.DurationUntilReset = durationpb.New(from.Reset)
		}
		response.Statuses[i] = to
	}
	if s.options.Fields {
		response.ResponseHeadersToAdd = s.fieldsOf(a, over)
	}
	if s.options.Metadata || a.Source > descriptors.Backend {
		response.DynamicMetadata = s.metadata(r, a)
	}
	return response
}

func codeOf(over bool) ratelimit.RateLimitResponse_Code {
	if over {
		return ratelimit.RateLimitResponse_OVER_LIMIT
	}
	return ratelimit.RateLimitResponse_OK
}

// fieldsOf returns the header fields of the limit that binds: one that is over, or has least left.
func (s *rateLimits) fieldsOf(a *descriptors.Answer, denied bool) []*core.HeaderValue {
	var binds *descriptors.Status
	for i := range a.Statuses {
		one := &a.Statuses[i]
		if one.Limit != nil && (binds == nil || one.Binds(binds)) {
			binds = one
		}
	}
	if binds == nil {
		return nil
	}
	wait := binds.Reset
	if denied && wait > 0 {
		wait = max(wait, a.Turn+time.Second-1) // rounded up, as resets are
	}
	reset := strconv.FormatInt(int64(wait.Seconds()), 10)
	fields := []*core.HeaderValue{
		{Key: s.options.Names.Limit(), Value: strconv.FormatUint(uint64(binds.Limit.RequestsPerUnit), 10)},
		{Key: s.options.Names.Remaining(), Value: strconv.FormatUint(uint64(binds.Remaining), 10)},
		{Key: s.options.Names.Reset(), Value: reset},
	}
	if denied && binds.Reset > 0 {
		fields = append(fields, &core.HeaderValue{Key: "Retry-After", Value: reset})
	}
	return fields
}

// metadata returns what an access log may have of an answer.
func (s *rateLimits) metadata(r *descriptors.Request, a *descriptors.Answer) *structpb.Struct {
	values := map[string]any{"source": a.Source.String()}
	if s.options.Metadata {
		values["domain"] = r.Domain
		if a.Metadata != nil {
			values["metadata"] = a.Metadata
		}
	}
	made, err := structpb.NewStruct(values)
	if err != nil { // a text of the request or of the file is not UTF-8
		return nil
	}
	return made
}

// maxMessage is how long a message may be, in bytes: 64 descriptors, each with the longest header
// that Envoy accepts by default, have 3.8 MB.
const maxMessage = 4 << 20

// JSON returns the handler of POST /json, which takes a RateLimitRequest and answers with a
// RateLimitResponse, both as proto3 writes JSON: status 200, or 429 if it is over the limit. Bytes
// that are no UTF-8 count as Latin-1.
func JSON(service *descriptors.Service, o RateLimitOptions) http.Handler {
	s := &rateLimits{service: service, options: o}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxMessage))
		if err != nil {
			http.Error(w, "the body is too long, or did not arrive", http.StatusBadRequest)
			return
		}
		if !utf8.Valid(body) {
			body = appendUTF8(nil, body)
		}
		var asked ratelimit.RateLimitRequest
		if err := protojson.Unmarshal(body, &asked); err != nil {
			http.Error(w, "the body is no RateLimitRequest", http.StatusBadRequest)
			return
		}
		response, err := s.ShouldRateLimit(r.Context(), &asked)
		if err != nil {
			code := http.StatusServiceUnavailable
			if status.Code(err) == codes.InvalidArgument {
				code = http.StatusBadRequest
			}
			http.Error(w, status.Convert(err).Message(), code)
			return
		}
		answer, err := protojson.Marshal(response)
		if err != nil {
			http.Error(w, "the answer cannot be written", http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Cache-Control", "no-store")
		if response.OverallCode == ratelimit.RateLimitResponse_OVER_LIMIT {
			w.WriteHeader(http.StatusTooManyRequests)
		}
		w.Write(answer)
	})
}
