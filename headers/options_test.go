package headers_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weir-go/weir/headers"
	"github.com/weir-go/weir/limits"
)

func TestNewReportsEveryMistakeAtOnce(t *testing.T) {
	_, err := headers.New(headers.Options{
		Formats:      []headers.Format{headers.Draft7, headers.Draft7, headers.GitHub, headers.DeltaSeconds, 0, 99},
		Show:         3,
		RetryAfter:   2,
		Body:         2,
		PartitionKey: headers.Digest,
		CapPace:      true,

		BurstParameter: "Burst",
		Jitter:         -time.Second,
		DiscordScopes:  map[string]headers.DiscordScope{"default": "user", "nosuch": headers.DiscordGlobal},
	}, []published{
		perMinute,
		perMinute,
		{},
		{Name: "tab\t"},
		{Name: "bad", Limit: limits.FixedWindow(limits.Per(0, -time.Second)), Unit: 9},
	})
	if err == nil {
		t.Fatal("no error")
	}
	want := []string{
		"headers: formats: Draft7 is listed more than once",
		"headers: formats: must be IETF, Draft7, Draft6, GitHub, DeltaSeconds, Discord, EpochSeconds, " +
			"OpenAI or Anthropic (got 0)",
		"headers: formats: must be IETF, Draft7, Draft6, GitHub, DeltaSeconds, Discord, EpochSeconds, " +
			"OpenAI or Anthropic (got 99)",
		"headers: formats: GitHub and DeltaSeconds both use X-RateLimit-Reset with different units: choose one",
		"headers: show: must be Always, OnDenial or Omit (got 3)",
		"headers: retry after: must be LeastWait or Window (got 2)",
		"headers: body: must be SDKs or Bots (got 2)",
		"headers: jitter: must be 0 to 24h (got -1s)",
		"headers: partition key: only IETF has one: add IETF to formats",
		"headers: cap pace: only IETF has a pace: add IETF to formats",
		"headers: burst parameter: only IETF has one: add IETF to formats",
		`headers: burst parameter: must be lower-case letters, digits, and _-.*, and begin with a letter (got "Burst")`,
		"headers: discord scopes: only Discord has a scope: add Discord to formats",
		`headers: discord scopes: rule "default": must be DiscordShared or DiscordGlobal (got "user")`,
		`headers: discord scopes: there is no rule "nosuch"`,
		`headers: rule "default": name: must be unique (got "default" more than once)`,
		`headers: rule "": name: must be one or more characters of printable ASCII (got "")`,
		`headers: rule "tab\t": name: must be one or more characters of printable ASCII (got "tab\t")`,
		`headers: rule "bad": unit: must be Requests, ContentBytes, Tokens, InputTokens, OutputTokens or Money (got 9)`,
		`headers: rule "bad": limit: units of a fixed-window must be 1 to 1000000000 (got 0)`,
		`headers: rule "bad": limit: period must be positive (got -1s)`,
	}
	if diff := cmp.Diff(want, strings.Split(err.Error(), "\n")); diff != "" {
		t.Errorf("mistakes differ (-want +got):\n%s", diff)
	}
}

func TestFormatsThatBreakEachOtherAreRefused(t *testing.T) {
	const (
		types     = "both use RateLimit and RateLimit-Policy with different types: choose one"
		units     = "both use X-RateLimit-Reset with different units: choose one"
		same      = "both use X-RateLimit-Limit, -Remaining and -Reset: choose one"
		precision = "both use X-RateLimit-Reset with different precision: choose one"
	)
	all := allFormats()
	refused := map[[2]headers.Format]string{
		{headers.IETF, headers.Draft7}:          "headers: formats: IETF and Draft7 " + types,
		{headers.GitHub, headers.DeltaSeconds}:  "headers: formats: GitHub and DeltaSeconds " + units,
		{headers.GitHub, headers.Discord}:       "headers: formats: GitHub and Discord " + precision,
		{headers.DeltaSeconds, headers.Discord}: "headers: formats: DeltaSeconds and Discord " + units,

		{headers.GitHub, headers.EpochSeconds}:       "headers: formats: GitHub and EpochSeconds " + same,
		{headers.DeltaSeconds, headers.EpochSeconds}: "headers: formats: DeltaSeconds and EpochSeconds " + units,
		{headers.Discord, headers.EpochSeconds}:      "headers: formats: Discord and EpochSeconds " + precision,
	}
	for i, a := range all {
		for _, b := range all[i+1:] {
			want := refused[[2]headers.Format{a, b}]
			for _, formats := range [][]headers.Format{{a, b}, {b, a}} {
				_, err := headers.New(headers.Options{Formats: formats}, []published{perMinute})
				got := ""
				if err != nil {
					got = err.Error()
				}
				if got != want {
					t.Errorf("formats %v: got error %q, want %q", formats, got, want)
				}
			}
		}
	}
}

