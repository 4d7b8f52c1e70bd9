package remote_test

import (
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/internal/asking"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/memory"
	"github.com/weir-go/weir/remote"
)

// square carries announcements between the caches of a test, each of a process of its own.
type square struct {
	mu      sync.Mutex
	spoken  []limits.Announcement
	hearing []*voice
}

type voice struct {
	*square
	heard func(limits.Announcement)
}

func (s *square) voice() *voice {
	v := &voice{square: s}
	s.hearing = append(s.hearing, v)
	return v
}

func (v *voice) Listen(heard func(limits.Announcement)) { v.heard = heard }

func (v *voice) Announce(a limits.Announcement) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.spoken = append(v.spoken, a)
	for _, other := range v.hearing {
		if other != v && other.heard != nil {
			other.heard(a)
		}
	}
}

func (s *square) announced(t *testing.T, want int) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.spoken) != want {
		t.Fatalf("%d denials were announced, want %d; the first are %+v", len(s.spoken), want, s.spoken[:min(len(s.spoken), 10)])
	}
}

// after returns what was announced after the first n.
func (s *square) after(n int) []limits.Announcement {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.spoken[n:]
}

// announcingBubble has two processes on one backend.
func announcingBubble(t *testing.T, test func(t *testing.T, s *square, inner *counted, a, b *remote.DenialCache)) {
	synctest.Test(t, func(t *testing.T) {
		s := &square{}
		inner := &counted{Memory: memory.New(memory.Options{})}
		test(t, s, inner,
			remote.NewDenialCache(inner, remote.DenialCacheOptions{Announcer: s.voice()}),
			remote.NewDenialCache(inner, remote.DenialCacheOptions{Announcer: s.voice()}))
	})
}

func TestADenialOfAnotherProcessAnswersWithoutAQuestion(t *testing.T) {
	announcingBubble(t, func(t *testing.T, s *square, inner *counted, a, b *remote.DenialCache) {
		limit := limits.TokenBucket(limits.Per(1, 4*time.Second), 1)
		asking.Allowed(t, a, "k", limit, 1)
		time.Sleep(time.Second)
		asking.Denied(t, a, "k", limit, 1)
		inner.askedTimes(t, 2)
		s.announced(t, 1)
		time.Sleep(time.Second)
		want := limits.Decision{
			Source: limits.SourceDenialCache, RetryAfter: 2 * time.Second, ResetAfter: 2 * time.Second, EffectiveWindow: 2 * time.Second,
			At: time.Now().UnixMicro(),
		}
		if d := asking.Take(t, b, limits.Charge{Scope: "s", Key: "k", Limit: limit, Cost: 1}); d != want {
			t.Fatalf("got  %+v\nwant %+v", d, want)
		}
		inner.askedTimes(t, 2)
		s.announced(t, 1) // not again by those who heard of it
		time.Sleep(2 * time.Second)
		asking.Allowed(t, b, "k", limit, 1)
	})
}

func TestOnlyDenialsOfOneKeyThatLastAreAnnounced(t *testing.T) {
	announcingBubble(t, func(t *testing.T, s *square, _ *counted, a, _ *remote.DenialCache) {
		brief := limits.TokenBucket(limits.Per(1, 999*time.Millisecond), 1)
		asking.Allowed(t, a, "brief", brief, 1)
		asking.Denied(t, a, "brief", brief, 1)
		asking.Denied(t, a, "never", brief, 2)
		one := limits.Concurrent(1)
		asking.Allowed(t, a, "held", one, 1)
		asking.Denied(t, a, "held", one, 1)
		s.announced(t, 0)
	})
}

