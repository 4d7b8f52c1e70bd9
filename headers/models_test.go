package headers_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/headers"
	"github.com/weir-go/weir/limits"
)

var (
	models = headers.Options{Formats: []headers.Format{headers.OpenAI, headers.Anthropic}}

	tokens = published{Name: "tokens", Unit: core.Tokens, Limit: limits.TokenBucket(limits.PerMinute(150_000), 150_000)}
	input  = published{Name: "input", Unit: core.InputTokens, Limit: limits.FixedWindow(limits.PerMinute(80_000))}
	output = published{Name: "output", Unit: core.OutputTokens, Limit: limits.FixedWindow(limits.PerMinute(16_000))}
)

// The decisions are made at 2026-11-21 12:00:00.25 UTC.
func TestEachUnitHasItsFieldsOfLanguageModels(t *testing.T) {
	policies := []published{perMinute, tokens, input, output, uploads,
		{Name: "bytes", Unit: core.ContentBytes, Limit: perHour.Limit}}
	o := decided(t, policies,
		allowed(59, time.Minute, time.Second), allowed(149_984, time.Minute, 6*time.Minute),
		allowed(79_000, time.Minute, 750*time.Millisecond), denied(0, 8*time.Second, 30*time.Second),
		allowed(1, limits.Never, 0), allowed(1, time.Second, time.Second))
	want(t, written(t, models, policies, o),
		"x-ratelimit-limit-requests: 100", "x-ratelimit-remaining-requests: 59", "x-ratelimit-reset-requests: 1s",
		"x-ratelimit-limit-tokens: 150000", "x-ratelimit-remaining-tokens: 149984", "x-ratelimit-reset-tokens: 6m0s",
		"anthropic-ratelimit-requests-limit: 100", "anthropic-ratelimit-requests-remaining: 59",
		"anthropic-ratelimit-requests-reset: 2026-11-21T12:00:02Z",
		"anthropic-ratelimit-tokens-limit: 150000", "anthropic-ratelimit-tokens-remaining: 149984",
		"anthropic-ratelimit-tokens-reset: 2026-11-21T12:06:01Z",
		"anthropic-ratelimit-input-tokens-limit: 80000", "anthropic-ratelimit-input-tokens-remaining: 79000",
		"anthropic-ratelimit-input-tokens-reset: 2026-11-21T12:00:01Z",
		"anthropic-ratelimit-output-tokens-limit: 16000", "anthropic-ratelimit-output-tokens-remaining: 0",
		"anthropic-ratelimit-output-tokens-reset: 2026-11-21T12:00:31Z",
		"Retry-After: 8", "Retry-After-Ms: 8000")
}

// The SDKs of OpenAI and Anthropic read the wait in milliseconds first. They retry a 429 without a
// wait after half a second, unless they are told not to.
func TestSDKsOfModelsAreToldHowLongToWaitOrNotToRetry(t *testing.T) {
	policies := []published{tokens}
	waits := map[time.Duration]string{
		0:                         "1000",
		time.Nanosecond:           "1",
		20 * time.Millisecond:     "20",
		1500*time.Millisecond + 1: "1501",
		time.Hour:                 "3600000",
		time.Hour + 1:             "",
		limits.Never:              "",
	}
	for wait, millis := range waits {
		for _, format := range models.Formats {
			h := written(t, headers.Options{Formats: []headers.Format{format}, MaxRetryAfter: time.Hour},
				policies, decided(t, policies, denied(0, wait, time.Minute)))
			again := ""
			if millis == "" {
				again = "false"
			}
			if h.Get("Retry-After-Ms") != millis || h.Get("X-Should-Retry") != again {
				t.Errorf("%v, wait of %v: %v", format, wait, h)
			}
		}
	}
	window := headers.Options{Formats: models.Formats, RetryAfter: headers.Window}
	h := written(t, window, policies, decided(t, policies, denied(0, time.Second, time.Minute)))
	if h.Get("Retry-After") != "60" || h.Get("Retry-After-Ms") != "60000" {
		t.Errorf("a raised wait: %v", h)
	}
	ietf := []headers.Format{headers.IETF}
	h = written(t, headers.Options{Formats: ietf}, policies, decided(t, policies, denied(0, 1, time.Minute)))
	if h["Retry-After-Ms"] != nil {
		t.Errorf("without a format of theirs: %v", h)
	}
}

func TestTheResetOfOpenAIIsADurationRoundedUp(t *testing.T) {
	for reset, want := range map[time.Duration]string{
		0: "0s", 20 * time.Millisecond: "20ms", 20*time.Millisecond + time.Microsecond: "21ms",
		7660 * time.Millisecond: "7.66s", time.Minute: "1m0s", 90 * time.Minute: "1h30m0s",
		-time.Second: "0s", limits.Never: "2562047h47m16s",
	} {
		policies := []published{perMinute}
		h := written(t, models, policies, decided(t, policies, allowed(1, time.Second, reset)))
		if got := h.Get("x-ratelimit-reset-requests"); got != want {
			t.Errorf("%v: got %s, want %s", reset, got, want)
		}
	}
}

