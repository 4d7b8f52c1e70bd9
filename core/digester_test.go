package core

import (
	"context"
	"testing"

	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
	"github.com/weir-go/weir/memory"
)

// salted is a backend that is not in this process.
type salted struct{ salt string }

func (s salted) Take(context.Context, []backends.Charge, []limits.Decision) error { return nil }
func (s salted) Salt() string                                                     { return s.salt }

func TestADigestOfAValueDependsOnSaltScopeAndKey(t *testing.T) {
	here, there := newDigester(salted{"app:"}), newDigester(salted{"app:"})
	seen := map[uint64][4]string{}
	for _, salt := range []string{"app:", "app:x", ""} {
		for _, scope := range []string{"", "a", "ab", "a1:b"} {
			for _, key := range []string{"", "b", "ab", "1:b"} {
				for _, value := range []string{"", "\x00", "a", "b", "a\x00b"} {
					d, parts := newDigester(salted{salt}), [4]string{salt, scope, key, value}
					if other, is := seen[d.digest(scope, key, value)]; is {
						t.Errorf("%q and %q have one digest", parts, other)
					}
					seen[d.digest(scope, key, value)] = parts
				}
			}
		}
	}
	if a := here.digest("s", "k", "ann"); a == 0 || a != there.digest("s", "k", "ann") {
		t.Error("two processes find different digests")
	}
}

// Values may be free to invent, and the code of weir is public.
func TestAClientCannotKnowADigestInThisProcess(t *testing.T) {
	d, public := newDigester(memory.MustNew(memory.Options{})), newDigester(salted{})
	ann := d.digest("s", "k", "ann")
	if ann == public.digest("s", "k", "ann") || ann == d.digest("s", "k", "bob") {
		t.Error("the digest is that of SHA-256, or that of another value")
	}
	other := newDigester(memory.MustNew(memory.Options{})) // another limiter on one Memory finds the same
	if ann != other.digest("s", "k", "ann") {
		t.Error("equal values have different digests")
	}
}
