package redisbackend_test

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
	"github.com/weir-go/weir/redisbackend"
)

var names = limits.Distinct(limits.Per(3, time.Hour))

func tries(key, name string) backends.Charge {
	return backends.Charge{Scope: "login", Key: key, Limit: names, Cost: 1, Value: valueOf(name)}
}

// valueOf returns a number for a name.
func valueOf(name string) uint64 {
	sum := sha256.Sum256([]byte(name))
	return binary.BigEndian.Uint64(sum[:])
}

// Two processes know the same values.
func TestProcessesShareValues(t *testing.T) {
	t.Parallel()
	client, prefix := newClient(t, startRedis(t).addr), uniquePrefix()
	one := redisbackend.MustNewBare(client, redisbackend.BareOptions{Prefix: prefix})
	other := redisbackend.MustNewBare(client, redisbackend.BareOptions{Prefix: prefix})
	for i, name := range []string{"ann", "bob", "ann", "carol"} {
		b := []*redisbackend.Bare{one, other}[i%2]
		if d := take(t, b, tries("k", name))[0]; !d.Allowed {
			t.Errorf("%s: %+v", name, d)
		}
	}
	d := take(t, other, tries("k", "dave"))[0]
	if d.Allowed || d.RetryAfter > time.Hour || d.RetryAfter < time.Hour-time.Minute {
		t.Errorf("a fourth: %+v", d)
	}
	state := client.Get(t.Context(), redisbackend.NameUnder(one, tries("k", "").Limit, "login", "k")).Val()
	form := regexp.MustCompile(`^d3/h ` +
		`[0-9a-f]{16}\+\d{16}[0-9a-f]{16}=\d{16}[0-9a-f]{16}\+\d{16}$`)
	if !form.MatchString(state) {
		t.Fatalf("the state is %q", state)
	}
	ok(t, one.Reset(t.Context(), "login", "k"))
	if d := take(t, other, tries("k", "dave"))[0]; d.Remaining != 2 {
		t.Errorf("after a reset: %+v", d)
	}
}

// Processes of other versions find the same values. The prefix is the only part that no client knows.
func TestTheDigestOfAValueIsTheOneOfTheGuide(t *testing.T) {
	t.Parallel()
	client, prefix := newClient(t, startRedis(t).addr), uniquePrefix()
	always := func(text string) func(string) (string, error) {
		return func(string) (string, error) { return text, nil }
	}
	for _, o := range []redisbackend.BareOptions{
		{Prefix: prefix}, {Prefix: prefix + "-secret"}, {Prefix: prefix, HashTag: "tag"},
	} {
		b := redisbackend.MustNewBare(client, o)
		l := core.MustNew(core.Config[string]{Backend: b, Rules: []core.Rule[string]{
			{Name: "login", Limit: names, Key: always("k"), Value: always("ann")},
		}})
		if o := l.Decide(t.Context(), ""); !o.Allowed() {
			t.Fatal(o.Err())
		}
		start := o.Prefix + ":"
		if o.HashTag != "" {
			start += "{" + o.HashTag + "}:"
		}
		text := fmt.Sprintf("%d:%s%s", len(start), start, "5:login1:k3:ann")
		want := fmt.Sprintf("%x", sha256.Sum256([]byte(text)))[:16]
		state := client.Get(t.Context(), redisbackend.NameUnder(b, tries("k", "").Limit, "login", "k")).Val()
		if _, values, _ := strings.Cut(state, " "); !strings.HasPrefix(values, want) {
			t.Errorf("%+v: the state is %q, want the digest %s", o, state, want)
		}
	}
}

// What a denial on another server has taken is given back, but for what others have had since.
func TestAValueIsGivenBackIfAnotherServerDenies(t *testing.T) {
	t.Parallel()
	s := startTwoShards(t)
	first, second := s.atUnder(t, names, "one", "login", 1), s.at(t, "other", "second", 11)
	value := func(name string) backends.Charge { first.Value = valueOf(name); return first }
	take(t, s.backend, value("ann"))
	for i := range 10 {
		d := take(t, s.backend, value(fmt.Sprint("new ", i)), second)
		if d[1].Allowed || d[0].Source != limits.SourceNotAsked {
			t.Fatalf("the second server allows: %+v", d)
		}
		redisbackend.WaitForGiveBacks(s.backend)
	}
	first.Cost = 0
	if d := take(t, s.backend, first)[0]; d.Remaining != 2 {
		t.Errorf("ten names that were denied are counted: %+v", d)
	}
	first.Cost = 1
	take(t, s.backend, value("ann"), second)
	redisbackend.WaitForGiveBacks(s.backend)
	first.Cost = 0
	if d := take(t, s.backend, first)[0]; d.Remaining != 2 {
		t.Errorf("a name that was known before is gone: %+v", d)
	}
}

// Such an error is about one key. Others would count as failures of the server.
func TestAStateOfValuesThatCannotBeIsAnError(t *testing.T) {
	t.Parallel()
	client := newClient(t, startRedis(t).addr)
	b := redisbackend.MustNewBare(client, redisbackend.BareOptions{Prefix: uniquePrefix()})
	now := time.Now().UnixMicro()
	value := func(at int64) string { return fmt.Sprintf("0123456789abcdef+%016d", at) }
	for _, values := range []string{
		"", "x", value(now)[1:], value(now) + "0", value(now) + value(now-1),
		strings.Repeat(value(now), 1001), strings.ReplaceAll(value(now), "+", " "), value(1 << 53),
		value(now-5) + strings.Repeat("x", 33) + value(now),
		value(now-5) + "0123456789abcdef+             nan" + value(now),
	} {
		key := fmt.Sprint(len(values), values[:min(len(values), 40)])
		name := redisbackend.NameUnder(b, tries(key, "").Limit, "login", key)
		ok(t, client.Set(t.Context(), name, "d3/h "+values, time.Hour).Err())
		charges, out := []backends.Charge{tries(key, "ann")}, make([]limits.Decision, 1)
		err := b.Take(t.Context(), charges, out)
		if err == nil || !strings.Contains(err.Error(), "WEIR the state of a key") {
			t.Errorf("%.50q: %v", values, err)
		}
	}
}

// A thousand values and several requests in a call, each of which finds those of the ones before.
func TestRequestsOfOneCallFindTheValuesOfEachOther(t *testing.T) {
	t.Parallel()
	client, g := startGate(t)
	b := redisbackend.MustNewBare(client, redisbackend.BareOptions{Prefix: uniquePrefix()})
	limit := limits.Distinct(limits.PerHour(1000))
	for from := 0; from < 1100; from += 100 {
		var all []asking
		for i := range 100 {
			c := tries("k", fmt.Sprint("name ", from+i))
			c.Limit = limit
			all = append(all, asking{charges: []backends.Charge{c}})
		}
		got, errs, wait := queueAll(t, t.Context(), b, g, all)
		g.open()
		wait()
		for i := range all {
			ok(t, errs[i])
			if allowed := from < 1000; got[i][0].Allowed != allowed {
				t.Fatalf("name %d: %+v", from+i, got[i][0])
			}
		}
	}
}
