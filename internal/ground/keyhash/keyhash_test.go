package keyhash

import "testing"

func TestAHashMarksNoEmptySlot(t *testing.T) {
	h := New()
	for want := range uint64(2) {
		scope := h.Key(0, "k") ^ want // the sum of scope and key is want
		if got := h.Key(scope, "k"); got < 2 {
			t.Errorf("the sum %d is the hash %d, want at least 2", want, got)
		}
	}
}

func TestScopeAndKeyAreHashedApart(t *testing.T) {
	h, other := New(), New()
	if h.Of("a", "b") != h.Key(h.Scope("a"), "b") {
		t.Error("Of is not Key in a scope")
	}
	if h.Of("a", "b") == h.Of("b", "a") || h.Of("a", "a") == h.Of("b", "b") {
		t.Error("scope and key can be exchanged")
	}
	if h.Of("a", "b") == other.Of("a", "b") {
		t.Error("two hashers have the same seeds")
	}
}
