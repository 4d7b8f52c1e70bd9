package remote_test

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/internal/proof/asking"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
	"github.com/weir-go/weir/memory"
	"github.com/weir-go/weir/remote"
)

// square carries announcements between the caches of a test, each of a process of its own.
type square struct {
	mu      sync.Mutex
	spoken  []backends.Announcement
	hearing []*voice
}

type voice struct {
	*square
	heard func(backends.Announcement)
}

func (s *square) voice() *voice {
	v := &voice{square: s}
	s.hearing = append(s.hearing, v)
	return v
}

func (v *voice) Listen(heard func(backends.Announcement)) { v.heard = heard }

func (v *voice) Announce(a backends.Announcement) {
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
		t.Fatalf(
			"%d denials were announced, want %d; the first are %+v", len(s.spoken), want, s.spoken[:min(len(s.spoken), 10)],
		)
	}
}

// announcingBubble has two processes on one backend.
func announcingBubble(t *testing.T, test func(t *testing.T, s *square, inner *counted, a, b *remote.DenialCache)) {
	synctest.Test(t, func(t *testing.T) {
		s := &square{}
		inner := &counted{Memory: memory.MustNew(memory.Options{})}
		test(t, s, inner,
			remote.MustNewDenialCache(inner, remote.DenialCacheOptions{Announcer: s.voice()}),
			remote.MustNewDenialCache(inner, remote.DenialCacheOptions{Announcer: s.voice()}))
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
			Source: limits.SourceDenialCache, RetryAfter: 2 * time.Second, ResetAfter: 2 * time.Second,
			EffectiveWindow: 2 * time.Second,
			At:              time.Now().UnixMicro(),
		}
		if d := asking.Take(t, b, backends.Charge{Scope: "s", Key: "k", Limit: limit, Cost: 1}); d != want {
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
		remote.Hear(b, backends.Announcement{
			Scope: "s", Key: "k", Limit: limit, Cost: 1, Asked: old,
			Decision: limits.Decision{RetryAfter: time.Hour},
		})
		time.Sleep(5 * time.Second)
		asking.Denied(t, b, "k", limit, 1)
		inner.askedTimes(t, asked)
	})
}

func TestAnnouncementsThatSayNothingAreIgnored(t *testing.T) {
	announcingBubble(t, func(t *testing.T, _ *square, _ *counted, _, b *remote.DenialCache) {
		good := backends.Announcement{
			Scope: "s", Key: "k", Limit: limits.FixedWindow(limits.PerHour(5)), Cost: 1,
			Asked: time.Now(), Decision: limits.Decision{RetryAfter: time.Minute},
		}
		for name, spoil := range map[string]func(a *backends.Announcement){
			"allowed":     func(a *backends.Announcement) { a.Decision.Allowed = true },
			"transient":   func(a *backends.Announcement) { a.Decision.Transient = true },
			"never":       func(a *backends.Announcement) { a.Decision.RetryAfter = limits.Never },
			"over":        func(a *backends.Announcement) { a.Asked = a.Asked.Add(-time.Minute) },
			"no wait":     func(a *backends.Announcement) { a.Decision.RetryAfter = 0 },
			"no limit":    func(a *backends.Announcement) { a.Limit = limits.Limit{} },
			"no cost":     func(a *backends.Announcement) { a.Cost = 0 },
			"other cost":  func(a *backends.Announcement) { a.Cost = 2 },
			"other limit": func(a *backends.Announcement) { a.Limit = limits.FixedWindow(limits.PerHour(6)) },
			"concurrency": func(a *backends.Announcement) { a.Limit = limits.Concurrent(5) },
		} {
			a := good
			spoil(&a)
			remote.Hear(b, a)
			if d := asking.Take(t, b, backends.Charge{Scope: "s", Key: "k", Limit: good.Limit, Cost: 1}); !d.Allowed {
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

// Each process counts in its own memory: the others learn of a ban by announcements alone, for
// MaxAge after each.
func TestABanOfOneProcessHoldsInAllWhileItIsAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &square{}
		process := func() *remote.DenialCache {
			return remote.MustNewDenialCache(memory.MustNew(memory.Options{}), remote.DenialCacheOptions{Announcer: s.voice()})
		}
		a, b := process(), process()
		limit := limits.Ban(limits.PerMinute(3), 5*time.Minute)
		for range 3 {
			asking.Allowed(t, a, "k", limit, 1)
		}
		began := time.Now()
		for time.Since(began) < time.Minute {
			asking.Denied(t, a, "k", limit, 1)
			asking.Denied(t, b, "k", limit, 1)
			time.Sleep(time.Second)
		}
		s.announced(t, 6) // when it was decided, and not again before it was asked about
		time.Sleep(9 * time.Second)
		asking.Allowed(t, b, "k", limit, 1)
		s.announced(t, 6)
	})
}

// Another process is denied because this one holds the rest. Here that denies nobody.
func TestADenialOfAnotherProcessDoesNotShutOutUnitsThatAreHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(time.Now().Truncate(time.Minute).Add(time.Minute + time.Second)))
		limit := limits.FixedWindow(limits.PerMinute(6000))
		inner := newLeaseBackend()
		leases := remote.MustNewLeaseCache(inner, remote.LeaseOptions{})
		s := &square{}
		one := remote.MustNewDenialCache(leases, remote.DenialCacheOptions{Announcer: s.voice()})
		other := remote.MustNewDenialCache(
			remote.MustNewLeaseCache(inner, remote.LeaseOptions{}), remote.DenialCacheOptions{Announcer: s.voice()},
		)
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
