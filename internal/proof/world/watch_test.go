package world

import (
	"testing"
	"testing/synctest"
	"time"
)

// A lock was held over a call of a server. The worlds of that hung for ever, and nobody knew their seeds.
func TestAWorldThatHangsIsNoticed(t *testing.T) {
	for _, tt := range []struct {
		name  string
		reads time.Duration // every so often
		ages  time.Duration // in a second
		hangs bool
	}{
		{"it goes on", 10 * time.Millisecond, time.Minute, false},
		{"it is slow", 59 * time.Second, 10 * time.Millisecond, false},
		{"it stands still", time.Hour, 0, true},
		{"it never ends", 10 * time.Millisecond, time.Hour, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { // time of its own: that of nobody's world
				begun, ended, noticed := time.Now(), make(chan struct{}), ""
				pulse.age.Store(0)
				go watch(ended, func(why string) { noticed = why })
				for time.Since(begun) < 3*time.Minute {
					time.Sleep(tt.reads)
					pulse.reads.Add(1)
					pulse.age.Store(int64(time.Since(begun).Seconds() * float64(tt.ages)))
				}
				close(ended)
				if synctest.Wait(); (noticed != "") != tt.hangs {
					t.Errorf("noticed %q, hangs %v", noticed, tt.hangs)
				}
			})
		})
	}
}
