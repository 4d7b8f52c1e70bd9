package keyfuncs_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/keyfuncs"
)

func TestANamedKeyIsPrecededByItsName(t *testing.T) {
	for want, key := range map[string]func(pair) (string, error){
		"user:a": keyfuncs.FirstNamed(keyfuncs.Named("user", first), keyfuncs.Named("address", second)),
		"address:b": keyfuncs.FirstNamed(keyfuncs.Named("user", none), keyfuncs.Named("address", second),
			keyfuncs.Named("x", broken)),
		"c:b": keyfuncs.FirstNamed(keyfuncs.Named("a", none), keyfuncs.Named("b", empty), keyfuncs.Named("c", second)),
	} {
		if got, err := key(pair{"a", "b"}); err != nil || got != want {
			t.Errorf("got %q, %v; want %q", got, err, want)
		}
	}
	if got, err := keyfuncs.FirstNamed(keyfuncs.Named("a", none), keyfuncs.Named("b", empty))(pair{}); got != "" ||
		!errors.Is(err, core.ErrAbsent) {
		t.Errorf("got %q, %v; want core.ErrAbsent", got, err)
	}
	if got, err := keyfuncs.FirstNamed(keyfuncs.Named("a", broken), keyfuncs.Named("b", first))(pair{}); got != "" ||
		err != errBroken {
		t.Errorf("got %q, %v; want %v", got, err, errBroken)
	}
	never := core.When(func(pair) bool { return false }, first)
	_, err := keyfuncs.FirstNamed(keyfuncs.Named("a", never), keyfuncs.Named("b", first))(pair{})
	if err != core.ErrDoesNotApply {
		t.Errorf("got %v, want core.ErrDoesNotApply itself", err)
	}
}

func TestNamedKeysNeverRunIntoEachOther(t *testing.T) {
	which := func(n string) func(pair) (string, error) {
		return func(p pair) (string, error) {
			if p.a != n {
				return "", core.ErrAbsent
			}
			return p.b, nil
		}
	}
	names := []string{"user", "use", "r", "0", "1", "user.name", "u", "address"}
	var named []keyfuncs.NamedKey[pair]
	for _, name := range names {
		named = append(named, keyfuncs.Named(name, which(name)))
	}
	key := keyfuncs.FirstNamed(named...)
	seen := make(map[string]pair)
	for _, name := range names {
		for _, text := range []string{
			"a", "user:a", "r:a", ":a", "0:a", "address:a", "203.0.113.7", "user", ":", "::", "1:", "name:a", "ser:a",
		} {
			p := pair{name, text}
			got, err := key(p)
			if err != nil {
				t.Fatal(err)
			}
			if other, ok := seen[got]; ok {
				t.Errorf("%q and %q have the same key %q", p, other, got)
			}
			seen[got] = p
		}
	}
}

func TestANameThatCouldRunIntoAnotherIsRefused(t *testing.T) {
	for _, name := range []string{"", ":", "a:b", "a b", "a\n", "{a}", "é", "\x00", strings.Repeat("a", 65)} {
		if keyfuncs.FirstNamed(keyfuncs.Named(name, first)) != nil {
			t.Errorf("%q is a name", name)
		}
	}
	for _, name := range []string{"a", "0", "a-b_c.d", strings.Repeat("a", 64)} {
		if keyfuncs.FirstNamed(keyfuncs.Named(name, first)) == nil {
			t.Errorf("%q is no name", name)
		}
	}
	for name, key := range map[string]func(pair) (string, error){
		"nothing": keyfuncs.FirstNamed[pair](),
		"nil":     keyfuncs.FirstNamed(keyfuncs.Named("a", first), keyfuncs.Named[pair]("b", nil)),
		"a name twice": keyfuncs.FirstNamed(keyfuncs.Named("a", first), keyfuncs.Named("b", none),
			keyfuncs.Named("a", second)),
		"a zero value": keyfuncs.FirstNamed(keyfuncs.NamedKey[pair]{}),
	} {
		if key != nil {
			t.Errorf("FirstNamed of %s is not nil", name)
		}
	}
}

func FuzzFirstNamed(f *testing.F) {
	f.Add("user", "address", "alice", "203.0.113.7", true)
	f.Add("a", "a:b", "b:c", "c", false)
	f.Add("0", "00", "0:x", "x", true)
	f.Fuzz(func(t *testing.T, name1, name2, text1, text2 string, second bool) {
		type request struct {
			which bool
			text  string
		}
		of := func(which bool) func(request) (string, error) {
			return func(r request) (string, error) {
				if r.which != which {
					return "", core.ErrAbsent
				}
				return r.text, nil
			}
		}
		key := keyfuncs.FirstNamed(keyfuncs.Named(name1, of(false)), keyfuncs.Named(name2, of(true)))
		if key == nil || text1 == "" || text2 == "" {
			t.Skip()
		}
		p, q := request{false, text1}, request{second, text2}
		one, err1 := key(p)
		other, err2 := key(q)
		if err1 != nil || err2 != nil {
			t.Fatal(err1, err2)
		}
		if (p == q) != (one == other) {
			t.Errorf("%v and %v have the keys %q and %q", p, q, one, other)
		}
	})
}

func ExampleFirstNamed() {
	key := keyfuncs.FirstNamed(
		keyfuncs.Named("user", keyfuncs.FromContext(user)),
		keyfuncs.Named("address", keyfuncs.Address(keyfuncs.Peer)),
	)
	r := request("203.0.113.7:50000")
	show(key, r)
	show(key, withUser(r, "alice"))
	// Output:
	// address:203.0.113.7
	// user:alice
}

// A name with a colon is refused, because a key could be mistaken for it. So is a
// name given twice.
func ExampleNamed() {
	fmt.Println(keyfuncs.FirstNamed(keyfuncs.Named("user:", keyfuncs.FromContext(user))) == nil)
	// Output: true
}

func ExampleNamedKey() {
	callers := []keyfuncs.NamedKey[*http.Request]{
		keyfuncs.Named("user", keyfuncs.FromContext(user)),
		keyfuncs.Named("address", keyfuncs.Address(keyfuncs.Peer)),
	}
	show(keyfuncs.FirstNamed(callers...), request("203.0.113.7:50000"))
	// Output: address:203.0.113.7
}
