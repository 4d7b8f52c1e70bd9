package grpcmw_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	pb "google.golang.org/grpc/interop/grpc_testing"

	"github.com/weir-go/weir/client"
	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/grpcmw"
	"github.com/weir-go/weir/keyfuncs"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
	"github.com/weir-go/weir/memory"
	"github.com/weir-go/weir/shed"
)

// flaky is a backend across a network, whose calls and replies are lost now and then.
type flaky struct {
	*memory.Memory
	lost atomic.Bool // from now on all are
}

func (f *flaky) Take(ctx context.Context, charges []backends.Charge, out []limits.Decision) error {
	if f.lost.Load() || rand.N(20) == 0 {
		return errors.New("no connection")
	}
	return f.Memory.Take(ctx, charges, out)
}

func (f *flaky) Settle(ctx context.Context, endings []backends.Ending, out []limits.Settlement) error {
	if f.lost.Load() {
		return errors.New("no connection")
	}
	return f.Memory.Settle(ctx, endings, out)
}

// Streams whose clients, connections, handlers and messages end in any order: in the end nothing is held.
func TestStreamsThatAreKilled(t *testing.T) {
	streams := 1000
	if os.Getenv("WEIR_FULL") != "" {
		streams = 10_000
	}
	const atOnce = 20
	for name, backend := range map[string]backends.Backend{
		"memory": nil, "flaky": &flaky{Memory: memory.MustNew(memory.Options{})},
	} {
		t.Run(name, func(t *testing.T) {
			var running, most, spent, ends atomic.Int64
			l := newLimiter(t, grpcmw.Config{
				Backend: backend,
				Rules: []grpcmw.Rule{
					{Name: "at once", Limit: limits.Concurrent(atOnce), Key: keyfuncs.Constant[*grpcmw.Call]("all")},
					{Name: "messages", Limit: limits.TokenBucket(limits.PerSecond(1_000_000), 1_000_000),
						Key: keyfuncs.Constant[*grpcmw.Call]("all"), FinalCost: core.SpentCost},
				},
				Observer: core.ObserverFuncs[*grpcmw.Call]{OnEnd: func(s limits.Settlement) { ends.Add(1) }},
			})
			shedder := shed.MustNew(shed.Options[*grpcmw.Call]{Limit: 1000})
			shedUnary, shedStream := grpcmw.Shed(shedder)
			var left sync.WaitGroup // that outlive their handlers
			s := &service{duplex: func(stream pb.TestService_FullDuplexCallServer) error {
				now := running.Add(1)
				defer running.Add(-1)
				for old := most.Load(); now > old && !most.CompareAndSwap(old, now); old = most.Load() {
				}
				ctx := stream.Context()
				for range 3 {
					left.Go(func() {
						for range 50 {
							if grpcmw.Spend(ctx, "messages", 1) {
								spent.Add(1)
							}
						}
					})
				}
				left.Go(func() { // sends after the end, too
					for range 20 {
						if stream.Send(new(pb.StreamingOutputCallResponse)) != nil {
							return
						}
					}
				})
				for range 1 + rand.N(5) {
					if _, err := stream.Recv(); err != nil {
						return err
					}
				}
				if rand.N(4) == 0 {
					panic("boom")
				}
				return nil
			}}
			listener := listen(t, s, grpc.ChainUnaryInterceptor(shedUnary, l.Unary()),
				grpc.ChainStreamInterceptor(recoverStream, shedStream, l.Stream()))
			var clients sync.WaitGroup
			for range 32 {
				clients.Go(func() {
					for range streams / 32 / 10 {
						conn := dial(t, listener)
						for i := range 10 {
							kill(t.Context(), conn, i)
						}
					}
				})
			}
			clients.Wait()
			waitFor(t, "nothing is held", func() bool { units := l.State().Held; return units == 0 })
			left.Wait()
			waitFor(t, "nothing is in flight", func() bool {
				state := shedder.State()
				return state.InFlight == 0 && state.Streams == 0
			})
			waitFor(t, "the backend has all back", func() bool {
				d, err := l.ExplainKey(t.Context(), "at once", "all", limits.Limit{})
				return err == nil && d.Remaining == atOnce
			})
			bound := int64(atOnce)
			if backend != nil {
				bound *= 2 // a fallback may add one share
			}
			if most.Load() > bound || most.Load() == 0 || spent.Load() == 0 || ends.Load() == 0 {
				t.Errorf("%d at once, %d messages, %d ends", most.Load(), spent.Load(), ends.Load())
			}
		})
	}
}