func TestADenialFromBeforeAResetIsNotBelieved(t *testing.T) {
	announcingBubble(t, func(t *testing.T, s *square, _ *counted, a, b *remote.DenialCache) {
		limit := limits.FixedWindow(limits.PerHour(1))
		asking.Allowed(t, a, "k", limit, 1)
		s.hearing[1].Listen(nil) // late
		asking.Denied(t, a, "k", limit, 1)
		late := s.spoken[0]
		time.Sleep(time.Second)
		if err := b.Reset(t.Context(), "s", "k"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		remote.Hear(b, late)
		asking.Allowed(t, b, "k", limit, 1)
	})
}

func TestAnOldDenialDoesNotReplaceANewOne(t *testing.T) {
	announcingBubble(t, func(t *testing.T, _ *square, inner *counted, _, b *remote.DenialCache) {
		limit := limits.FixedWindow(limits.PerDay(1))
		old := time.Now()
		time.Sleep(9 * time.Second)
		asking.Allowed(t, b, "k", limit, 1)
		asking.Denied(t, b, "k", limit, 1)
		asked := inner.asked
		remote.Hear(b, limits.Announcement{Scope: "s", Key: "k", Limit: limit, Cost: 1, Asked: old, Decision: limits.Decision{RetryAfter: time.Hour}})
		time.Sleep(5 * time.Second)
		asking.Denied(t, b, "k", limit, 1)
		inner.askedTimes(t, asked)
	})
}

func TestAnnouncementsThatSayNothingAreIgnored(t *testing.T) {
	announcingBubble(t, func(t *testing.T, _ *square, _ *counted, _, b *remote.DenialCache) {
		good := limits.Announcement{
			Scope: "s", Key: "k", Limit: limits.FixedWindow(limits.PerHour(5)), Cost: 1,
			Asked: time.Now(), Decision: limits.Decision{RetryAfter: time.Minute},
		}
		for name, spoil := range map[string]func(a *limits.Announcement){
			"allowed":     func(a *limits.Announcement) { a.Decision.Allowed = true },
			"transient":   func(a *limits.Announcement) { a.Decision.Transient = true },
			"never":       func(a *limits.Announcement) { a.Decision.RetryAfter = limits.Never },
			"over":        func(a *limits.Announcement) { a.Asked = a.Asked.Add(-time.Minute) },
			"no wait":     func(a *limits.Announcement) { a.Decision.RetryAfter = 0 },
			"no limit":    func(a *limits.Announcement) { a.Limit = limits.Limit{} },
			"no cost":     func(a *limits.Announcement) { a.Cost = 0 },
			"other cost":  func(a *limits.Announcement) { a.Cost = 2 },
			"other limit": func(a *limits.Announcement) { a.Limit = limits.FixedWindow(limits.PerHour(6)) },
			"concurrency": func(a *limits.Announcement) { a.Limit = limits.Concurrent(5) },
		} {
			a := good
			spoil(&a)
			remote.Hear(b, a)
			if d := asking.Take(t, b, limits.Charge{Scope: "s", Key: "k", Limit: good.Limit, Cost: 1}); !d.Allowed {
				t.Errorf("%s: denied by %+v", name, a)
			}
			if err := b.Reset(t.Context(), "s", "k"); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Microsecond)
			good.Asked = time.Now()
		}
		remote.Hear(b, good)
		asking.Denied(t, b, "k", good.Limit, 1)
	})
}

// Each process counts in its own memory: the others learn of a ban by announcements alone.
func TestABanOfOneProcessHoldsInAllForItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &square{}
		process := func() *remote.DenialCache {
			return remote.NewDenialCache(memory.New(memory.Options{}), remote.DenialCacheOptions{Announcer: s.voice()})
		}
		a, b := process(), process()
		limit := limits.Ban(limits.PerMinute(3), 5*time.Minute)
		for range 3 {
			asking.Allowed(t, a, "k", limit, 1)
		}
		asking.Denied(t, a, "k", limit, 1)
		began := time.Now()
		for time.Since(began) < 5*time.Minute {
			asking.Denied(t, b, "k", limit, 1)
			time.Sleep(time.Second)
		}
		synctest.Wait()
		asking.Allowed(t, b, "k", limit, 1)
		spoken := len(s.spoken)
		time.Sleep(time.Hour)
		s.announced(t, spoken) // nothing is announced any more

		for range 3 {
			asking.Allowed(t, a, "k", limit, 1)
		}
		asking.Denied(t, a, "k", limit, 1)
		if err := a.Reset(t.Context(), "s", "k"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Second) // MaxAge
		asking.Allowed(t, b, "k", limit, 1)
	})
}

