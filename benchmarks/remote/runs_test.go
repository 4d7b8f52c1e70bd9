package remote_test

import (
	"context"
	"errors"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/weir-go/weir/benchmarks/remote"
	"github.com/weir-go/weir/internal/proof/testrun"
)

// start starts a redis-server and a client.
func start(t *testing.T) (*remote.Server, *redis.Client) {
	t.Helper()
	testrun.Program(t, "redis-server")
	server, err := remote.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Stop)
	client := redis.NewClient(&redis.Options{Addr: server.Addr, ContextTimeoutEnabled: true})
	t.Cleanup(func() { client.Close() })
	return server, client
}

// A benchmark of a limiter that does not limit is a benchmark of nothing.
func TestNoMoreRequestsRunAtOnceThanTheLimit(t *testing.T) {
	const atOnce = 3
	_, client := start(t)
	for _, c := range remote.Runners() {
		t.Run(c.Name, func(t *testing.T) {
			runs, err := c.Open(client, atOnce)
			if err != nil {
				t.Fatal(err)
			}
			var ends []func()
			for i := range atOnce {
				end, err := runs.Start(t.Context(), "a")
				if err != nil {
					t.Fatalf("request %d: %v", i+1, err)
				}
				ends = append(ends, end)
			}
			more := func(key string) error {
				t.Helper()
				end, err := runs.Start(t.Context(), key)
				if err == nil {
					ends = append(ends, end)
				}
				return err
			}
			if err := more("a"); errors.Is(err, remote.ErrDenied) != c.AtOnce {
				t.Errorf("request %d: got %v, want denied: %v", atOnce+1, err, c.AtOnce)
			}
			if err := more("b"); err != nil {
				t.Errorf("a request of another key: %v", err)
			}
			for i, end := range ends {
				end()
				if err := runs.Ended().Wait(int64(i + 1)); err != nil {
					t.Fatalf("end %d: %v", i+1, err)
				}
			}
			for i := range atOnce {
				if err := more("a"); err != nil {
					t.Errorf("request %d after all have ended: %v", i+1, err)
				}
			}
		})
	}
}

func TestWhatIsHeldTakesPlaces(t *testing.T) {
	const atOnce = 100
	_, client := start(t)
	for _, c := range remote.Runners() {
		t.Run(c.Name, func(t *testing.T) {
			runs, err := c.Open(client, atOnce)
			if err != nil {
				t.Fatal(err)
			}
			if err := runs.Hold(t.Context(), "a", atOnce-1); err != nil {
				t.Fatal(err)
			}
			const alone = 5
			for i := range alone {
				end, err := runs.Start(t.Context(), "a")
				if err != nil {
					t.Fatalf("request %d, one at a time: %v", i+1, err)
				}
				end()
				if err := runs.Ended().Wait(int64(i + 1)); err != nil {
					t.Fatal(err)
				}
			}
			if got, want := runs.Ended().Returned(), alone*c.Returns; got != want {
				t.Errorf("%d ends returned %d, want %d", alone, got, want)
			}
			if _, err := runs.Start(t.Context(), "a"); err != nil {
				t.Fatalf("the last place: %v", err)
			}
			if _, err := runs.Start(t.Context(), "a"); errors.Is(err, remote.ErrDenied) != c.AtOnce {
				t.Errorf("one more: got %v, want denied: %v", err, c.AtOnce)
			}
		})
	}
}

func TestCommandsThatScriptsCallAreNotCounted(t *testing.T) {
	server, client := start(t)
	ctx := context.Background()
	script := func() error {
		return client.Eval(ctx, "for i = 1, 1000 do redis.call('SET', KEYS[1], i) end return 1", []string{"a"}).Err()
	}
	commands, err := server.CommandsOf(ctx, client, script)
	if err != nil {
		t.Fatal(err)
	}
	if len(commands) != 1 || commands[0] != "eval" {
		t.Fatalf("got commands %v, want eval", commands)
	}
	micros, err := server.Micros(ctx, client, commands)
	if err != nil {
		t.Fatal(err)
	}
	alone, err := server.Micros(ctx, client, remote.Commands{"eval"})
	if err != nil || micros == 0 || micros != alone {
		t.Errorf("got %v µs and %v, want those of eval, %v", micros, err, alone)
	}
	_, err = server.CommandsOf(ctx, client, func() error {
		return errors.Join(script(), client.Set(ctx, "b", 1, 0).Err())
	})
	if err == nil {
		t.Error("SET is sent by the client and called by a script: got no error")
	}
}
