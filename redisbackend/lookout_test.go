package redisbackend

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
	"github.com/weir-go/weir/remote"
)

// watched is a lookout in a bubble, before servers that a function stands for.
type watched struct {
	*testing.T
	*lookout
	answer func(n int, name string) (id string, err error) // on connection n, from 0
	asked  int                                             // connections
	open   int                                             // clients
	logged bytes.Buffer
}

// inSight calls f in a bubble. A lookout asks there.
func inSight(t *testing.T, f func(*watched)) {
	synctest.Test(t, func(t *testing.T) {
		w := &watched{T: t}
		ask := func(_ context.Context, names ...string) (ids []string, err error) {
			w.asked++
			for _, name := range names {
				id, err := w.answer(w.asked-1, name)
				if err != nil {
					return nil, err
				}
				ids = append(ids, id)
			}
			return ids, nil
		}
		w.lookout = &lookout{
			connect: func() (asker, func()) {
				w.open++
				return ask, func() { w.open-- }
			},
			names: namesOf("k:"), advice: "names over %d servers",
			logger: slog.New(slog.NewTextHandler(&w.logged, nil)),
		}
		w.start()
		f(w)
		w.close(t.Context())
	})
}

// decides makes a request each second for a time, and returns what the last one fails with.
func (w *watched) decides(lasts time.Duration) (err error) {
	for range int(lasts / time.Second) {
		time.Sleep(time.Second)
		synctest.Wait() // a question may fall due
		_ = w.spreads()
		synctest.Wait()
		err = w.spreads()
		if w.open != 0 {
			w.Fatal("connections are left")
		}
	}
	return err
}

// waits lets a question fall due.
func (w *watched) waits() {
	time.Sleep(lookEvery)
	synctest.Wait()
}

// has fails unless some connections have been made, and lines with these texts logged.
func (w *watched) has(asked int, lines ...string) {
	w.Helper()
	if w.asked != asked {
		w.Errorf("asked on %d connections, want %d", w.asked, asked)
	}
	text := w.logged.String()
	if strings.Count(text, "\n") != len(lines) {
		w.Errorf("logged %q, want %q", text, lines)
	}
	for _, l := range lines {
		if !strings.Contains(text, l) {
			w.Errorf("logged %q, want %q", text, l)
		}
	}
}

const (
	saysSpread = `level=WARN msg="weir: a proxy spreads what one Redis server has to decide" error=`
	saysAlone  = `level=INFO msg="weir: one Redis server decides alone again"`
)

func always(id string) func(int, string) (string, error) {
	return func(int, string) (string, error) { return id, nil }
}

func roundRobin(n int, _ string) (string, error) { return fmt.Sprint("server ", n%2), nil }

func TestTheLookoutAsksOnceAMinuteWhileRequestsCome(t *testing.T) {
	inSight(t, func(w *watched) {
		w.answer = always("A")
		time.Sleep(time.Hour)
		w.has(0)
		saysNothing(w.T, w.decides(10*time.Minute))
		w.has(10 * fewConnections)
		time.Sleep(time.Hour)
		w.has(10 * fewConnections)
	})
}

func TestManyRequestsAtOnceBeginOneQuestion(t *testing.T) {
	inSight(t, func(w *watched) {
		w.answer = func(int, string) (string, error) {
			time.Sleep(time.Second / questions)
			return "A", nil
		}
		w.waits()
		var wait sync.WaitGroup
		for range 200 {
			wait.Go(func() { saysNothing(w.T, w.spreads()) })
		}
		wait.Wait()
		w.waits()
		w.has(fewConnections)
	})
}

func TestAFailoverIsNoProxyThatSpreads(t *testing.T) {
	for at := 0; at <= 3*fewConnections; at++ { // the connection from which on B answers
		inSight(t, func(w *watched) {
			w.answer = func(n int, _ string) (string, error) {
				if n < at {
					return "A", nil
				}
				return "B", nil
			}
			saysNothing(w.T, w.decides(10*time.Minute))
			asked := 10 * fewConnections
			if at > 0 {
				asked += questions
			}
			w.has(asked)
		})
	}
}