func TestTheResetOfAnthropicHasFourDigitsForTheYear(t *testing.T) {
	policies := []published{perMinute}
	faulty := limits.Decision{Allowed: true, Remaining: 1, ResetAfter: limits.Never, At: 1<<63 - 1}
	h := written(t, models, policies, decided(t, policies, faulty))
	if got := h.Get("anthropic-ratelimit-requests-reset"); got != "9999-12-31T23:59:59Z" {
		t.Errorf("got %s", got)
	}
}

// Clients that were denied together and wait in milliseconds must not come back together, either.
func TestTheMillisecondsHaveTheJitter(t *testing.T) {
	options := models
	options.Jitter = 900 * time.Millisecond
	policies := []published{perMinute}
	o := decided(t, policies, denied(0, 50*time.Millisecond, time.Minute))
	drawn := make(map[string]bool)
	for range 100 {
		h := written(t, options, policies, o)
		drawn[h.Get("Retry-After-Ms")] = true
		if got := h.Get("Retry-After"); got != "1" {
			t.Errorf("Retry-After %s", got)
		}
	}
	if len(drawn) < 10 {
		t.Errorf("%d different waits", len(drawn))
	}
}

// Of two rules with one unit the fields show the one that binds, whatever binds in other units.
func TestTheFieldsOfAUnitShowItsBindingRule(t *testing.T) {
	day := published{Name: "day", Unit: core.Tokens, Limit: limits.FixedWindow(limits.PerDay(900_000))}
	policies := []published{perMinute, tokens, day}
	for _, tt := range []struct {
		minute, day limits.Decision
		want        string
	}{
		{allowed(9, time.Minute, time.Minute), allowed(10, time.Hour, time.Hour), "150000"},
		{allowed(10, time.Minute, time.Minute), allowed(9, time.Hour, time.Hour), "900000"},
		{allowed(9, time.Minute, time.Minute), denied(10, time.Hour, time.Hour), "900000"},
	} {
		o := decided(t, policies, allowed(1, time.Second, time.Second), tt.minute, tt.day)
		h := written(t, models, policies, o)
		if got := h.Get("x-ratelimit-limit-tokens"); got != tt.want {
			t.Errorf("minute %+v, day %+v: got %s, want %s", tt.minute, tt.day, got, tt.want)
		}
	}
	policies[1].Hidden = true
	o := decided(t, policies, allowed(1, time.Second, time.Second), allowed(9, time.Minute, time.Minute),
		allowed(10, time.Hour, time.Hour))
	if got := written(t, models, policies, o).Get("x-ratelimit-limit-tokens"); got != "900000" {
		t.Errorf("a hidden rule: got %s", got)
	}
}

func TestTheFieldsOfAUnitMergeWithThoseOfAnOuterLimiter(t *testing.T) {
	for _, tt := range []struct {
		outer, inner limits.Decision
		want         string
	}{
		{allowed(5, time.Minute, time.Minute), allowed(6, time.Minute, time.Minute), "100"},
		{allowed(5, time.Minute, time.Minute), allowed(5, time.Minute, time.Minute), "100"},
		{allowed(5, time.Minute, time.Minute), allowed(5, time.Minute, 90*time.Minute), "1000"},
		{allowed(5, time.Minute, time.Minute), allowed(4, time.Minute, time.Second), "1000"},
		{allowed(5, time.Minute, time.Minute), denied(7, time.Minute, time.Second), "1000"},
	} {
		h := http.Header{}
		outer, inner := []published{perMinute, tokens}, []published{perHour}
		writer(t, models, outer...).Write(h, decided(t, outer, tt.outer, allowed(3, time.Second, time.Second)))
		writer(t, models, inner...).Write(h, decided(t, inner, tt.inner))
		wellFormed(t, h)
		for _, name := range []string{"x-ratelimit-limit-requests", "anthropic-ratelimit-requests-limit"} {
			if got := h.Get(name); got != tt.want {
				t.Errorf("%+v in %+v: %s: got %s, want %s", tt.inner, tt.outer, name, got, tt.want)
			}
		}
		if h.Get("x-ratelimit-remaining-tokens") != "3" {
			t.Errorf("the tokens of the outer limiter are gone: %v", h)
		}
	}
}

func TestDeleteDeletesTheFieldsOfLanguageModels(t *testing.T) {
	h := fields("x-ratelimit-limit-requests: 1", "anthropic-ratelimit-output-tokens-reset: x", "Other: stays")
	headers.Delete(h)
	want(t, h, "Other: stays")
}
