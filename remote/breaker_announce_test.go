package remote_test

import (
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
	"github.com/weir-go/weir/memory"
	"github.com/weir-go/weir/remote"
)

// told passes announcements on.
type told struct {
	announce func(backends.Announcement)
	heard    func(backends.Announcement)
}

func (a *told) Announce(what backends.Announcement)      { a.announce(what) }
func (a *told) Listen(heard func(backends.Announcement)) { a.heard = heard }

func TestAStackAnnouncesItsDenialsWithAndWithoutLeases(t *testing.T) {
	for name, lease := range map[string]time.Duration{"without": 0, "with": time.Second} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				inner := memory.MustNew(memory.Options{})
				there := &told{announce: func(backends.Announcement) {}}
				here := &told{announce: func(a backends.Announcement) { there.heard(a) }}
				discard := slog.New(slog.DiscardHandler)
				a := remote.MustNewStack(inner, remote.StackOptions{Lease: lease, Announcer: here, Logger: discard})
				b := remote.MustNewStack(inner, remote.StackOptions{Lease: lease, Announcer: there, Logger: discard})
				charges := []backends.Charge{{Scope: "s", Key: "k", Limit: limits.FixedWindow(limits.PerHour(1)), Cost: 1}}
				var out [1]limits.Decision
				for range 2 {
					if err := a.Take(t.Context(), charges, out[:]); err != nil {
						t.Fatal(err)
					}
				}
				if err := b.Take(t.Context(), charges, out[:]); err != nil || out[0].Allowed ||
					out[0].Source != limits.SourceDenialCache {
					t.Fatalf("%+v, %v", out[0], err)
				}
			})
		})
	}
}
