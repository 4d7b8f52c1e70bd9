package faults

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/internal/proof/testrun"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/memory"
	"github.com/weir-go/weir/redisbackend"
	"github.com/weir-go/weir/remote"
)

// childVariable has the address of the server where this program is to be one
// of many processes.
const childVariable = "WEIR_FAULTS_CHILD"

const (
	processes       = 32
	childGoroutines = 4
	childRequests   = 25 // of each goroutine
	childLimit      = 1000
)

// Each process opens its own connections and learns nothing of the others but
// through Redis.
func TestThirtyTwoProcessesAdmitExactlyTheLimit(t *testing.T) {
	s := startServer(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	type process struct {
		*exec.Cmd
		stdin  io.WriteCloser
		stdout *bufio.Reader
	}
	var all []process
	for range processes {
		p := process{Cmd: testrun.CommandContext(ctx, t, self)}
		p.Env = append(os.Environ(), childVariable+"="+s.addr)
		p.Stderr = os.Stderr
		if p.stdin, err = p.StdinPipe(); err != nil {
			t.Fatal(err)
		}
		stdout, err := p.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		p.stdout = bufio.NewReader(stdout)
		if err := p.Start(); err != nil {
			t.Fatal(err)
		}
		defer p.Wait()
		defer p.stdin.Close()
		all = append(all, p)
	}
	for _, p := range all {
		if line, err := p.stdout.ReadString('\n'); line != "ready\n" {
			t.Fatalf("a process says %q, %v", line, err)
		}
	}
	start := time.Now()
	for _, p := range all {
		p.stdin.Close() // go
	}
	admitted, denied, cached, least, most := 0, 0, 0, childLimit, 0
	for _, p := range all {
		var a, d, c int
		if _, err := fmt.Fscanln(p.stdout, &a, &d, &c); err != nil {
			t.Fatalf("a process does not say what it admitted: %v", err)
		}
		admitted, denied, cached = admitted+a, denied+d, cached+c
		least, most = min(least, a), max(most, a)
	}
	if admitted != childLimit || admitted+denied+cached != processes*childGoroutines*childRequests {
		t.Errorf("%d admitted, %d denied by Redis and %d by a denial cache, want %d admitted", admitted, denied, cached,
			childLimit)
	}
	t.Logf("FAULT %d processes on one key: %d requests, %d admitted of a limit of %d, between %d and %d by one process; "+
		"%d denied by Redis, %d by denial caches; %s ms",
		processes, processes*childGoroutines*childRequests, admitted, childLimit, least, most, denied, cached,
		ms(time.Since(start)))
}

// child is one of the processes: it says that it is ready, waits for the end of
// its input, makes its requests, and says what became of them. Its budget is
// large, since 33 processes may have but one processor.
func child(addr string) int {
	client := redis.NewClient(&redis.Options{
		Addr: addr, ContextTimeoutEnabled: true, ReadTimeout: patience, MaxRetries: -1,
	})
	defer client.Close()
	limiter := core.MustNew(core.Config[string]{
		Rules: []core.Rule[string]{{
			Name: "all", Limit: limits.TokenBucket(limits.PerDay(1), childLimit), Key: self, OnFailure: core.FailClosed,
		}},
		Backend: redisbackend.MustNew(client, redisbackend.Options{Budget: patience}),
	})
	if err := client.Ping(context.Background()).Err(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	fmt.Println("ready")
	io.Copy(io.Discard, os.Stdin)

	var admitted, denied, cached, failed atomic.Int64
	var group sync.WaitGroup
	for range childGoroutines {
		group.Go(func() {
			for range childRequests {
				o := limiter.Decide(context.Background(), "everybody")
				switch {
				case o.Allowed():
					admitted.Add(1)
				case o.Verdict() == core.Unavailable:
					fmt.Fprintln(os.Stderr, o.Err())
					failed.Add(1)
				case o.At(0).Source == limits.SourceDenialCache:
					cached.Add(1)
				default:
					denied.Add(1)
				}
			}
		})
	}
	group.Wait()
	fmt.Println(admitted.Load(), denied.Load(), cached.Load())
	return int(min(failed.Load(), 1))
}

// The clocks of two processes are an hour apart. Only their memory can be told
// so, since nothing else that they use asks a clock of theirs what time it is:
// they send no instant, which means the server's. On its own clock each counts
// apart: the bucket that one has emptied is full again an hour later.
func TestClocksAnHourApartMakeNoDifference(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	operator := s.operator(t)
	hourly := limits.TokenBucket(limits.PerHour(units), units)
	var offsets = [...]time.Duration{-30 * time.Minute, 30 * time.Minute}
	var sent instants
	var limiters [len(offsets)]*core.Limiter[string]
	for i, offset := range offsets {
		client := redis.NewClient(&redis.Options{Addr: s.addr, MaxRetries: -1, DialerRetries: 1})
		defer client.Close()
		client.AddHook(&sent)
		limiters[i] = core.MustNew(core.Config[string]{
			Rules: []core.Rule[string]{{Name: "hourly", Limit: hourly, Key: self}},
			Backend: remote.MustNewBreaker(redisbackend.MustNewBare(client, redisbackend.BareOptions{}), remote.BreakerOptions{
				Budget: patience, Logger: slog.New(slog.DiscardHandler),
			}),
			Fallback: memory.MustNew(memory.Options{Clock: func() time.Time { return time.Now().Add(offset) }}),
		})
	}
	serverTime := func() int64 {
		now, err := operator.Time(t.Context()).Result()
		if err != nil {
			t.Fatal(err)
		}
		return now.UnixMicro()
	}
	admitted, latest, spread := 0, serverTime(), int64(0)
	for i := range 4 * units {
		o := limiters[i%2].Decide(t.Context(), "shared")
		d, now := o.At(0), serverTime()
		if d.Source != limits.SourcePrimary || d.At < latest || d.At > now {
			t.Errorf("request %d: decided by %v at %d, want Redis between %d and %d", i+1, d.Source, d.At, latest, now)
		}
		if o.Allowed() {
			admitted++
		}
		latest, spread = d.At, max(spread, now-d.At)
	}
	if admitted != units {
		t.Errorf("%d admitted of a limit of %d", admitted, units)
	}
	if n := sent.all.Load(); n < 4*units || sent.own.Load() > 0 {
		t.Errorf("%d of %d commands carried an instant, want none", sent.own.Load(), n)
	}

	s.kill()
	var alone [len(offsets)]int
	var at [len(offsets)]int64
	for i := range 4 * units {
		o := limiters[i%2].Decide(t.Context(), "shared")
		d := o.At(0)
		if d.Source != limits.SourceFallback {
			t.Fatalf("decided by %v while Redis is down: %v", d.Source, o.Err())
		}
		if o.Allowed() {
			alone[i%2]++
		}
		at[i%2] = d.At
	}
	for i, n := range alone {
		if n != units {
			t.Errorf("on its own, process %d admitted %d of a limit of %d", i, n, units)
		}
	}
	apart := time.Duration(at[1]-at[0]) * time.Microsecond
	if apart < time.Hour {
		t.Errorf("the clocks are %v apart: the test shows nothing", apart)
	}
	t.Logf("FAULT application clocks %v apart: through Redis, %d admitted of a limit of %d, no instant sent, each "+
		"decided at the server's time, seen at most %s ms later; without Redis %v, by clocks %v apart",
		time.Hour, admitted, units, ms(time.Duration(spread)*time.Microsecond), alone, apart.Round(time.Minute))
}

// instants is a hook that looks at the instants that commands carry.
type instants struct{ all, own atomic.Int64 }

func (i *instants) DialHook(next redis.DialHook) redis.DialHook { return next }
func (i *instants) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if cmd.Name() == "evalsha" {
			i.all.Add(1)
			args := cmd.Args()
			argv := args[3+args[2].(int):]
			if slices.ContainsFunc(argv[1:], isInstant) { // the first is the number of the call
				i.own.Add(1)
			}
		}
		return next(ctx, cmd)
	}
}

// isInstant reports whether an argument is of the size of an instant, in whatever
// unit, which none of the test's limits has.
func isInstant(arg any) bool {
	n, ok := arg.(int64)
	return ok && n >= time.Now().Add(-24*time.Hour).Unix()
}

func (i *instants) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}
