package grpcmw_test

import (
	"context"
	"io"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/weir-go/weir/grpcmw"
	"github.com/weir-go/weir/limits"
)

// contextOfMap is a context that cannot be compared.
type contextOfMap struct {
	context.Context
	values map[string]any
}

type streamWithin struct {
	grpc.ServerStream
	ctx context.Context
}

func (s *streamWithin) Context() context.Context { return s.ctx }

func TestAStreamMayHaveAnyContext(t *testing.T) {
	l := newLimiter(t, grpcmw.Config{Rules: everybody(limits.FixedWindow(limits.PerDay(9)))})
	outside := func(server any, s grpc.ServerStream, _ *grpc.StreamServerInfo, h grpc.StreamHandler) error {
		return h(server, &streamWithin{s, contextOfMap{s.Context(), nil}})
	}
	stream, err := serve(t, new(service),
		grpc.ChainStreamInterceptor(recoverStream, outside, l.Stream())).FullDuplexCall(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Recv(); err != io.EOF {
		t.Error(err)
	}
}

func TestMetadataWithoutValues(t *testing.T) {
	c := &grpcmw.Call{Context: metadata.NewIncomingContext(t.Context(), metadata.MD{":authority": nil, "x-tenant": {}})}
	if r := c.Request(); r.Host != "" || len(r.Header) > 0 {
		t.Errorf("host %q, header %v", r.Host, r.Header)
	}
}
