package wire_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/internal/ground/algorithm"
	"github.com/weir-go/weir/internal/ground/slot"
	"github.com/weir-go/weir/redisbackend/internal/wire"
)

// encoderOf returns an encoder for a prefix and the scopes together.
func encoderOf(prefix string, together ...string) *wire.Encoder {
	return wire.NewEncoder(prefix, "", together, 30*time.Second)
}

// allNames are the names of the states of all kinds.
func allNames(e *wire.Encoder, scope, key string) []string {
	return append(e.AllNames(scope, key), e.HeldName(scope, key))
}

func TestNamesNeverCollide(t *testing.T) {
	e := encoderOf("weir")
	long := strings.Repeat("k", 129)
	names := make(map[string]string)
	for _, pair := range [][2]string{
		{"a:b", "c"}, {"a", "b:c"}, {"", "1:a:b"}, {"a", ""}, {"", "a"}, {"", ""}, {"1:a", ":b"}, {"1", "a::b"},
		{"s", long}, {"s", long[1:]}, {"s", "#" + long[2:]}, {"s#", long}, {"s", "#"}, {"s", "\x00"}, {"s", "{a}"},
		{"s", "a}"}, {"s", "{a"}, {"s{", "a}"}, {"a=", "b"}, {"a", "=b"}, {"a:", "b"}, {"a;", "b"}, {"a%3B", "b"},
		{"a!", "b"}, {"a#", "=b"}, {"a", "+b"}, {"s{a", "}"}, {"{}", "a"}, {"", "{}:a"}, {"", "{"}, {"{", ""},
	} {
		for kind, name := range allNames(e, pair[0], pair[1]) {
			if other, ok := names[name]; ok {
				t.Errorf("%q and %q are both %q", pair, other, name)
			}
			names[name] = fmt.Sprint(pair, kind)
			if len(name) > 256 {
				t.Errorf("the name of %.20q is %d bytes long", pair, len(name))
			}
		}
	}
}

// TestTwoPrefixesNeverShareAName reads names of a longer prefix as names of a shorter one: clients choose keys.
func TestTwoPrefixesNeverShareAName(t *testing.T) {
	short := encoderOf("p")
	random := rand.New(rand.NewPCG(1, 2))
	text := func(alphabet string, most int) string {
		b := make([]byte, random.IntN(most+1))
		for i := range b {
			b[i] = alphabet[random.IntN(len(alphabet))]
		}
		return string(b)
	}
	accepted, could := 0, 0
	for range 20_000 {
		prefix := "p:" + text(":=!+#a;", 6)
		scope, key := text("a:={", 3), text("a:={", 3)
		names := allNames(encoderOf(prefix), scope, key)
		isLegal := wire.ValidatePrefix(prefix) == nil
		if isLegal {
			accepted++
		}
		for _, name := range names {
			end := strings.IndexAny(name, "=!~+#")
			scope := strings.ReplaceAll(name[len("p:"):end], ";", ":")
			key := strings.TrimLeft(name[end:], "#")[1:]
			if !slices.Contains(allNames(short, scope, key), name) {
				continue
			}
			could++
			if isLegal {
				t.Fatalf("%q is a name of prefix %q, and of scope %q and key %q under p", name, prefix, scope, key)
			}
		}
	}
	if accepted < 1000 || could < 100 {
		t.Errorf("%d prefixes are legal, and %d names could be of either: the test has tried too little", accepted, could)
	}
}

// Who could choose the slot of a state could aim all load at one server.
func TestKeysDoNotChooseTheirSlot(t *testing.T) {
	e := encoderOf("weir")
	for _, c := range []struct{ scope, key string }{
		{"per-client", "{x}%d"}, {"per-client", "%d{x}"}, {"odd{scope", "}%d"}, {"odd{scope", "x}%d"},
		{"GET /items/{id}", "%d"},
	} {
		slots := make(map[uint16]bool)
		for i := range 100 {
			slots[slot.Of(e.Name(algorithm.Rates, c.scope, fmt.Sprintf(c.key, i)))] = true
		}
		if len(slots) < 90 {
			t.Errorf("scope %q: 100 keys such as %q have %d slots", c.scope, c.key, len(slots))
		}
	}
	want := "weir:{}:by-route=GET /items/{id}"
	if got := e.Name(algorithm.Rates, "by-route", "GET /items/{id}"); got != want {
		t.Errorf("got %q, want the documented %q", got, want)
	}
}

// The states of one key lie together, those of different keys do not, and no key says where.
func TestScopesTogetherHaveOneSlotForEachKey(t *testing.T) {
	e := encoderOf("weir", "rate", "odd{scope")
	for _, key := range []string{"k%d", "{x}%d", "%d{x}", "}%d", strings.Repeat("long", 50) + "%d"} {
		slots, names := make(map[uint16]bool), make(map[string]bool)
		for i := range 100 {
			key := fmt.Sprintf(key, i)
			one, other := e.Name(algorithm.Rates, "rate", key), e.Name(algorithm.Rates, "odd{scope", key)
			apart := e.Name(algorithm.Rates, "apart", key)
			if slot.Of(one) != slot.Of(other) {
				t.Fatalf("%q and %q have two slots", one, other)
			}
			slots[slot.Of(one)] = true
			names[one], names[other], names[apart] = true, true, true
		}
		if len(slots) < 90 || len(names) != 300 {
			t.Errorf("100 keys such as %q have %d slots and %d names in three scopes", key, len(slots), len(names))
		}
	}
	if got, want := e.Name(algorithm.Rates, "rate", "ann"), "weir:{49915e0d7d4b402e}:rate=ann"; got != want {
		t.Errorf("got %q, want the documented %q", got, want)
	}
}

func TestTheNumberOfAValueDependsOnAllItBelongsTo(t *testing.T) {
	seen := map[uint64][4]string{}
	for _, prefix := range []string{"app", "app:x", ""} {
		names := wire.NewEncoder(prefix, "", nil, time.Minute)
		for _, scope := range []string{"", "a", "ab", "a1:b"} {
			for _, key := range []string{"", "b", "ab", "1:b"} {
				for _, value := range []string{"", "\x00", "a", "b", "a\x00b"} {
					n, parts := names.Digest(scope, key, value), [4]string{prefix, scope, key, value}
					if other, is := seen[n]; is {
						t.Errorf("%q and %q have one number", parts, other)
					}
					seen[n] = parts
				}
			}
		}
	}
}