// kill opens a stream and leaves it in one way of some.
func kill(ctx context.Context, conn *grpc.ClientConn, i int) {
	ctx, cancel := context.WithTimeout(ctx, time.Duration(1+rand.N(20_000))*time.Microsecond)
	if i%3 == 0 {
		ctx, cancel = context.WithCancel(context.WithoutCancel(ctx))
	}
	defer cancel()
	stream, err := pb.NewTestServiceClient(conn).FullDuplexCall(ctx)
	if err != nil {
		return
	}
	for range rand.N(6) {
		stream.Send(new(pb.StreamingOutputCallRequest))
	}
	switch rand.N(5) {
	case 0:
		stream.CloseSend()
	case 1:
		if i == 9 {
			conn.Close()
		}
	case 2:
		return
	}
	if i%3 != 0 {
		for {
			if _, err := stream.Recv(); err != nil {
				return
			}
		}
	}
}

// Whatever function of the program panics, the call ends and gives back what it holds.
func TestPanicsOfHooks(t *testing.T) {
	boom := func() { panic("boom") }
	for name, breakIt := range map[string]func(*grpcmw.Config, *bool){
		"Key": func(c *grpcmw.Config, on *bool) {
			c.Rules[1].Key = func(*grpcmw.Call) (string, error) {
				if *on {
					boom()
				}
				return "a", nil
			}
		},
		"Cost": func(c *grpcmw.Config, on *bool) {
			c.Rules[1].Cost = func(*grpcmw.Call) int64 {
				if *on {
					boom()
				}
				return 1
			}
		},
		"LimitFor": func(c *grpcmw.Config, on *bool) {
			limit := c.Rules[1].Limit
			c.Rules[1].Limit = limits.Limit{}
			c.Rules[1].LimitFor = func(*grpcmw.Call, string) (limits.Limit, error) {
				if *on {
					boom()
				}
				return limit, nil
			}
		},
		"FinalCost": func(c *grpcmw.Config, on *bool) {
			c.Rules[1].FinalCost = func(core.Result) int64 {
				if *on {
					boom()
				}
				return 1
			}
		},
		"Observe": func(c *grpcmw.Config, on *bool) {
			c.Observer = core.ObserverFuncs[*grpcmw.Call]{OnDecision: func(context.Context, *grpcmw.Call,
				core.Outcome) {
				if *on {
					boom()
				}
			}}
		},
		"ObserveEnd": func(c *grpcmw.Config, on *bool) {
			c.Observer = core.ObserverFuncs[*grpcmw.Call]{OnEnd: func(limits.Settlement) {
				if *on {
					boom()
				}
			}}
		},
		"Custom": func(c *grpcmw.Config, on *bool) {
			c.Headers.Custom = func(http.Header, core.Outcome) {
				if *on {
					boom()
				}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			on := new(bool)
			config := grpcmw.Config{Rules: []grpcmw.Rule{
				{Name: "at once", Limit: limits.Concurrent(1), Key: keyfuncs.Constant[*grpcmw.Call]("all")},
				{Name: "calls", Limit: limits.FixedWindow(limits.PerDay(1000)),
					Key: keyfuncs.Constant[*grpcmw.Call]("all")},
			}}
			breakIt(&config, on)
			l := newLimiter(t, config)
			c := serve(t, new(service), grpc.ChainUnaryInterceptor(recoverUnary, l.Unary()),
				grpc.ChainStreamInterceptor(recoverStream, l.Stream()))
			*on = true
			for range 3 {
				ask(t.Context(), c)
				if stream, err := c.FullDuplexCall(t.Context()); err == nil {
					stream.Recv()
				}
			}
			*on = false
			if got := ask(t.Context(), c); got.code != codes.OK {
				t.Errorf("afterwards: %+v", got)
			}
			if units := l.State().Held; units != 0 {
				t.Errorf("%d held", units)
			}
		})
	}
}

