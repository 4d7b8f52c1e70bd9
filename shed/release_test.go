package shed_test

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/internal/proof/testrun"
	"github.com/weir-go/weir/shed"
)

// They wait for a place that nobody needs any more, and could be shed although nothing is.
func TestWaitersGoOnAtOnceWhenNothingIsShedAnyMore(t *testing.T) {
	for _, mode := range []core.Mode{core.Shadow, core.Disabled} {
		options := shed.Options[int]{Limit: 2, Classes: halves, MaxWait: time.Minute, MaxWaiting: 10}
		queued(t, options, func(t *testing.T, l *line, running []*shed.Permit) {
			l.wait(t.Context(), "a", 0)
			time.Sleep(time.Second)
			l.wait(t.Context(), "b", 1)
			time.Sleep(time.Second)
			options.Mode = mode
			replace(t, l.story, options)
			synctest.Wait()
			slices.Sort(l.log) // both at one instant
			l.did("a admitted 2s", "b admitted 1s")
			state := l.State()
			if state.InFlight != 2 || state.Shadowed != 2 || state.Waiting != 0 || state.Classes[0].Shadowed != 1 ||
				state.Classes[1].Shadowed != 1 {
				t.Errorf("%v: %+v", mode, state)
			}
		})
	}
}

func TestAWaiterThatTheModeLetsInSaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		options := shed.Options[int]{Limit: 1, MaxWait: time.Minute}
		s := byIndex(t, options)
		s.admitted(1, 0)
		done := make(chan struct{})
		go func() {
			defer close(done)
			p, e := s.Acquire(t.Context(), 0)
			if p == nil || !e.Shadow || e.Verdict != shed.Admitted || e.Wait != time.Second || e.Limit != 1 ||
				e.InFlight != 1 {
				t.Errorf("%v, %+v", p, e)
			}
			p.End(shed.Result{})
		}()
		time.Sleep(time.Second)
		options.Mode = core.Shadow
		replace(t, s, options)
		<-done
		if state := s.State(); state.Shadowed != 0 || state.InFlight != 1 {
			t.Errorf("%+v", state)
		}
	})
}

// A waiter for which a Replace has just made room begins as any other request.
func TestAWaiterThatFitsIsCountedWhenTheModeChanges(t *testing.T) {
	options := shed.Options[int]{Limit: 2, MaxWait: time.Minute}
	queued(t, options, func(t *testing.T, l *line, running []*shed.Permit) {
		l.wait(t.Context(), "first", 0)
		l.wait(t.Context(), "second", 0)
		options.Mode, options.Limit = core.Shadow, 3
		replace(t, l.story, options)
		synctest.Wait()
		slices.Sort(l.log)
		l.did("first admitted 0s", "second admitted 0s")
		if state := l.State(); state.InFlight != 3 || state.Shadowed != 1 {
			t.Errorf("%+v", state)
		}
	})
}

// A request that has read its options before a Replace to shadow enters the queue behind it.
func TestARequestThatIsLateForAReplaceToShadowDoesNotWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		options := shed.Options[int]{Limit: 1, MaxWait: time.Minute}
		var s *story
		options.Classify = func(class int) int {
			if class == 1 {
				after := options
				after.Mode = core.Shadow
				replace(t, s, after)
			}
			return 0
		}
		s = byIndex(t, options)
		s.admitted(1, 0)
		if p, e := s.Acquire(t.Context(), 1); p == nil || !e.Shadow || e.Wait != 0 {
			t.Errorf("%v, %+v", p, e)
		}
	})
}

// While modes and classes change, clients leave and requests stream, at the same instants, nothing is lost.
func TestNothingIsLostWhileModesChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		options := func(random *rand.Rand) shed.Options[int] {
			o := shed.Options[int]{
				Limit:    2 + random.IntN(5),
				Classes:  four[:1+random.IntN(4)],
				Classify: func(class int) int { return class },
			}
			if random.IntN(4) > 0 {
				o.MaxWait = time.Duration(1+random.IntN(20)) * time.Millisecond
			}
			switch random.IntN(10) {
			case 0:
				o.Mode = core.Shadow
			case 1:
				o.Mode = core.Disabled
			}
			return o
		}
		seed := testrun.Seed(t)
		s := byIndex(t, options(rand.New(rand.NewPCG(seed, 99))))
		var all sync.WaitGroup
		for g := range 32 {
			all.Go(func() {
				random := rand.New(rand.NewPCG(seed, uint64(g)))
				for range 400 {
					ctx, leave := context.WithTimeout(t.Context(), time.Duration(random.IntN(12))*time.Millisecond)
					p, e := s.Acquire(ctx, random.IntN(5))
					if e.Verdict != shed.Admitted && p != nil {
						t.Errorf("%+v with a permit", e)
					}
					time.Sleep(time.Duration(random.IntN(5)) * time.Millisecond)
					if random.IntN(3) == 0 {
						p.Stream()
						time.Sleep(time.Duration(random.IntN(5)) * time.Millisecond)
					}
					p.End(shed.Result{Left: ctx.Err() != nil})
					leave()
					if g == 0 && random.IntN(4) == 0 {
						replace(t, s, options(random))
					}
				}
			})
		}
		all.Wait()
		state := s.State()
		if state.InFlight != 0 || state.Streams != 0 || state.Exempt != 0 || state.Shadowed != 0 ||
			state.Waiting != 0 ||
			state.Oldest != 0 {
			t.Errorf("left over: %+v", state)
		}
		for _, c := range state.Classes {
			if c.InFlight != 0 || c.Waiting != 0 || c.Admitted < 0 || c.Shadowed < 0 {
				t.Errorf("left over: %+v", c)
			}
		}
	})
}
