package grpcmw_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math"
	"net"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"

	"github.com/weir-go/weir/grpcmw"
	"github.com/weir-go/weir/keyfuncs"
	"github.com/weir-go/weir/limits"
)

// target is a server with a limiter that allows 50 calls, 4 at once.
type target struct {
	address string
	limiter *grpcmw.Limiter
	served  atomic.Int32
}

// newTarget starts one, of which a tap may decide. In the end nothing may be held, no goroutine left, and no more
// served.
func newTarget(t *testing.T, start func(*testing.T, *grpc.Server) string, tapped bool, s *service) *target {
	t.Helper()
	const allowed = 50
	of := new(target)
	l := newLimiter(t, grpcmw.Config{Rules: []grpcmw.Rule{
		{Name: "calls", Limit: limits.TokenBucket(limits.PerDay(allowed), allowed),
			Key: keyfuncs.Constant[*grpcmw.Call]("all")},
		{Name: "at once", Limit: limits.Concurrent(4), Key: keyfuncs.Address(grpcmw.Peer)},
		{Name: "token", Limit: limits.FixedWindow(limits.PerDay(1_000_000)), Key: grpcmw.Lift(keyfuncs.BearerToken)},
	}})
	unary := func(ctx context.Context, m any, _ *grpc.UnaryServerInfo, h grpc.UnaryHandler) (any, error) {
		of.served.Add(1)
		return h(ctx, m)
	}
	stream := func(server any, s grpc.ServerStream, _ *grpc.StreamServerInfo, h grpc.StreamHandler) error {
		of.served.Add(1)
		return h(server, s)
	}
	before := runtime.NumGoroutine()
	t.Cleanup(func() { // after the server has stopped
		waitFor(t, "nothing is held", func() bool { units := l.State().Held; return units == 0 })
		waitFor(t, "no goroutine is left", func() bool { return runtime.NumGoroutine() <= before })
		if n := of.served.Load(); n == 0 || n > allowed {
			t.Errorf("%d calls were served, want 1 to %d", n, allowed)
		}
	})
	options := []grpc.ServerOption{
		grpc.ChainUnaryInterceptor(recoverUnary, l.Unary(), unary),
		grpc.ChainStreamInterceptor(recoverStream, l.Stream(), stream),
	}
	var server *grpc.Server
	if tapped {
		options = append(options, grpc.InTapHandle(l.Tap(func() *grpc.Server { return server })))
	}
	server = grpc.NewServer(options...)
	pb.RegisterTestServiceServer(server, s)
	of.address, of.limiter = start(t, server), l
	t.Cleanup(func() {
		waitFor(t, "nothing is held while the server runs", func() bool { units := l.State().Held; return units == 0 })
	})
	return of
}

func waitFor(t *testing.T, what string, so func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !so(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Errorf("a minute later it is not so that %s", what)
			return
		}
	}
}

// eachServer runs an attack on both servers, and on one with a tap.
func eachServer(t *testing.T, s *service, attack func(t *testing.T, of *target)) {
	for name, start := range map[string]func(*testing.T, *grpc.Server) string{
		"Serve": startServer, "ServeHTTP": startHTTP, "Tap": startServer,
	} {
		t.Run(name, func(t *testing.T) { attack(t, newTarget(t, start, name == "Tap", s)) })
	}
}

func dialTCP(t *testing.T, address string) pb.TestServiceClient {
	t.Helper()
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithMaxHeaderListSize(math.MaxInt32))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return pb.NewTestServiceClient(conn)
}

// waits has handlers that wait until the client leaves.
func waits() *service {
	return &service{
		unary: func(ctx context.Context, _ *pb.SimpleRequest) (*pb.SimpleResponse, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		},
		duplex: func(stream pb.TestService_FullDuplexCallServer) error { <-stream.Context().Done(); return nil },
		up: func(stream pb.TestService_StreamingInputCallServer) error {
			for {
				if _, err := stream.Recv(); err != nil {
					return err
				}
			}
		},
	}
}

