package keyfuncs_test

import (
	"errors"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/keyfuncs"
)

// store is a framework's request, which stores one value.
type store struct{ value any }

func stored(s store) any { return s.value }

func TestAValueIsAKeyIfItHasAText(t *testing.T) {
	type id int64
	type name string
	long := strings.Repeat("a", 65)
	key := keyfuncs.Value(stored)
	for _, c := range []struct {
		value any
		want  string
	}{
		{"ann", "ann"}, {name("ann"), "ann"}, {7, "7"}, {id(-7), "-7"}, {uint8(7), "7"},
		{uint64(1<<64 - 1), "18446744073709551615"},
		{netip.MustParseAddr("192.0.2.1"), "192.0.2.1"}, {time.Second, "1s"}, {long, "sha256:" + sha(long)},
	} {
		if got, err := key(store{c.value}); got != c.want || err != nil {
			t.Errorf("%T %v: %q, %v, want %q", c.value, c.value, got, err, c.want)
		}
	}
	for _, absent := range []any{nil, "", name("")} {
		if got, err := key(store{absent}); got != "" || !errors.Is(err, core.ErrAbsent) {
			t.Errorf("%#v: %q, %v, want core.ErrAbsent", absent, got, err)
		}
	}
	for _, wrong := range []any{1.5, true, []byte("ann"), struct{ secret string }{"hunter2"}} {
		got, err := key(store{wrong})
		if got != "" || !errors.Is(err, keyfuncs.ErrUnidentified) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%T: %q, %v, want ErrUnidentified", wrong, got, err)
		}
	}
	if keyfuncs.Value[store](nil) != nil {
		t.Error("Value(nil) must be nil, for the limiter's constructor to report")
	}
}

func TestAnAddressMayComeFromAnyTypeOfRequest(t *testing.T) {
	source := func(s store) (netip.Addr, error) { return netip.ParseAddr(s.value.(string)) }
	key := keyfuncs.Address(source)
	for text, want := range map[string]string{
		"203.0.113.7": "203.0.113.7", "::ffff:203.0.113.7": "203.0.113.7", "2001:db8:1:2:3::4": "2001:db8:1:2::/64",
		"fe80::1%eth0": "fe80::/64",
	} {
		if got, err := key(store{text}); got != want || err != nil {
			t.Errorf("%s: %q, %v, want %q", text, got, err, want)
		}
	}
	for _, wrong := range []string{"", "::", "0.0.0.0", "203.0.113.7:80"} {
		if got, err := key(store{wrong}); got != "" || err == nil {
			t.Errorf("%q: %q, %v, want an error", wrong, got, err)
		}
	}
}
