package line

import (
	"testing"
	"time"
)

// Endings give units back: a crowd of them moves no taking of their key behind others.
func TestEndingsMakeNoKeyBusy(t *testing.T) {
	q := Queue{waiting: make(map[string]int)}
	for range 2 * busyKey {
		q.add(&Job{Priority: ending, Keys: []string{"key"}, Weight: 1}, time.Time{})
	}
	j := &Job{Priority: Taking, Keys: []string{"key"}, Weight: 1}
	if q.add(j, time.Time{}); j.queue != &q.lists[1] {
		t.Error("the only taking of its key waits behind others")
	}
}