// raw is a connection on which streams are written by hand.
type raw struct {
	t       *testing.T
	conn    net.Conn
	framer  *http2.Framer
	encoder *hpack.Encoder
	block   bytes.Buffer
	next    uint32
	mu      sync.Mutex // of writes
}

func newRaw(t *testing.T, address string) *raw {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	io.WriteString(conn, http2.ClientPreface)
	r := &raw{t: t, conn: conn, framer: http2.NewFramer(conn, conn), next: 1}
	r.encoder = hpack.NewEncoder(&r.block)
	r.framer.WriteSettings()
	done := make(chan bool)
	go func() { // reads until the connection closes
		defer close(done)
		for {
			f, err := r.framer.ReadFrame()
			if err != nil {
				return
			}
			r.mu.Lock()
			switch f := f.(type) {
			case *http2.SettingsFrame:
				if !f.IsAck() {
					r.framer.WriteSettingsAck()
				}
			case *http2.PingFrame:
				if !f.IsAck() {
					r.framer.WritePing(true, f.Data)
				}
			}
			r.mu.Unlock()
		}
	}()
	t.Cleanup(func() { conn.Close(); <-done })
	return r
}

// begin begins a stream, and returns its id; 0 if the server has closed the connection.
func (r *raw) begin(method string) uint32 {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.block.Reset()
	for _, field := range [][2]string{
		{":method", "POST"}, {":scheme", "http"}, {":path", "/grpc.testing.TestService/" + method},
		{":authority", "server"},
		{"content-type", "application/grpc"}, {"te", "trailers"},
	} {
		r.encoder.WriteField(hpack.HeaderField{Name: field[0], Value: field[1]})
	}
	id := r.next
	r.next += 2
	headers := http2.HeadersFrameParam{StreamID: id, BlockFragment: r.block.Bytes(), EndHeaders: true}
	if r.framer.WriteHeaders(headers) != nil {
		return 0
	}
	return id
}

func (r *raw) data(id uint32, end bool, data []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.framer.WriteData(id, end, data)
}

func (r *raw) reset(id uint32) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.framer.WriteRSTStream(id, http2.ErrCodeCancel)
}

// Rapid resets (CVE-2023-44487). Servers may close the connection before the last of them.
func TestRapidResets(t *testing.T) {
	eachServer(t, waits(), func(t *testing.T, of *target) {
		resets := 0
		for resets < 10_000 {
			r := newRaw(t, of.address)
			for range 1000 {
				id := r.begin([]string{"FullDuplexCall", "StreamingInputCall", "UnaryCall"}[resets%3])
				if id == 0 {
					break
				}
				r.data(id, resets%2 == 0, []byte{0, 0, 0, 0, 0})
				r.reset(id)
				resets++
			}
			r.conn.Close()
		}
		reach(t, of)
	})
}

// reach has at least one call reach its handler.
func reach(t *testing.T, of *target) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	dialTCP(t, of.address).FullDuplexCall(ctx)
	waitFor(t, "a call is served", func() bool { return of.served.Load() > 0 })
}

// full waits until all slots are held, and expects a denial.
func full(t *testing.T, of *target) {
	t.Helper()
	waitFor(t, "all slots are held", func() bool { units := of.limiter.State().Held; return units == 4 })
	if got := ask(t.Context(), dialTCP(t, of.address)); got.code != codes.ResourceExhausted {
		t.Errorf("%+v", got)
	}
}

// Messages of which the end never comes, half of them announced as of 4 MB.
func TestMessagesThatNeverEnd(t *testing.T) {
	eachServer(t, waits(), func(t *testing.T, of *target) {
		r := newRaw(t, of.address)
		for i := range 100 {
			id := r.begin([]string{"StreamingInputCall", "UnaryCall"}[i%2])
			r.data(id, false, []byte{0, 0, 0x3f, 0xff, 0xff, 1})
		}
		full(t, of)
		r.conn.Close()
	})
}

