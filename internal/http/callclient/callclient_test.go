package callclient_test

import (
	"context"
	"errors"
	"math"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/client"
	"github.com/weir-go/weir/internal/http/callclient"
)

var anywhere = callclient.Call{Scheme: "grpc", Target: "server", Method: "/a.B/C"}

func mustNew(o client.Options) *callclient.Client {
	c, err := callclient.New(o)
	if err != nil {
		panic(err)
	}
	return c
}

func allowed() callclient.Answer { return callclient.Answer{Fields: make(http.Header)} }

func TestTheErrorOfACallThatIsNotSentIsThatOfItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := mustNew(client.Options{MaxInFlight: 1})
		busy, err := c.Stream(t.Context(), anywhere, func(*callclient.Stream) error { return nil })
		if err != nil {
			t.Fatal(err)
		}
		busy.Answer(allowed)
		defer busy.End()
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, errors.New("a cause"))
		defer cancel()
		if err := c.Do(ctx, anywhere, allowed); err != context.DeadlineExceeded {
			t.Errorf("unary: %v", err)
		}
		if _, err := c.Stream(ctx, anywhere,
			func(*callclient.Stream) error { return nil }); err != context.DeadlineExceeded {
			t.Errorf("stream: %v", err)
		}
	})
}

// gRPC calls Answer where it expects no panic.
func TestAPanicOfAnObserverOfAStreamIsDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := mustNew(client.Options{MaxInFlight: 1, Observe: func(e client.Event) {
			if e.Kind == client.Limited {
				panic("boom")
			}
		}})
		for range 2 {
			s, err := c.Stream(t.Context(), anywhere, func(*callclient.Stream) error { return nil })
			if err != nil {
				t.Fatal(err)
			}
			s.Answer(func() callclient.Answer { return callclient.Answer{Code: 8, Retry: time.Second} })
			s.End()
		}
	})
}

// Whatever a server says, no call waits longer than MaxWait, nor earlier than it said, and none
// panics.
func TestHostileAnswers(t *testing.T) {
	const exhausted = 8
	fields := func(of ...string) http.Header {
		h := make(http.Header)
		for i := 0; i < len(of); i += 2 {
			h.Add(of[i], of[i+1])
		}
		return h
	}
	for name, c := range map[string]struct {
		answer callclient.Answer
		held   time.Duration // the calls behind it; at least
	}{
		"a wait of 292 years":    {callclient.Answer{Code: exhausted, Retry: math.MaxInt64}, time.Hour},
		"a wait of 50 years":     {callclient.Answer{Code: exhausted, Retry: 50 * 365 * 24 * time.Hour}, time.Hour},
		"a negative wait":        {callclient.Answer{Code: exhausted, Retry: math.MinInt64}, 0},
		"a wait of a nanosecond": {callclient.Answer{Code: exhausted, Retry: 1}, 1},
		"no number":              {callclient.Answer{Code: exhausted, Fields: fields("Retry-After", "NaN")}, 0},
		"infinity":               {callclient.Answer{Code: exhausted, Fields: fields("Retry-After", "Inf")}, 0},
		"an exponent":            {callclient.Answer{Code: exhausted, Fields: fields("Retry-After", "1e9")}, 0},
		"a negative field":       {callclient.Answer{Code: exhausted, Fields: fields("Retry-After", "-5")}, 0},
		"a huge field": {
			callclient.Answer{Code: exhausted, Fields: fields("Retry-After", "99999999999999999999999")}, time.Hour,
		},
		"RetryInfo against a field": {
			callclient.Answer{Code: exhausted, Retry: 10 * time.Second, Fields: fields("Retry-After", "1")},
			10 * time.Second,
		},
		"nothing left for ever": {
			callclient.Answer{Fields: fields("Ratelimit", `"a";r=0;t=999999999999999`)}, time.Hour,
		},
		"less than nothing left": {callclient.Answer{Fields: fields("Ratelimit", `"a";r=-5;t=10`)}, 0},
		"more than there is": {
			callclient.Answer{Fields: fields("Ratelimit", `"a";r=999999999999999;t=1`, "Ratelimit-Policy", `"a";q=1`)}, 0,
		},
		"bytes that are no text": {
			callclient.Answer{Code: exhausted, Fields: fields("Ratelimit", "\xff\x00\xfe", "Retry-After", "\x00")}, 0,
		},
		"a code that does not exist": {callclient.Answer{Code: math.MaxUint32, Retry: time.Hour}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				time.Sleep(time.Until(time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)))
				options := client.Options{MaxWait: 30 * time.Minute, Attempts: 1}
				l := mustNew(options)
				if err := l.Do(t.Context(), anywhere,
					func() callclient.Answer { return c.answer }); err != nil {
					t.Fatal(err)
				}
				began := time.Now()
				err := l.Do(t.Context(), anywhere, allowed)
				took := time.Since(began)
				var wait *client.WaitError
				switch {
				case c.held > options.MaxWait:
					if !errors.As(err, &wait) || took != 0 {
						t.Errorf("%v after %v", err, took)
					}
				case err != nil || took < c.held || took > 2*c.held+2*time.Second:
					t.Errorf("%v after %v, want %v", err, took, c.held)
				}
			})
		})
	}
}

// Streams end in any order, from several goroutines, and nothing of MaxInFlight is lost.
func TestNoPlaceIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const atOnce = 3
		c := mustNew(client.Options{MaxInFlight: atOnce, MaxWait: time.Hour})
		var wg sync.WaitGroup
		for i := range 200 {
			wg.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				defer cancel()
				if i%11 == 0 {
					defer func() { recover() }()
				}
				s, err := c.Stream(ctx, anywhere, func(*callclient.Stream) error {
					switch {
					case i%11 == 0:
						panic("boom")
					case i%7 == 0:
						return errors.New("no connection")
					}
					return nil
				})
				if err != nil {
					return
				}
				answer := callclient.Answer{Code: uint32(i % 17)}
				switch i % 5 {
				case 0: // the context alone ends it
				case 1:
					cancel()
					s.Answer(func() callclient.Answer { return answer })
				case 2:
					s.End() // and then says something
					s.Answer(func() callclient.Answer { return answer })
				default:
					for range 3 {
						go s.Answer(func() callclient.Answer { return answer })
						go s.End()
					}
					time.Sleep(time.Duration(i) * time.Millisecond)
				}
			})
		}
		wg.Wait()
		synctest.Wait()
		var ended []*callclient.Stream
		for range atOnce {
			s, err := c.Stream(t.Context(), anywhere, func(*callclient.Stream) error { return nil })
			if err != nil {
				t.Fatalf("%d places are left: %v", len(ended), err)
			}
			ended = append(ended, s)
			s.Answer(allowed)
		}
		for _, s := range ended {
			s.End()
		}
	})
}