// GracefulStop waits for the calls that wait in a queue, and Stop ends them.
func TestAServerStopsWhileCallsWaitInAQueue(t *testing.T) {
	for _, graceful := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			l := newLimiter(t, grpcmw.Config{Rules: everybody(limits.LeakyQueue(limits.PerSecond(1), 10))})
			server := grpc.NewServer(both(l)...)
			pb.RegisterTestServiceServer(server, new(service))
			listener := listenOn(t, server)
			c := pb.NewTestServiceClient(dial(t, listener))
			var got [4]told
			var wg sync.WaitGroup
			for i := range got {
				wg.Go(func() {
					if i%2 == 0 {
						got[i] = ask(t.Context(), c)
						return
					}
					stream, err := c.FullDuplexCall(t.Context())
					if err == nil {
						_, err = stream.Recv()
					}
					got[i].read(err)
				})
			}
			synctest.Wait()
			began := time.Now()
			if graceful {
				server.GracefulStop()
			} else {
				server.Stop()
			}
			wg.Wait()
			synctest.Wait()
			if l.State().Waiting != 0 || graceful != (time.Since(began) == 3*time.Second) {
				t.Errorf("graceful %v: %d wait, after %v: %+v", graceful, l.State().Waiting, time.Since(began), got)
			}
		})
	}
}

// A backend that is lost while streams are open leaves none of them held, and takes their ends once it is back.
func TestABackendIsLostWhileStreamsAreOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		backend := &flaky{Memory: memory.MustNew(memory.Options{})}
		l := newLimiter(t, grpcmw.Config{Backend: backend, Rules: []grpcmw.Rule{
			{Name: "a", Limit: limits.Concurrent(1000), Key: keyfuncs.Constant[*grpcmw.Call]("all"),
				OnFailure: core.FailClosed},
		}})
		c := serve(t, waits(), both(l)...)
		ctx, leave := context.WithCancel(t.Context())
		for range 100 {
			c.FullDuplexCall(ctx)
		}
		synctest.Wait()
		backend.lost.Store(true)
		if got := ask(t.Context(), c); got.code != codes.Unavailable || got.retry < 0 {
			t.Errorf("without a backend: %+v", got)
		}
		leave()
		time.Sleep(time.Second)
		synctest.Wait()
		if units := l.State().Held; units != 0 {
			t.Errorf("%d are held", units)
		}
	})
}

// Two clients in a chain wait once, and two limiters in a chain hold and give back what each has taken.
func TestChains(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		outer, inner := newLimiter(t, grpcmw.Config{Rules: everybody(limits.Concurrent(5))}),
			newLimiter(t, grpcmw.Config{Rules: everybody(limits.TokenBucket(limits.PerMinute(60), 1))})
		u1, s1 := grpcmw.MustClient(client.Options{MaxWait: time.Minute})
		u2, s2 := grpcmw.MustClient(client.Options{MaxWait: time.Minute})
		listener := listen(t, new(service),
			grpc.ChainUnaryInterceptor(outer.Unary(), inner.Unary(), outer.Unary()),
			grpc.ChainStreamInterceptor(outer.Stream(), inner.Stream(), outer.Stream()))
		c := pb.NewTestServiceClient(
			dial(t, listener, grpc.WithChainUnaryInterceptor(u1, u2), grpc.WithChainStreamInterceptor(s1, s2)))
		for i := range 20 {
			if i%2 == 0 {
				if got := ask(t.Context(), c); got.code != codes.OK {
					t.Errorf("%d: %+v", i, got)
				}
				continue
			}
			stream, err := c.FullDuplexCall(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			stream.Recv()
		}
		synctest.Wait()
		if units := outer.State().Held; units != 0 {
			t.Errorf("%d are held", units)
		}
	})
}
