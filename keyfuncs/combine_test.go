package keyfuncs_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/keyfuncs"
	"github.com/weir-go/weir/limits"
)

// pair is a request type that belongs to no framework.
type pair struct{ a, b string }

func first(p pair) (string, error)  { return p.a, nil }
func second(p pair) (string, error) { return p.b, nil }
func none(pair) (string, error)     { return "", core.ErrAbsent }
func empty(pair) (string, error)    { return "", nil }

var errBroken = errors.New("broken")

func broken(pair) (string, error) { return "", errBroken }

func TestJoinedPartsNeverRunIntoEachOther(t *testing.T) {
	join := keyfuncs.Join(first, second)
	seen := make(map[string]pair)
	for _, p := range []pair{
		{"a_b", "c"}, {"a", "b_c"}, {"ab", "c"}, {"a", "bc"}, {"", "abc"}, {"abc", ""}, {"", ""},
		{"a:b", "c"}, {"a", "b:c"}, {"1:a", ""}, {"", "1:a"}, {"0:", ""}, {"", "0:"}, {"1:a1:b", "c"}, {"a", "1:b1:c"},
		{"a|b", "c"}, {"a", "b|c"}, {"a\x00b", "c"}, {"a", "b\x00c"}, {"c", "ab"},
	} {
		key, err := join(p)
		if err != nil {
			t.Fatal(err)
		}
		if other, ok := seen[key]; ok {
			t.Errorf("%q and %q have the same key %q", p, other, key)
		}
		seen[key] = p
	}
}

func TestJoinsOfDifferentLengthNeverCollide(t *testing.T) {
	seen := make(map[string]bool)
	for n := 1; n <= 20; n++ {
		keys := make([]func(pair) (string, error), n)
		for i := range keys {
			keys[i] = first
		}
		key, err := keyfuncs.Join(keys...)(pair{a: "1:"})
		if err != nil || key != strings.Repeat("2:1:", n) || seen[key] {
			t.Errorf("%d parts: got %q, %v", n, key, err)
		}
		seen[key] = true
	}
}

func TestLongPartsAreJoinedWhole(t *testing.T) {
	for _, n := range []int{9, 10, 99, 100, 1000, 12345} {
		p := pair{strings.Repeat("a", n), strings.Repeat("b", n)}
		key, err := keyfuncs.Join(first, second)(p)
		if err != nil || !strings.HasSuffix(key, ":"+p.b) || !strings.Contains(key, ":"+p.a) {
			t.Errorf("%d bytes: got %q, %v", n, key, err)
		}
	}
}

func TestAJoinFailsAsItsPartDoes(t *testing.T) {
	for _, c := range []struct {
		key  func(pair) (string, error)
		want error
	}{
		{keyfuncs.Join(first, none), core.ErrAbsent},
		{keyfuncs.Join(none, broken), core.ErrAbsent},
		{keyfuncs.Join(first, broken, none), errBroken},
	} {
		if key, err := c.key(pair{"a", "b"}); key != "" || err != c.want {
			t.Errorf("got %q, %v; want %v itself", key, err, c.want)
		}
	}
}

func TestARuleThatDoesNotApplyStaysSo(t *testing.T) {
	never := core.When(func(pair) bool { return false }, first)
	_, want := never(pair{})
	for name, key := range map[string]func(pair) (string, error){
		"Join":  keyfuncs.Join(first, never),
		"First": keyfuncs.First(none, never, first),
		"Known": keyfuncs.Known(never, func(string) bool { return true }),

		"OrShared": keyfuncs.OrShared(never),
	} {
		if _, err := key(pair{"a", "b"}); err != want {
			t.Errorf("%s: got %v, want %v itself", name, err, want)
		}
	}
}

func TestTheFirstKeyThatIsThereCounts(t *testing.T) {
	for want, key := range map[string]func(pair) (string, error){
		"0:a": keyfuncs.First(first, second, broken),
		"1:b": keyfuncs.First(none, second, broken),
		"2:b": keyfuncs.First(none, empty, second),
	} {
		if got, err := key(pair{"a", "b"}); err != nil || got != want {
			t.Errorf("got %q, %v; want %q", got, err, want)
		}
	}
	if key, err := keyfuncs.First(none, empty)(pair{}); key != "" || !errors.Is(err, core.ErrAbsent) {
		t.Errorf("got %q, %v; want core.ErrAbsent", key, err)
	}
}

