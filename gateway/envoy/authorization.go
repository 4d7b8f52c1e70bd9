package envoy

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/textproto"
	"slices"
	"strings"

	config "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	auth "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	types "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	rpc "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/gateway/internal/grpcdenial"
	"github.com/weir-go/weir/gateway/internal/minutely"
	"github.com/weir-go/weir/gateway/internal/original"
	"github.com/weir-go/weir/internal/ground/address"
	"github.com/weir-go/weir/internal/ground/failure"
	"github.com/weir-go/weir/nethttp"
)

// AuthorizationOptions are the options of [RegisterAuthorization]. The zero value is ready to
// use.
type AuthorizationOptions struct {
	// Logger gets one line a minute while there are checks that no request can be made of. No
	// line has a part of a request. nil: the logger that slog.Default returns at that time.
	Logger *slog.Logger
}

// RegisterAuthorization lets server answer envoy.service.auth.v3.Authorization by limiter.
// The limiter decides the request as Envoy describes it: its peer is the source address, and
// its header has all that Envoy sends. A denied request gets the answer of the limiter, with
// status 429, fields and problem document; an allowed one gets the fields. The rules must
// suit checks: see gateway.Suits.
//
// A check without method, path, host or address is denied with 503, so nothing passes. So is a
// request that a rule whose OnFailure is core.FailClosed could not decide, and a request of which
// a rule found no key or no cost: a client can bring that about. If nothing but a LimitFor or the
// fallback failed, the answer with 503 is an error_response: the failure mode of Envoy then decides
// whether the request passes.
//
// RegisterAuthorization panics if limiter is nil, as Handler of a limiter does.
func RegisterAuthorization(
	server grpc.ServiceRegistrar, limiter *nethttp.Limiter, o AuthorizationOptions,
) {
	auth.RegisterAuthorizationServer(server, &authorization{
		decide: limiter.Handler(http.HandlerFunc(allow)),
		refused: minutely.Log{
			Logger: o.Logger, Level: slog.LevelWarn,
			Text: "envoy: a check cannot be read, and is answered 503",
		},
	})
}

func allow(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) }

type authorization struct {
	auth.UnimplementedAuthorizationServer
	decide  http.Handler
	refused minutely.Log
}

// Check answers one check.
func (s *authorization) Check(
	ctx context.Context, check *auth.CheckRequest,
) (*auth.CheckResponse, error) {
	r, err := originalOf(ctx, check.GetAttributes())
	if err != nil {
		s.refused.Note(err)
		return denied(&answer{status: http.StatusServiceUnavailable}), nil
	}
	a := answer{header: make(http.Header)}
	s.decide.ServeHTTP(&a, r)
	if err := ctx.Err(); err != nil {
		return nil, status.FromContextError(err).Err()
	}
	if a.status != http.StatusOK && grpcdenial.Asked(r) {
		grpcdenial.Set(a.header, r, a.status, a.body.Bytes())
		a.body.Reset()
	}
	if a.failed {
		return failed(&a), nil
	}
	if a.status != http.StatusOK {
		return denied(&a), nil
	}
	ok := &auth.OkHttpResponse{ResponseHeadersToAdd: optionsOf(a.header)}
	return &auth.CheckResponse{
		Status:       &rpc.Status{Code: int32(codes.OK)},
		HttpResponse: &auth.CheckResponse_OkResponse{OkResponse: ok},
	}, nil
}

// denied returns a as the answer that the client gets.
func denied(a *answer) *auth.CheckResponse {
	code := codes.ResourceExhausted
	if a.status == http.StatusServiceUnavailable {
		code = codes.Unavailable
	}
	return &auth.CheckResponse{
		Status:       &rpc.Status{Code: int32(code)},
		HttpResponse: &auth.CheckResponse_DeniedResponse{DeniedResponse: a.message()},
	}
}

// failed returns a as the answer that the client gets unless Envoy's failure mode lets the request
// pass.
func failed(a *answer) *auth.CheckResponse {
	return &auth.CheckResponse{
		Status:       &rpc.Status{Code: int32(codes.Unavailable)},
		HttpResponse: &auth.CheckResponse_ErrorResponse{ErrorResponse: a.message()},
	}
}

// optionsOf returns header fields as Envoy is to add them, in the order of their names. Envoy
// counts the bytes of a body itself.
func optionsOf(h http.Header) (options []*config.HeaderValueOption) {
	for name, lines := range h {
		if name == "Content-Length" || name == "Date" {
			continue
		}
		for _, line := range lines {
			options = append(options, &config.HeaderValueOption{
				Header:       &config.HeaderValue{Key: strings.ToLower(name), Value: line},
				AppendAction: config.HeaderValueOption_APPEND_IF_EXISTS_OR_ADD,
			})
		}
	}
	slices.SortStableFunc(options, func(a, b *config.HeaderValueOption) int {
		return strings.Compare(a.Header.Key, b.Header.Key)
	})
	return options
}

var errAddress = errors.New("the source has no IP address")

// originalOf returns the request that a check is about.
func originalOf(ctx context.Context, a *auth.AttributeContext) (*http.Request, error) {
	from := a.GetRequest().GetHttp()
	peer, _, err := address.Parse(a.GetSource().GetAddress().GetSocketAddress().GetAddress())
	if err != nil {
		return nil, errAddress
	}
	made := original.Request{
		Method: from.GetMethod(), Host: from.GetHost(), Target: from.GetPath(),
		Address: peer, Header: headerOf(from),
	}
	return made.HTTP(ctx)
}

// headerOf returns the header of a request, from its lines if Envoy sends them (encode_raw_headers).
func headerOf(from *auth.AttributeContext_HttpRequest) http.Header {
	h := make(http.Header)
	add := func(name, value string) {
		if !strings.HasPrefix(name, ":") {
			h.Add(textproto.CanonicalMIMEHeaderKey(name), value)
		}
	}
	if lines := from.GetHeaderMap().GetHeaders(); lines != nil {
		for _, line := range lines {
			value := line.GetValue()
			if raw := line.GetRawValue(); raw != nil {
				value = string(raw)
			}
			add(line.GetKey(), value)
		}
		return h
	}
	for name, value := range from.GetHeaders() {
		add(name, value)
	}
	return h
}

// answer is an http.ResponseWriter that keeps what is written.
type answer struct {
	header http.Header
	status int
	body   bytes.Buffer
	failed bool // this program could not decide, and that is not the client's doing
}

// Header returns the header fields of the answer.
func (a *answer) Header() http.Header { return a.header }

// Write writes to the body.
func (a *answer) Write(p []byte) (int, error) {
	a.WriteHeader(http.StatusOK)
	return a.body.Write(p)
}

// WriteHeader sets the status.
func (a *answer) WriteHeader(status int) {
	if a.status == 0 {
		a.status = status
	}
}

// Undecided notes why the rules could not decide. The last failure is the one that made the request
// unavailable.
func (a *answer) Undecided(err error) {
	for e := range failure.All(err) {
		a.failed = e.Part == failure.Fallback || e.Part == failure.Limit && !e.Closed
	}
	if _, panicked := errors.AsType[*failure.Panic](err); panicked || errors.Is(err, core.ErrQueueFull) {
		a.failed = false
	}
}

// message returns the answer as Envoy takes it.
func (a *answer) message() *auth.DeniedHttpResponse {
	return &auth.DeniedHttpResponse{
		Status:  &types.HttpStatus{Code: types.StatusCode(a.status)},
		Headers: optionsOf(a.header),
		Body:    a.body.String(),
	}
}
