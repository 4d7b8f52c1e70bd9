package keyfuncs_test

import (
	"context"
	"errors"
	"net/http"
	"testing"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/keyfuncs"
	"github.com/weir-go/weir/limits"
)

func TestWhatCannotBeIdentifiedCountsTogether(t *testing.T) {
	key := keyfuncs.OrShared(keyfuncs.Address(keyfuncs.MustTrustedProxies("10.0.0.0/8")))
	wantKey(t, key, request("10.0.0.1:80", "X-Forwarded-For: 203.0.113.7"), "203.0.113.7")
	wantAbsent(t, key, request("10.0.0.1:80"))
	wantAbsent(t, key, request("10.0.0.1:80", "X-Forwarded-For: x"))
	wantAbsent(t, key, request("203.0.113.7")) // overwritten
	wantAbsent(t, key, request("@"))

	header := keyfuncs.OrShared(keyfuncs.APIKey("X-API-Key"))
	wantAbsent(t, header, request(""))
	wantAbsent(t, header, request("", "X-API-Key: a", "X-API-Key: b"))
}

func TestOrTogetherSwallowsEveryErrorButOne(t *testing.T) {
	for name, err := range map[string]error{
		"unidentified": keyfuncs.ErrUnidentified,
		"absent":       core.ErrAbsent,
		"one's own":    errBroken,
		"a context's":  context.Canceled,
	} {
		key := keyfuncs.OrShared(func(pair) (string, error) { return "leftover", err })
		if got, err := key(pair{}); got != "" || err != core.ErrAbsent {
			t.Errorf("%s: got %q, %v; want core.ErrAbsent", name, got, err)
		}
	}
	for _, want := range []error{core.ErrDoesNotApply, errors.Join(errBroken, core.ErrDoesNotApply)} {
		key := keyfuncs.OrShared(func(pair) (string, error) { return "", want })
		if got, err := key(pair{}); got != "" || err != want {
			t.Errorf("got %q, %v; want %v itself", got, err, want)
		}
	}
	if got, err := keyfuncs.OrShared(empty)(pair{}); got != "" || err != nil {
		t.Errorf("an empty key: got %q, %v", got, err)
	}
}

func TestARequestThatCannotBeIdentifiedIsCountedNotRefused(t *testing.T) {
	for _, failure := range []core.FailurePolicy{core.FallBack, core.FailOpen, core.FailClosed} {
		limiter := core.MustNew(core.Config[*http.Request]{Rules: []core.Rule[*http.Request]{{
			Name: "r", Limit: limits.TokenBucket(limits.PerDay(1), 1), OnFailure: failure,
			Key: keyfuncs.OrShared(keyfuncs.Address(keyfuncs.MustProxyCount(1))),
		}}})
		for _, c := range []struct {
			header string
			want   core.Verdict
		}{
			{"203.0.113.7", core.Allowed}, {"x", core.Allowed}, {"y", core.Denied}, {"", core.Denied},
			{"203.0.113.8", core.Allowed},
		} {
			o := limiter.Decide(t.Context(), request("10.0.0.1:80", "X-Forwarded-For: "+c.header))
			if o.Verdict() != c.want || o.Err() != nil {
				t.Errorf("%v, %q: %v, %v; want %v", failure, c.header, o.Verdict(), o.Err(), c.want)
			}
		}
	}
}

func TestAPanicIsNoRequestWithoutAKey(t *testing.T) {
	limiter := core.MustNew(core.Config[pair]{Rules: []core.Rule[pair]{{
		Name: "r", Limit: limits.TokenBucket(limits.PerDay(1), 1),
		Key: keyfuncs.OrShared(func(pair) (string, error) { panic("a bug") }),
	}}})
	if o := limiter.Decide(t.Context(), pair{}); o.Verdict() != core.Unavailable || o.Err() == nil {
		t.Errorf("%v, %v; want unavailable", o.Verdict(), o.Err())
	}
}

func TestOrTogetherOfNothingIsNil(t *testing.T) {
	if keyfuncs.OrShared[pair](nil) != nil {
		t.Error("OrShared(nil) is not nil")
	}
}