func TestAnEmptyListOfFormatsIsAMistakeAndNilIsIETF(t *testing.T) {
	_, err := headers.New[string](headers.Options{Formats: []headers.Format{}}, nil)
	if err == nil || err.Error() != "headers: formats: is empty: use nil for IETF" {
		t.Errorf("got error %v", err)
	}
	policies := []published{perMinute}
	want(t, written(t, headers.Options{}, policies, decided(t, policies, allowed(50, 30*time.Second, time.Minute))),
		`RateLimit-Policy: "default";q=100;w=60`,
		`RateLimit: "default";r=50;t=30`,
	)
}

func TestAFormatListedThreeTimesIsReportedOnce(t *testing.T) {
	_, err := headers.New[string](headers.Options{Formats: []headers.Format{headers.IETF, headers.IETF, headers.IETF}},
		nil)
	if err == nil || err.Error() != "headers: formats: IETF is listed more than once" {
		t.Errorf("got error %v", err)
	}
}

func TestABoundOfRetryAfterHasItsMistakes(t *testing.T) {
	discord := []headers.Format{headers.Discord}
	for _, tt := range []struct {
		options headers.Options
		want    string
	}{
		{headers.Options{MaxRetryAfter: time.Second}, ""},
		{headers.Options{MaxRetryAfter: time.Second - 1}, "must be at least a second"},
		{headers.Options{MaxRetryAfter: -time.Hour}, "must be at least a second"},
		{headers.Options{MaxRetryAfter: time.Hour, Formats: discord}, "leave Discord out of formats"},
	} {
		err := headers.Validate[string](tt.options, nil)
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%v: %v", tt.options.MaxRetryAfter, err)
		}
	}
}

func TestJitterOfUpToADayIsLegal(t *testing.T) {
	for jitter, legal := range map[time.Duration]bool{
		-1: false, 0: true, 1: true, 24 * time.Hour: true, 24*time.Hour + 1: false,
	} {
		if _, err := headers.New[string](headers.Options{Jitter: jitter}, nil); (err == nil) != legal {
			t.Errorf("jitter %v: got error %v, want legal %v", jitter, err, legal)
		}
	}
}

func TestMaxPromiseGoesNeitherWithJitterNorBeyondTheBound(t *testing.T) {
	for _, tt := range []struct {
		options headers.Options
		want    string // "": legal
	}{
		{headers.Options{MaxPromise: time.Minute}, ""},
		{headers.Options{MaxPromise: 24 * time.Hour}, ""},
		{headers.Options{MaxPromise: time.Minute, MaxRetryAfter: time.Minute}, ""},
		{headers.Options{MaxPromise: time.Second}, "headers: max promise: must be 2s to 24h, or 0 for no promises (got 1s)"},
		{headers.Options{MaxPromise: -1}, "headers: max promise: must be 2s to 24h"},
		{headers.Options{MaxPromise: 25 * time.Hour}, "headers: max promise: must be 2s to 24h"},
		{headers.Options{MaxPromise: time.Minute, Jitter: 1},
			"headers: max promise: jitter would move clients out of their turns: remove one of them"},
		{headers.Options{MaxPromise: time.Minute, MaxRetryAfter: 59 * time.Second},
			"headers: max promise: must be at most max retry after, 59s"},
	} {
		_, err := headers.New[string](tt.options, nil)
		if (err == nil) != (tt.want == "") || err != nil && !strings.HasPrefix(err.Error(), tt.want) {
			t.Errorf("%v with jitter %v, at most %v: error %v, want %q", tt.options.MaxPromise, tt.options.Jitter,
				tt.options.MaxRetryAfter, err, tt.want)
		}
	}
}

func TestNewKeepsNothingOfItsArguments(t *testing.T) {
	formats := []headers.Format{headers.IETF}
	policies := []published{perMinute}
	w := writer(t, headers.Options{Formats: formats}, policies...)
	o := decided(t, policies, allowed(50, 30*time.Second, time.Minute))
	formats[0], policies[0] = headers.GitHub, perHour
	h := fields()
	w.Write(h, o)
	want(t, h, `RateLimit-Policy: "default";q=100;w=60`, `RateLimit: "default";r=50;t=30`)
}

func TestAnUnknownFormatHasAName(t *testing.T) {
	for f, want := range map[headers.Format]string{
		0: "Format(0)", headers.Anthropic: "Anthropic", 10: "Format(10)",
	} {
		if got := f.String(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