func TestWhatIsAnnouncedAgainIsBoundedAndSpread(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &square{}
		a := remote.NewDenialCache(memory.New(memory.Options{}), remote.DenialCacheOptions{Announcer: s.voice()})
		limit := limits.Ban(limits.PerMinute(1), time.Minute)
		for i := range 5_000 {
			key := fmt.Sprint(i)
			asking.Allowed(t, a, key, limit, 1)
			asking.Denied(t, a, key, limit, 1)
		}
		s.announced(t, 5_000)
		began := time.Now()
		last := make(map[string]time.Time)
		for i := range 4_096 {
			last[fmt.Sprint(i)] = began
		}
		heard := 5_000
		for time.Since(began) < 50*time.Second {
			time.Sleep(time.Second)
			synctest.Wait()
			more := s.after(heard)
			if n := len(more); n > 1_000 { // what an announcer publishes by default
				t.Fatalf("%d denials were announced in a second", n)
			}
			for _, what := range more {
				if age := what.Asked.Sub(last[what.Key]); age > 9*time.Second {
					t.Fatalf("the denial of %s was announced again after %v, want before MaxAge", what.Key, age)
				}
				last[what.Key] = what.Asked
			}
			heard += len(more)
		}
		if len(last) != 4_096 {
			t.Errorf("%d denials were announced again, want 4,096", len(last))
		}
		for key, at := range last {
			if age := time.Since(at); age > 9*time.Second {
				t.Fatalf("the denial of %s was announced %v ago", key, age)
			}
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		heard += len(s.after(heard))
		time.Sleep(time.Minute)
		s.announced(t, heard)
	})
}

// Others whose denials are lifted must not delay those that last.
func TestADenialIsAnnouncedInTimeWhileOthersAreLifted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &square{}
		a := remote.NewDenialCache(memory.New(memory.Options{}), remote.DenialCacheOptions{Announcer: s.voice()})
		limit := limits.Ban(limits.PerMinute(1), time.Hour)
		for i := range 4_096 {
			key := fmt.Sprint(i)
			asking.Allowed(t, a, key, limit, 1)
			asking.Denied(t, a, key, limit, 1)
			if i < 4_095 {
				if err := a.Reset(t.Context(), "s", key); err != nil {
					t.Fatal(err)
				}
			}
		}
		heard, last := len(s.after(0)), time.Now()
		for range 100 {
			time.Sleep(time.Second)
			synctest.Wait()
			more := s.after(heard)
			for _, what := range more {
				last = what.Asked
			}
			if heard += len(more); time.Since(last) > 9*time.Second {
				t.Fatalf("announced %v ago", time.Since(last))
			}
		}
	})
}

// A denial that is announced again keeps its key in memory. Whoever chooses keys must not
// fill it.
func TestADenialOfAHugeKeyIsNotAnnouncedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &square{}
		a := remote.NewDenialCache(memory.New(memory.Options{}), remote.DenialCacheOptions{Announcer: s.voice()})
		limit := limits.Ban(limits.PerMinute(1), time.Hour)
		key := strings.Repeat("k", 5_000)
		asking.Allowed(t, a, key, limit, 1)
		asking.Denied(t, a, key, limit, 1)
		time.Sleep(time.Minute)
		s.announced(t, 1)
	})
}

// With such a MaxAge nobody believes a denial, and nothing runs all the time.
func TestAMaxAgeOfNoTimeAnnouncesNothingAgain(t *testing.T) {
	for _, age := range []time.Duration{1, time.Microsecond, time.Millisecond} {
		synctest.Test(t, func(t *testing.T) {
			s := &square{}
			a := remote.NewDenialCache(memory.New(memory.Options{}), remote.DenialCacheOptions{Announcer: s.voice(), MaxAge: age})
			limit := limits.Ban(limits.PerMinute(1), time.Minute)
			asking.Allowed(t, a, "k", limit, 1)
			asking.Denied(t, a, "k", limit, 1)
			time.Sleep(time.Second)
			s.announced(t, 1)
		})
	}
}

