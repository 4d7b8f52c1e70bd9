package conform

import (
	"strings"
	"testing"
)

// planted are mistakes, and the check that has to find each.
var planted = []struct {
	fault   fault
	check   string
	changes []string // of the profile
}{
	{racy, "burst", nil},
	{oneTooMany, "burst", nil},
	{oneTooFew, "burst", nil},
	{halfPeriod, "interval", nil},
	{forgetsAtRest, "interval", []string{"algorithm:"}},
	{turnsLate, "model", nil},
	{turnsLate, "model", []string{"limit: 100 per 2s"}},
	{turnsEarly, "model", nil},
	{losesCounts, "model", nil},
	{retryEarly, "retry-after", nil},
	{countsDenied, "denied", nil},
	{otherStatus, "status", nil},
	{retryAlways, "syntax", nil},
	{tokenName, "syntax", nil},
	{negative, "syntax", []string{"fields: draft-6"}},
	{otherLimit, "quota", nil},
	{otherWindow, "quota", []string{"fields: draft-11"}},
	{remainingHigh, "remaining", nil},
	{remainingLow, "remaining", nil},
	{leftInDenial, "remaining", nil},
	{resetEarly, "reset", []string{"fields: draft-6"}},
	{resetEarlyDenied, "reset", []string{"fields: x-ratelimit"}},
	{wobbles, "wobble", []string{"fields: draft-6"}},
	{freeHead, "head", nil},
	{ownHTTP2, "http2", nil},
	{ignoresCase, "key-apart", nil},
	{hashesKeys, "key-apart", nil},
	{ownSpelling, "key-spelling", []string{"key: address in X-Forwarded-For"}},
	{believesForwarded, "key-forged", []string{"key: address"}},
	{believesLeft, "key-forged", []string{"key: address in X-Forwarded-For"}},
	{skipsEmpty, "key-empty", nil},
	{cutsKeys, "key-long", nil},
	{failsWithLongKeys, "key-long", nil},
	{ownCounts, "instances", []string{"store: redis"}},
	{forgetsAtRestart, "restart", []string{"store: redis"}},
	{opensFree, "restart", nil},
	{neverReturns, "store", []string{"store: redis"}},
	{forgetsNothing, "memory", nil},
}

// onlyStated are mistakes that break no promise and no document. The check states a bound that says so.
var onlyStated = map[fault]string{
	forgetsNothing: "keys are kept after their time", // it may forget later
	retryAlways:    "on an answer that is no denial",
}

func TestEachPlantedMistakeIsFound(t *testing.T) {
	for _, one := range planted {
		t.Run(strings.ReplaceAll(string(one.fault), " ", "-"), func(t *testing.T) {
			p := fakeProfile(t, one.changes...)
			report := runFake(t, p, one.fault, one.check)
			r := report.Results[0]
			found := r.Verdict == Fails
			if statement, ok := onlyStated[one.fault]; ok {
				found = r.Verdict == Bound && strings.Contains(r.Found, statement)
			}
			if !found {
				t.Errorf("%s finds nothing: %s: %s", one.check, r.Verdict, r.Found)
			} else {
				t.Logf("%s: %s\n%s", one.check, r.Found, strings.Join(r.Evidence, "\n"))
			}
		})
	}
}

// Every check has found a planted mistake, except those that only state a bound.
func TestEachCheckNoticesSomething(t *testing.T) {
	noticed := map[string]bool{"options": true, "key-ipv6": true}
	for _, one := range planted {
		noticed[one.check] = true
	}
	for _, c := range Checks() {
		if !noticed[c.Name] {
			t.Errorf("no planted mistake is found by %s", c.Name)
		}
	}
}