func TestABrokenKeyIsNoReasonToTryTheNext(t *testing.T) {
	if key, err := keyfuncs.First(none, broken, first)(pair{"a", "b"}); key != "" || err != errBroken {
		t.Errorf("got %q, %v; want %v", key, err, errBroken)
	}
}

func TestAUserCannotTakeAnAddressForAName(t *testing.T) {
	key := keyfuncs.First(keyfuncs.FromContext(user), keyfuncs.Address(keyfuncs.Peer))
	address, err := key(request("203.0.113.7:1"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"203.0.113.7", "1:203.0.113.7", address} {
		got, err := key(withUser(request("198.51.100.1:1"), name))
		if err != nil || got == address {
			t.Errorf("user %q: got %q, %v, the key of the address", name, got, err)
		}
	}
}

func TestWrappedAbsenceIsAbsence(t *testing.T) {
	wrapped := func(pair) (string, error) { return "", errors.Join(errors.New("no cookie"), core.ErrAbsent) }
	if got, err := keyfuncs.First(wrapped, second)(pair{"a", "b"}); err != nil || got != "1:b" {
		t.Errorf("got %q, %v", got, err)
	}
}

func TestCombinatorsOfNothingAreNil(t *testing.T) {
	for name, key := range map[string]func(pair) (string, error){
		"Join()":           keyfuncs.Join[pair](),
		"Join(nil)":        keyfuncs.Join[pair](nil),
		"Join(first, nil)": keyfuncs.Join(first, nil),
		"First()":          keyfuncs.First[pair](),
		"First(nil, key)":  keyfuncs.First(nil, first),
	} {
		if key != nil {
			t.Errorf("%s is not nil", name)
		}
	}
	// A nil key function is reported at any depth.
	if keyfuncs.Join(keyfuncs.First(keyfuncs.Header(""), keyfuncs.BearerToken), keyfuncs.Method) != nil {
		t.Error("a nil function inside is not reported")
	}
}

func TestTheLimiterReportsAKeyFunctionThatCouldNotBeMade(t *testing.T) {
	rule := core.Rule[*http.Request]{Name: "r", Limit: limits.SlidingWindow(limits.PerMinute(1))}
	for _, key := range []key{
		keyfuncs.Header("Host"), keyfuncs.Address(keyfuncs.AddrSource(nil)),
		keyfuncs.Join(keyfuncs.Method, keyfuncs.Cookie("")),
	} {
		rule.Key = key
		if _, err := core.New(core.Config[*http.Request]{Rules: []core.Rule[*http.Request]{rule}}); err == nil {
			t.Error("got no error")
		}
	}
}

func TestCombinatorsKeepTheirArguments(t *testing.T) {
	keys := []func(pair) (string, error){first, second}
	join, one := keyfuncs.Join(keys...), keyfuncs.First(keys...)
	keys[0], keys[1] = broken, nil
	if key, err := join(pair{"a", "b"}); err != nil || key != "1:a1:b" {
		t.Errorf("Join: got %q, %v", key, err)
	}
	if key, err := one(pair{"a", "b"}); err != nil || key != "0:a" {
		t.Errorf("First: got %q, %v", key, err)
	}
}

func TestAConstantIsOneKeyForAll(t *testing.T) {
	key := keyfuncs.Constant[*http.Request]("all")
	wantKey(t, key, request("203.0.113.7:1"), "all")
	wantKey(t, key, nil, "all")
}

func TestNoErrorHoldsAnyPartOfTheRequest(t *testing.T) {
	const secret = "S3CRET"
	r := request(secret, "X-Forwarded-For: "+secret, "Forwarded: for="+secret, "X-Real-IP: "+secret,
		"X-API-Key: "+secret, "X-API-Key: "+secret, "Authorization: "+secret, "Authorization: "+secret)
	for _, key := range []key{
		keyfuncs.Address(keyfuncs.Peer), keyfuncs.Address(keyfuncs.MustProxyCount(1)),
		keyfuncs.Address(keyfuncs.MustTrustedProxies("10.0.0.1")), keyfuncs.Address(keyfuncs.MustForwarded("10.0.0.1")),
		keyfuncs.Address(keyfuncs.MustSingleHeader("X-Real-IP")), keyfuncs.APIKey("X-API-Key"), keyfuncs.BearerToken,
		keyfuncs.BasicAuthUser,
	} {
		_, err := key(r)
		if err == nil || strings.Contains(err.Error(), secret) {
			t.Errorf("got %v", err)
		}
		if !errors.Is(err, keyfuncs.ErrUnidentified) {
			t.Errorf("%v is not ErrUnidentified", err)
		}
	}
}