// hoarse panics from its second announcement on.
type hoarse struct{ spoken int }

func (h *hoarse) Listen(func(limits.Announcement)) {}

func (h *hoarse) Announce(limits.Announcement) {
	if h.spoken++; h.spoken > 1 {
		panic("hoarse")
	}
}

func TestAnAnnouncerThatPanicsEndsTheRepetitionAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &hoarse{}
		a := remote.NewDenialCache(memory.New(memory.Options{}), remote.DenialCacheOptions{Announcer: h})
		limit := limits.Ban(limits.PerMinute(1), time.Minute)
		asking.Allowed(t, a, "k", limit, 1)
		asking.Denied(t, a, "k", limit, 1)
		time.Sleep(8 * time.Second)
		synctest.Wait()
		if asking.Denied(t, a, "k", limit, 1); h.spoken != 2 {
			t.Errorf("%d announcements, want 2", h.spoken)
		}
	})
}

// Another process is denied because this one holds the rest. Here that denies nobody.
func TestADenialOfAnotherProcessDoesNotShutOutUnitsThatAreHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(time.Now().Truncate(time.Minute).Add(time.Minute + time.Second)))
		limit := limits.FixedWindow(limits.PerMinute(6000))
		inner := newLeaseBackend()
		leases := remote.NewLeaseCache(inner, remote.LeaseOptions{})
		s := &square{}
		one := remote.NewDenialCache(leases, remote.DenialCacheOptions{Announcer: s.voice()})
		other := remote.NewDenialCache(remote.NewLeaseCache(inner, remote.LeaseOptions{}), remote.DenialCacheOptions{Announcer: s.voice()})
		ch := busy(t, one, limit)
		rest := ch
		if rest.Cost = inner.left(t, "k", limit); !takeOf(t, other, rest).Allowed {
			t.Fatal("the rest is denied")
		}
		if d := takeOf(t, other, ch); d.Allowed {
			t.Fatalf("while all is held: %+v", d)
		}
		s.announced(t, 1)
		for held := leases.Counts().Held; held > 0; held-- {
			if d := takeOf(t, one, ch); d.Source != limits.SourceLease {
				t.Fatalf("with %d units held: %+v", held, d)
			}
		}
		if d := takeOf(t, one, ch); d.Allowed {
			t.Fatalf("beyond the limit: %+v", d)
		}
	})
}

// exiting ends the goroutine of its at-th call.
type exiting struct {
	mu    sync.Mutex
	n, at int
	keys  map[string]int
}

func (e *exiting) Listen(func(limits.Announcement)) {}
func (e *exiting) Announce(a limits.Announcement) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.n++
	e.keys[a.Key]++
	if e.n == e.at {
		runtime.Goexit()
	}
}

func TestAnAnnouncerThatEndsItsGoroutineEndsNoRepetition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &exiting{at: 4, keys: map[string]int{}}
		c := remote.NewDenialCache(memory.New(memory.Options{}), remote.DenialCacheOptions{Announcer: e})
		limit := limits.Ban(limits.PerMinute(1), time.Hour)
		for i := range 3 {
			asking.Allowed(t, c, fmt.Sprint(i), limit, 1)
			asking.Denied(t, c, fmt.Sprint(i), limit, 1)
		}
		time.Sleep(10 * time.Minute) // the first repetition ends its goroutine
		asking.Allowed(t, c, "later", limit, 1)
		asking.Denied(t, c, "later", limit, 1)
		time.Sleep(time.Minute)
		e.mu.Lock()
		defer e.mu.Unlock()
		if e.keys["later"] < 5 {
			t.Errorf("a denial of an hour was announced %d times in a minute: nothing is repeated any more", e.keys["later"])
		}
	})
}