func TestMetadataOf8MB(t *testing.T) {
	eachServer(t, new(service), func(t *testing.T, of *target) {
		before := inUse()
		t.Run("hostile", func(t *testing.T) { // which closes the connection
			client := dialTCP(t, of.address)
			for i, fields := range [][]string{
				{"authorization", "Bearer " + strings.Repeat("a", 8<<20)},
				{"authorization", strings.Repeat("a", 8<<20)},
				many(40_000),
			} {
				ctx := metadata.AppendToOutgoingContext(t.Context(), fields...)
				if got := ask(ctx, client); got.code == codes.ResourceExhausted {
					t.Errorf("metadata %d: %+v", i, got)
				}
			}
		})
		waitFor(t, "none of it is kept", func() bool { return inUse() < before+4<<20 })
		if got := ask(t.Context(), dialTCP(t, of.address)); got.code != codes.OK {
			t.Errorf("afterwards: %+v", got)
		}
	})
}

// inUse returns how many bytes are in use, without what pools keep.
func inUse() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// many returns n fields of 200 bytes.
func many(n int) (fields []string) {
	for i := range n {
		fields = append(fields, fmt.Sprint("x-", i), strings.Repeat("a", 190))
	}
	return fields
}

func TestDeadlinesOfAMicrosecond(t *testing.T) {
	s := waits()
	eachServer(t, s, func(t *testing.T, of *target) {
		client := dialTCP(t, of.address)
		var wg sync.WaitGroup
		for i := range 8 {
			wg.Go(func() {
				for j := range 250 {
					ctx, cancel := context.WithTimeout(t.Context(), time.Duration(1+(i*j)%500)*time.Microsecond)
					if j%2 == 0 {
						ask(ctx, client)
					} else if stream, err := client.FullDuplexCall(ctx); err == nil {
						stream.Recv()
					}
					cancel()
				}
			})
		}
		wg.Wait()
		r := newRaw(t, of.address) // what no client of gRPC sends: the server alone sees the deadline
		for range 100 {
			r.mu.Lock()
			r.block.Reset()
			for _, field := range [][2]string{
				{":method", "POST"}, {":scheme", "http"}, {":path", "/grpc.testing.TestService/FullDuplexCall"},
				{":authority", "server"},
				{"content-type", "application/grpc"}, {"te", "trailers"}, {"grpc-timeout", "1u"},
			} {
				r.encoder.WriteField(hpack.HeaderField{Name: field[0], Value: field[1]})
			}
			r.framer.WriteHeaders(http2.HeadersFrameParam{
				StreamID: r.next, BlockFragment: r.block.Bytes(), EndHeaders: true,
			})
			r.next += 2
			r.mu.Unlock()
		}
		reach(t, of)
	})
}

// Streams whose client has no more to say, and does not listen.
func TestHalfClosedStreams(t *testing.T) {
	endless := waits()
	endless.down = func(_ *pb.StreamingOutputCallRequest, stream pb.TestService_StreamingOutputCallServer) error {
		payload := &pb.StreamingOutputCallResponse{Payload: &pb.Payload{Body: make([]byte, 1<<16)}}
		for {
			if err := stream.Send(payload); err != nil {
				return err
			}
		}
	}
	eachServer(t, endless, func(t *testing.T, of *target) {
		r := newRaw(t, of.address)
		for i := range 200 {
			id := r.begin([]string{"StreamingOutputCall", "FullDuplexCall"}[i%2])
			r.data(id, true, []byte{0, 0, 0, 0, 0})
		}
		full(t, of)
		r.conn.Close()
	})
}

func TestPanicsOfHandlers(t *testing.T) {
	s := &service{
		unary:  func(context.Context, *pb.SimpleRequest) (*pb.SimpleResponse, error) { panic("boom") },
		duplex: func(pb.TestService_FullDuplexCallServer) error { panic("boom") },
	}
	eachServer(t, s, func(t *testing.T, of *target) {
		client := dialTCP(t, of.address)
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				for range 100 {
					ask(t.Context(), client)
					if stream, err := client.FullDuplexCall(t.Context()); err == nil {
						stream.Recv()
					}
				}
			})
		}
		wg.Wait()
	})
}
