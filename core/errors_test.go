package core_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/internal/proof/asking"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
	"github.com/weir-go/weir/memory"
	"github.com/weir-go/weir/remote"
)

// Keys may be addresses or secrets: no error may hold one, whatever it looks like.
func TestNoErrorNamesAKey(t *testing.T) {
	const secret = "5ecret"
	keys := []string{secret, secret + "\n", "%s" + secret, "\x00" + secret, "\xff" + secret,
		secret + strings.Repeat("x", 100_000)}

	charge := func(key string, limit limits.Limit, cost int64) backends.Charge {
		return backends.Charge{Scope: "s", Key: key, Limit: limit, Cost: cost}
	}
	mistakes := func(key string) map[string][]backends.Charge {
		return map[string][]backends.Charge{
			"negative cost":           {charge(key, perMinute(1), -1)},
			"negative cost in a pair": {charge("other", perMinute(1), 1), charge(key, perMinute(1), -1)},
			"illegal limit":           {charge(key, perMinute(0), 1)},
			"no limit":                {charge(key, limits.Limit{}, 1)},
			"two limits":              {charge(key, perMinute(1), 1), charge(key, perMinute(2), 1)},
		}
	}
	store := memory.MustNew(memory.Options{})
	for _, key := range keys {
		for name, charges := range mistakes(key) {
			for _, b := range []backends.Backend{store, remote.MustNewDenialCache(store, remote.DenialCacheOptions{})} {
				out := make([]limits.Decision, len(charges))
				noSecret(t, name, secret, b.Take(t.Context(), charges, out))
				noSecret(t, name, secret, backends.Peek(t.Context(), b, charges, out))
				noSecret(t, name, secret, b.Take(t.Context(), charges, nil))
			}
		}
		noSecret(t, "reset", secret, backends.Reset(t.Context(), &asking.Broken{}, "s", key))
		noSecret(t, "reset behind a cache", secret,
			backends.Reset(t.Context(), remote.MustNewDenialCache(&asking.Broken{}, remote.DenialCacheOptions{}), "s", key))

		byKey := func(request) (string, error) { return key, nil }
		for name, rule := range map[string]core.Rule[request]{
			"negative cost": {Limit: perMinute(1), Key: byKey, Cost: func(request) int64 { return -1 }},
			"panic in cost": {Limit: perMinute(1), Key: byKey, Cost: func(request) int64 { panic("boom") }},
			"illegal limit": {Key: byKey, LimitFor: func(request, string) (limits.Limit, error) { return perMinute(0), nil }},
			"failing limit": {Key: byKey,
				LimitFor: func(request, string) (limits.Limit, error) { return limits.Limit{}, errBroken }},
			"key with error":  {Limit: perMinute(1), Key: func(request) (string, error) { return key, errBroken }},
			"failing backend": {Limit: perMinute(1), Key: byKey},
			"closed":          {Limit: perMinute(1), Key: byKey, OnFailure: core.FailClosed},
		} {
			for _, down := range []*asking.Broken{{Err: errBroken}, {}} { // which fails, or panics
				rule.Name = "rule"
				l := core.MustNew(core.Config[request]{Backend: down, Fallback: down, Rules: []core.Rule[request]{rule}})
				o := decide(t, l, request{user: "ann"}, core.Unavailable)
				noSecret(t, name, secret, o.Err())
			}
		}
	}
}

// noSecret fails if err, which there has to be, holds secret in any form that fmt
// gives it.
func noSecret(t *testing.T, name, secret string, err error) {
	t.Helper()
	if err == nil {
		t.Errorf("%s: no error", name)
	}
	for _, text := range []string{fmt.Sprintf("%v", err), fmt.Sprintf("%+v", err), fmt.Sprintf("%#v", err)} {
		if strings.Contains(text, secret) {
			t.Errorf("%s: %.200s", name, text)
		}
	}
}

// What a rule's functions and a backend say is in the outcome, for errors.Is.
func TestAnOutcomesErrorIsWhatFailed(t *testing.T) {
	rule := core.Rule[request]{Name: "user", Limit: perMinute(1),
		Key: func(request) (string, error) { return "", fmt.Errorf("lookup: %w", errBroken) }}
	o := decide(t, core.MustNew(core.Config[request]{Rules: []core.Rule[request]{rule}}), request{}, core.Unavailable)
	if !errors.Is(o.Err(), errBroken) || o.Err().Error() != `core: rule "user": key: lookup: broken` {
		t.Errorf("error %v, want the key function's, wrapped once", o.Err())
	}
	rule.Key = byUser
	late := &asking.Broken{Err: context.DeadlineExceeded}
	l := core.MustNew(core.Config[request]{Backend: late, Rules: []core.Rule[request]{rule}})
	o = decide(t, l, request{user: "ann"}, core.Allowed)
	if !errors.Is(o.Err(), context.DeadlineExceeded) {
		t.Errorf("error %v, want the backend's", o.Err())
	}
}