func TestOneQuestionFindsAProxyThatSpreads(t *testing.T) {
	byName := func(_ int, name string) (string, error) { return name, nil }
	for want, answer := range map[string]func(int, string) (string, error){
		"redisbackend: a proxy spreads connections over 2 servers": roundRobin,
		"redisbackend: names over 16 servers":                      byName,
	} {
		inSight(t, func(w *watched) {
			w.answer = answer
			saysNothing(w.T, w.decides(lookEvery-time.Second))
			err := w.decides(time.Second)
			if err == nil || !strings.Contains(err.Error(), want) {
				w.Errorf("%v, want %s", err, want)
			}
			w.has(fewConnections+questions, saysSpread)
			if err := w.decides(5 * time.Minute); err == nil {
				w.Error("it is forgotten")
			}
			w.has(6*(fewConnections+questions), saysSpread)
			w.answer = always("server 1")
			saysNothing(w.T, w.decides(time.Minute))
			saysNothing(w.T, w.decides(time.Minute))
			w.has(7*(fewConnections+questions)+fewConnections, saysSpread, saysAlone)
		})
	}
}

// A proxy that knows a Cluster sends each name to its master, so one name is asked for.
func TestTheMastersOfAClusterAreNoSpreading(t *testing.T) {
	inSight(t, func(w *watched) {
		w.answer = func(_ int, name string) (string, error) { return name + ofCluster, nil }
		saysNothing(w.T, w.decides(10*time.Minute))
		w.has(10 * fewConnections)
	})
}

func TestTheLookoutIsSilentWithoutRights(t *testing.T) {
	for _, err := range []error{nil, errors.New("NOPERM this user has no permissions")} {
		inSight(t, func(w *watched) {
			w.answer = func(int, string) (string, error) { return "", err }
			saysNothing(w.T, w.decides(time.Hour))
			w.has(1)
		})
	}
}

func TestAServerThatCannotBeAskedChangesNothing(t *testing.T) {
	inSight(t, func(w *watched) {
		fails := func(int, string) (string, error) { return "", errors.New("down") }
		w.answer = fails
		saysNothing(w.T, w.decides(time.Minute))
		w.answer = func(int, string) (string, error) { panic("in a hook") }
		saysNothing(w.T, w.decides(time.Minute))
		w.answer = roundRobin
		if w.decides(time.Minute) == nil {
			w.Error("it is not found")
		}
		w.answer = fails
		if w.decides(time.Minute) == nil {
			w.Error("it is forgotten")
		}
	})
}

func TestAfterCloseTheLookoutAsksNothing(t *testing.T) {
	inSight(t, func(w *watched) {
		w.connect = func() (asker, func()) {
			return func(ctx context.Context, _ ...string) ([]string, error) {
				w.asked++
				<-ctx.Done()
				return nil, ctx.Err()
			}, func() {}
		}
		w.waits()
		saysNothing(w.T, w.spreads())
		synctest.Wait()
		before := time.Now()
		w.close(w.Context())
		if took := time.Since(before); took != 0 {
			w.Errorf("Close waits for %v", took)
		}
		saysNothing(w.T, w.decides(time.Hour))
		w.has(1)
	})
	inSight(t, func(w *watched) { // while a question is due
		w.waits()
		w.close(w.Context())
		saysNothing(w.T, w.decides(time.Hour))
		w.has(0)
	})
}

// The failure policy of each rule then decides.
func TestTheBreakerOpensIfAProxySpreads(t *testing.T) {
	inSight(t, func(w *watched) {
		w.answer = roundRobin
		bare := MustNewBare(&answering{answer: silence}, BareOptions{HashTag: "one"})
		bare.lookout = w.lookout
		b := remote.MustNewBreaker(bare, remote.BreakerOptions{Logger: slog.New(slog.DiscardHandler)})
		_ = w.decides(time.Minute)
		charges := []backends.Charge{{
			Scope: "s", Key: "k", Limit: limits.FixedWindow(limits.PerDay(1)), Cost: 1,
		}}
		for range 10 {
			if err := b.Take(w.Context(), charges, make([]limits.Decision, 1)); err == nil {
				w.Error("a decision is made")
			}
			time.Sleep(100 * time.Millisecond)
		}
		if s := b.Status(); s.State != "open" {
			w.Errorf("the breaker is %s", s.State)
		}
		w.waits()
		_ = b.Take(w.Context(), charges, make([]limits.Decision, 1)) // a probe of the breaker
		synctest.Wait()
		w.has(2*(fewConnections+questions), saysSpread)
		_ = bare.Close()
	})
}

func saysNothing(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Error(err)
	}
}
