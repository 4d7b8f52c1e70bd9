package line

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// A request whose budget of 50ms ends fails, unless this process runs late
// and the server answers others: then it waits on, but not for ever.
func TestOnlyALateProcessWithRepliesExceedsItsBudget(t *testing.T) {
	const never = time.Hour
	for _, tt := range []struct {
		name             string
		late             time.Duration // of goroutines that are ready to run
		answersEnd       time.Duration // until when the server answers others
		repliedAt        time.Duration
		leaves           bool // the caller
		noEarlier, noLat time.Duration
		back             bool
	}{
		{name: "in time", repliedAt: never, answersEnd: never, noEarlier: 50, noLat: 50},
		{name: "replied in time", repliedAt: 30 * time.Millisecond, noEarlier: 30, noLat: 30, back: true},
		{name: "late, and the server is silent", late: 20 * time.Millisecond, repliedAt: never, noEarlier: 50, noLat: 50},
		{
			name: "late, and the server falls silent", late: 20 * time.Millisecond, answersEnd: 40 * time.Millisecond,
			repliedAt: never, noEarlier: 100, noLat: 200,
		},
		{
			name: "late, and the server answers", late: 20 * time.Millisecond, answersEnd: never,
			repliedAt: 420 * time.Millisecond, noEarlier: 420, noLat: 420, back: true,
		},
		{
			name: "late for ever", late: 20 * time.Millisecond, answersEnd: never, repliedAt: never, noEarlier: 1000,
			noLat: 1050,
		},
		{name: "a little late", late: 4 * time.Millisecond, answersEnd: never, repliedAt: never, noEarlier: 50, noLat: 50},
		{
			name: "the caller leaves", late: 20 * time.Millisecond, answersEnd: never, repliedAt: never, leaves: true,
			noEarlier: 10, noLat: 10,
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			l := newLine(&Lines{maxCalls: 16, Patience: quietFor}, nil)
			a := &Job{Replied: make(chan struct{}, 1)}
			begin := time.Now()
			end := make(chan struct{})
			var rest sync.WaitGroup
			defer func() { close(end); rest.Wait() }()
			rest.Go(func() { // the rest of the process, and of the server
				for ; ; time.Sleep(5 * time.Millisecond) {
					now := time.Now()
					l.lines.late.note(now, tt.late)
					if now.Sub(begin) < tt.answersEnd {
						l.mu.Lock()
						l.health.answeredAt, l.health.answeredIn = now, time.Millisecond
						l.mu.Unlock()
					}
					if now.Sub(begin) == tt.repliedAt {
						a.Replied <- struct{}{}
					}
					select {
					case <-end:
						return
					default:
					}
				}
			})
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			defer cancel()
			if tt.leaves {
				time.AfterFunc(10*time.Millisecond, cancel)
			}
			back, err := l.await(ctx, a, begin)
			waited := time.Since(begin)
			if back != tt.back || waited < tt.noEarlier*time.Millisecond || waited > tt.noLat*time.Millisecond {
				t.Errorf("%s: back %v after %v, want %v after %d to %d ms", tt.name, back, waited, tt.back, tt.noEarlier, tt.noLat)
			}
			if !back && !errors.Is(err, ctx.Err()) {
				t.Errorf("%s: error %v, want one that is %v", tt.name, err, ctx.Err())
			}
		})
	}
}
