package descriptors_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/gateway/descriptors"
	"github.com/weir-go/weir/internal/proof/jsonschema"
	"github.com/weir-go/weir/internal/proof/testrun"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
	"github.com/weir-go/weir/memory"
)

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

func TestEveryMistakeOfAllFilesIsReported(t *testing.T) {
	_, err := descriptors.Parse(
		descriptors.File{Name: "a.yaml", Text: []byte(`domain: shop
colour: red
on_failure: maybe
descriptors:
  - key: a
    rate_limit: {unit: fortnight, requests_per_unit: 1}
  - key: a
    rate_limit: {unit: minute, requests_per_unit: -1}
  - value: b
    shadow_mode: 3
  - key: c
    rate_limit: {requests_per_unit: 5}
    descriptors:
      - {key: d, ratelimit: {}}
      - {key: e, share_threshold: true, value: x, rate_limit: {unit: minute}}
  - {key: f, rate_limit: {unlimited: true, unit: minute}}
  - {key: g, rate_limit: {algorithm: leaky-queue 10/s capacity 5}}
  - {key: h, rate_limit: {algorithm: concurrent 5}}
  - {key: i, rate_limit: {algorithm: sliding-window many}}
  - {key: j, rate_limit: {algorithm: 5/minute, unit: minute, requests_per_unit: 5}}
  - {key: k, rate_limit: {unit: day, requests_per_unit: 4294967295}}
  - {key: l, rate_limits: [{unit: day, requests_per_unit: 1}, {unit: DAY, requests_per_unit: 2}]}
  - {key: m, rate_limit: {unit: day, requests_per_unit: 1, name: m, replaces: [{name: m}, {}]}}
  - {key: n, key: "n", metadata: [1]}
  - text
  - {key: o, rate_limit: {algorithm: distinct 5/10m}}
`)},
		descriptors.File{Name: "b.yaml", Text: []byte("domain: shop\n")},
		descriptors.File{Name: "c.yaml", Text: []byte("domain: [\n")},
		descriptors.File{Name: "d.yaml", Text: []byte("descriptors: []\n")},
		descriptors.File{Name: "e.yaml", Text: []byte("")},
		descriptors.File{
			Name: "f.yaml",
			Text: []byte("domain: f\nall_or_nothing: true\ndescriptors:\n" +
				"  - {key: a, quota_mode: true, rate_limit: {unit: day, requests_per_unit: 1}}\n  - &x {key: b}\n"),
		},
	)
	var got []string
	for _, m := range descriptors.Mistakes(err) {
		got = append(got, m.Error())
	}
	want := []string{
		"a.yaml:2:1: there is no field \"colour\"", "a.yaml:3:13: on_failure must be",
		"a.yaml:6:24: rule \"a\": unit must be", "a.yaml:7:5: rule \"a\": this descriptor is here twice, also in line 5",
		"a.yaml:8:", "a.yaml:9:5: ", "a.yaml:10:18: ", "a.yaml:12:17: rule \"c\": unit is required",
		"a.yaml:14:18: rule \"c.d\": there is no field \"ratelimit\"", "a.yaml:15:35: rule \"c.e_x\": share_threshold", "a.yaml:15:63: rule \"c.e_x\": requests_per_unit is required",
		"a.yaml:16:", "a.yaml:17:", "a.yaml:18:", "a.yaml:19:", "a.yaml:20:", "a.yaml:21:", "a.yaml:22:", "a.yaml:23:", "a.yaml:23:",
		"a.yaml:24:14: rule \"n\": key is here twice", "a.yaml:24:", "a.yaml:25:5: must be a map",
		"a.yaml:26:38: rule \"o\": algorithm: distinct is not possible",
		"b.yaml:1:9: domain \"shop\" is also in a.yaml", "c.yaml:2:1: not YAML", "d.yaml:1:1: domain is required", "e.yaml: ",
		"f.yaml:4:", "f.yaml:5:",
	}
	for i := range max(len(got), len(want)) {
		switch {
		case i >= len(got):
			t.Errorf("missing: %s", want[i])
		case i >= len(want):
			t.Errorf("too many: %s", got[i])
		case !strings.HasPrefix(got[i], want[i]):
			t.Errorf("got  %s\nwant %s", got[i], want[i])
		}
	}
	if text := err.Error(); strings.Count(text, "\n") != len(got)-1 {
		t.Error(text)
	}
}

// So that a mistake in YAML is told of a file of limits, and not of a policy file.
func TestAFileOfLimitsIsRecognizedWithItsMistakes(t *testing.T) {
	for text, want := range map[string]bool{
		"domain: d\ndescriptors: []\n":                 true,
		"domain: d\ndescriptors:\n  - {key: a\n":       true,
		"domain: [\ndescriptors:\n":                    true,
		"version: 1\nrules: [\n":                       false,
		"version: 1\nrules:\n  - {descriptors: 1}\n":   false,
		"rules: [\n  descriptors: 1\n":                 false,
		"domain: d\n":                                  true,
		"domain: d\non_failure: open\n":                true,
		"domain: d\nversion: 1\n":                      false,
		"domain: d\nrulse: []\nclient: {peer: true}\n": false,
		"unknown: 1\n":                                 false,
		"":                                             false,
	} {
		if got := descriptors.Recognize([]byte(text)); got != want {
			t.Errorf("%q: %v", text, got)
		}
	}
}

func TestRequestsThatBreakTheProtocolAreInvalid(t *testing.T) {
	service := newService(t, plain, nil)
	entry := []descriptors.Entry{{Key: "k", Value: "1"}}
	one := func(d descriptors.Descriptor) descriptors.Request {
		return descriptors.Request{Domain: "d", Descriptors: []descriptors.Descriptor{d}}
	}
	for name, r := range map[string]descriptors.Request{
		"no domain":      {Descriptors: []descriptors.Descriptor{{Entries: entry}}},
		"a long domain":  {Domain: strings.Repeat("d", 257), Descriptors: []descriptors.Descriptor{{Entries: entry}}},
		"no descriptors": {Domain: "d"},
		"65 descriptors": {Domain: "d", Descriptors: make([]descriptors.Descriptor, 65)},
		"no entries":     one(descriptors.Descriptor{}),
		"an empty key":   one(descriptors.Descriptor{Entries: []descriptors.Entry{{Value: "secret"}}}),
		"a limit without a unit": one(descriptors.Descriptor{
			Entries: entry, Limit: &descriptors.Override{RequestsPerUnit: 1},
		}),
		"a limit of a strange unit": one(descriptors.Descriptor{
			Entries: entry, Limit: &descriptors.Override{RequestsPerUnit: 1, Unit: 8},
		}),
		"a window of over a year": one(descriptors.Descriptor{
			Entries: entry, Limit: &descriptors.Override{RequestsPerUnit: 1, Unit: descriptors.Day, Multiplier: 367},
		}),
	} {
		if _, err := service.Decide(t.Context(), &r); !isInvalid(err) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, c := range []struct{ file, text string }{{several, "w=1 -1"}, {together, "k=1 -1"}, {together, "k=1 !5/minute"}} {
		if _, err := newService(t, c.file, nil).Decide(t.Context(), ask(t, c.text)); !isInvalid(err) {
			t.Errorf("%s: %v", c.text, err)
		}
	}
}

// A client decides how long a path is, and how many entries there are of what it sends. A proxy
// that is answered with an error may let the request pass.
func TestNothingThatAClientMakesLongIsUncounted(t *testing.T) {
	long := strings.Repeat("v", 100_000)
	entries := func(n int, value string) (all []descriptors.Entry) {
		for range n {
			all = append(all, descriptors.Entry{Key: "k", Value: value})
		}
		return all
	}
	service := newService(t, `
descriptors:
  - {key: k, rate_limit: {unit: hour, requests_per_unit: 2}}
  - {key: p, value: "/vv*", rate_limit: {unit: hour, requests_per_unit: 2}}
`, nil)
	twoAnHour := &descriptors.Override{RequestsPerUnit: 2, Unit: descriptors.Hour}
	for name, d := range map[string]descriptors.Descriptor{
		"a value":                {Entries: entries(1, long)},
		"a value with a star":    {Entries: []descriptors.Entry{{Key: "p", Value: "/" + long}}},
		"another value":          {Entries: entries(1, long+"x")},
		"entries with a limit":   {Entries: entries(100, "1"), Limit: twoAnHour},
		"long and many together": {Entries: entries(20, long), Limit: twoAnHour},
	} {
		r := &descriptors.Request{Domain: "d", Descriptors: make([]descriptors.Descriptor, 1)}
		r.Descriptors[0] = d
		for i, want := range []string{"ok: 1 of 2/hour", "ok: 0 of 2/hour", "OVER: 0 of 2/hour"} {
			if got := said(service.Decide(t.Context(), r)); got != want {
				t.Errorf("%s, request %d: got %s, want %s", name, i+1, got, want)
			}
		}
	}
}

func TestADescriptorThatBreaksTheProtocolIsLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		config, err := descriptors.Parse(descriptors.File{Name: "d", Text: []byte("domain: d" + plain)})
		if err != nil {
			t.Fatal(err)
		}
		service := descriptors.MustNew(config, descriptors.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
		for range 3 {
			service.Decide(t.Context(), ask(t, "k=secret !5/none ; k=1"))
		}
		want := `level=WARN msg="descriptors: a descriptor breaks the protocol, and is not counted"` +
			` error="the limit of descriptor 0 has no unit" requests=1`
		if got := log.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, want) {
			t.Errorf("%s", got)
		}
		if got := metricsOf(service); !strings.Contains(got, "refused_total invalid 3") ||
			!strings.Contains(got, "requests_total d allowed backend 3") {
			t.Errorf("%s", got)
		}
	})
}

// The first rule has twice as many values as the store has keys.
func TestAFloodUnderOneRuleDeniesNoClientOfAnother(t *testing.T) {
	floodOneRule(t, 4096, 500)
}

func TestAFloodOfHalfAMillionValuesDeniesNoOtherClient(t *testing.T) {
	testrun.FullOnly(t, "decides a million descriptors")
	floodOneRule(t, 260_000, 1000)
}

func floodOneRule(t *testing.T, keys, clients int) {
	t.Helper()
	service := newService(t, `
descriptors:
  - {key: a, rate_limit: {unit: day, requests_per_unit: 2}}
  - {key: b, rate_limit: {unit: day, requests_per_unit: 2}}
  - {key: c, value: "x*", rate_limit: {unit: day, requests_per_unit: 2}}
`, memory.MustNew(memory.Options{MaxKeys: keys}))
	for i := range 2 * keys {
		service.Decide(t.Context(), ask(t, fmt.Sprintf("a=%d +100 ; other=%[1]d !100/day +100", i)))
	}
	for i := range clients {
		for _, text := range []string{"b=%d", "c=x%d", "b=%d !2/day", "user=%d !2/day"} {
			text = fmt.Sprintf(text, i)
			if got := said(service.Decide(t.Context(), ask(t, text))); !strings.HasPrefix(got, "ok: ") {
				t.Fatalf("client %d of another rule: %s: %s", i, text, got)
			}
		}
	}
}

func isInvalid(err error) bool {
	_, ok := errors.AsType[descriptors.Invalid](err)
	return ok
}

// A memory tells 65,535 limits apart. Those that come with requests count in the windows that all share.
func TestLimitsOfRequestsExhaustNothing(t *testing.T) {
	service := newService(t, plain+"  - {key: b, rate_limit: {algorithm: 1/minute}}\n", nil)
	for i := range 70_000 {
		r := &descriptors.Request{Domain: "d", Descriptors: []descriptors.Descriptor{{
			Entries: []descriptors.Entry{{Key: "k", Value: fmt.Sprint(i)}},
			Limit:   &descriptors.Override{RequestsPerUnit: uint32(i), Unit: descriptors.Hour},
		}}}
		if _, err := service.Decide(t.Context(), r); err != nil {
			t.Fatal(i, err)
		}
	}
	if got := said(service.Decide(t.Context(), ask(t, "b=1"))); got != "ok: 0 of 1/minute" {
		t.Error(got)
	}
}

func TestTheResetIsTheTurnOfTheWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := newService(t, `
descriptors:
  - {key: minute, rate_limit: {unit: minute, requests_per_unit: 1}}
  - {key: week, rate_limit: {unit: week, requests_per_unit: 1}}
  - {key: month, rate_limit: {unit: month, requests_per_unit: 1}}
  - {key: year, rate_limit: {unit: year, requests_per_unit: 1}}
  - {key: bucket, rate_limit: {algorithm: token-bucket 1/minute}}
`, nil)
		time.Sleep(time.Until(time.Date(2000, 2, 28, 23, 59, 17, 500_000_000, time.UTC))) // a Monday of a leap year
		for _, c := range []struct {
			text string
			want time.Duration
		}{
			{"minute=1", 43 * time.Second}, {"minute=1 +0", 43 * time.Second}, {"minute=1", 43 * time.Second},
			{"week=1", 2*24*time.Hour + 43*time.Second}, {"month=1", 24*time.Hour + 43*time.Second},
			{"year=1", 307*24*time.Hour + 43*time.Second}, {"bucket=1", 60 * time.Second}, {"bucket=1", 60 * time.Second},
		} {
			a, err := service.Decide(t.Context(), ask(t, c.text))
			if err != nil || a.Statuses[0].Reset != c.want {
				t.Errorf("%s: %v, %v, want %v", c.text, a.Statuses[0].Reset, err, c.want)
			}
		}
		time.Sleep(43 * time.Second)
		if got := said(service.Decide(t.Context(), ask(t, "month=1"))); got != "OVER: 0 of 1/month" { // the 29th
			t.Error(got)
		}
		time.Sleep(24 * time.Hour)
		if got := said(service.Decide(t.Context(), ask(t, "month=1 ; year=1"))); got != "OVER: ok 0 of 1/month, OVER 0 of 1/year" {
			t.Error(got)
		}
	})
}

func TestMetadataIsThatOfRulesThatPass(t *testing.T) {
	service := newService(t, `
descriptors:
  - {key: a, metadata: {tier: gold, of: {a: 1, x: yes}}, rate_limit: {unit: minute, requests_per_unit: 1}}
  - {key: b, metadata: {tier: silver, of: {b: [true, null]}}, rate_limit: {unit: minute, requests_per_unit: 9}}
`, nil)
	first, err := service.Decide(t.Context(), ask(t, "a=1 ; b=1"))
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]any{"tier": "gold", "of": map[string]any{"a": 1.0, "x": "yes", "b": []any{true, nil}}}
	if !reflect.DeepEqual(first.Metadata, want) {
		t.Errorf("%#v", first.Metadata)
	}
	second, err := service.Decide(t.Context(), ask(t, "a=1 ; b=1"))
	if err != nil || second.Metadata["tier"] != "silver" || !second.Over {
		t.Errorf("%v, %v", second.Metadata, err)
	}
}

// failing is a backend that fails while it is down.
type failing struct {
	backends.Backend
	down, panics bool
}

func (f *failing) Take(ctx context.Context, charges []backends.Charge, out []limits.Decision) error {
	if f.panics {
		panic("boom")
	}
	if f.down {
		return errors.New("down")
	}
	return f.Backend.Take(ctx, charges, out)
}

func (f *failing) Unwrap() backends.Backend { return f.Backend }

func TestAFailingBackendIsToldAndFollowsTheFile(t *testing.T) {
	for _, c := range []struct {
		file, want string
		source     descriptors.Source
	}{
		{plain, "ok: 1 of 3/minute", descriptors.Fallback}, // 2 of the 3 are this process's share
		{"on_failure: open\n" + plain, "ok: -", descriptors.Open},
		{"on_failure: closed\n" + plain, descriptors.ErrUnavailable.Error(), 0},
	} {
		for _, panics := range []bool{false, true} {
			backend := &failing{Backend: memory.MustNew(memory.Options{}), down: true, panics: panics}
			config, err := descriptors.Parse(descriptors.File{Name: "d", Text: []byte("domain: d\n" + c.file)})
			if err != nil {
				t.Fatal(err)
			}
			var log bytes.Buffer
			service := descriptors.MustNew(config, descriptors.Options{
				Backend: backend, Instances: 2, Logger: slog.New(slog.NewTextHandler(&log, nil)),
			})
			a, err := service.Decide(t.Context(), ask(t, "k=secret"))
			if got := said(a, err); got != c.want || a.Source != c.source {
				t.Errorf("%q: %s by %v", c.file[:20], got, a.Source)
			}
			if lines := strings.Count(log.String(), "\n"); lines != 1 || strings.Contains(log.String(), "secret") {
				t.Errorf("%s", &log)
			}
		}
	}
}

// counting is a failing backend that knows how many processes share it.
type counting struct {
	failing
	instances int
}

func (c *counting) Instances() int {
	if c.instances < 0 {
		panic("boom")
	}
	return c.instances
}

func TestTheFallbackDividesByWhatTheBackendCounts(t *testing.T) {
	for _, c := range []struct {
		given, counted int
		want           string
	}{
		{0, 0, "ok: 2 of 3/minute"}, {0, 1, "ok: 2 of 3/minute"}, {0, 2, "ok: 1 of 3/minute"},
		{2, 0, "ok: 1 of 3/minute"}, {3, 2, "ok: 0 of 3/minute"}, {2, 9, "ok: 0 of 3/minute"},
		{2, -1, descriptors.ErrUnavailable.Error()},
	} {
		config, err := descriptors.Parse(descriptors.File{Name: "d", Text: []byte("domain: d\n" + plain)})
		if err != nil {
			t.Fatal(err)
		}
		backend := &counting{failing{Backend: memory.MustNew(memory.Options{}), down: true}, c.counted}
		service := descriptors.MustNew(config, descriptors.Options{
			Backend: backend, Instances: c.given, Logger: slog.New(slog.DiscardHandler),
		})
		if got := said(service.Decide(t.Context(), ask(t, "k=secret"))); got != c.want {
			t.Errorf("%d given, %d counted: %s, want %s", c.given, c.counted, got, c.want)
		}
	}
}

func TestACallerThatHasLeftIsNoDecision(t *testing.T) {
	ctx, leave := context.WithCancel(t.Context())
	leave()
	backend := &failing{Backend: memory.MustNew(memory.Options{}), down: true}
	if a, err := newService(t, plain, backend).Decide(ctx, ask(t, "k=1")); !errors.Is(err, context.Canceled) ||
		a.Statuses != nil {
		t.Errorf("%+v, %v", a, err)
	}
}

func metricsOf(s *descriptors.Service) string {
	var b strings.Builder
	for _, m := range s.Metrics() {
		for _, one := range m.Series {
			if one.Value > 0 {
				fmt.Fprintf(&b, "%s %s %v\n", strings.TrimPrefix(m.Name, "weir_descriptor_"),
					strings.Join(one.Labels, " "), one.Value)
			}
		}
	}
	return b.String()
}

func TestMetricsHaveNamesOfTheFile(t *testing.T) {
	service := newService(t, plain+`
  - {key: v, value: "x*", rate_limit: {unit: day, requests_per_unit: 10}}
  - {key: d, detailed_metric: true, rate_limit: {unit: day, requests_per_unit: 9}}
`, nil)
	for _, text := range []string{"k=secret", "k=secret +2", "k=secret", "s=1", "s=1", "u=1", "v=xsecret", "d=shown", "zz=secret", "@other k=1", "@ k=1", "k=1 !1/day", "k=1 +0"} {
		service.Decide(t.Context(), ask(t, text))
	}
	const want = `requests_total d allowed backend 8
requests_total d allowed none 2
requests_total d denied backend 1
hits_total d (override) near 1
hits_total d d_shown within 1
hits_total d k near 2
hits_total d k over 1
hits_total d k within 2
hits_total d s near 1
hits_total d s shadow 1
hits_total d u within 1
hits_total d v_x* within 1
refused_total invalid 1
refused_total unknown domain 1
`
	if got := metricsOf(service); got != want {
		t.Errorf("%s", got)
	}
}

func TestValuesOfRequestsInMetricsAreBounded(t *testing.T) {
	config, err := descriptors.Parse(descriptors.File{
		Name: "d",
		Text: []byte("domain: d\ndescriptors:\n  - key: k\n    value_to_metric: true\n" +
			"    rate_limit: {unit: day, requests_per_unit: 9}\n"),
	})
	if err != nil {
		t.Fatal(err)
	}
	service := descriptors.MustNew(config, descriptors.Options{MaxDetailed: 3})
	for i := range 50 {
		service.Decide(t.Context(), ask(t, fmt.Sprintf("k=%d", i)))
	}
	service.Decide(t.Context(), ask(t, "k="+strings.Repeat("\xff", 2000)))
	got := metricsOf(service)
	if !strings.Contains(got, "d k_2 within 1") || strings.Contains(got, "k_3") ||
		!strings.Contains(got, "d (other) within 48") {
		t.Errorf("%s", got)
	}
}

func TestWhatIsCountedOutlastsAChangeOfTheFile(t *testing.T) {
	service := newService(t, plain, nil)
	service.Decide(t.Context(), ask(t, "k=1"))
	config, err := descriptors.Parse(descriptors.File{
		Name: "d",
		Text: []byte("domain: d\ndescriptors:\n  - {key: k, rate_limit: {unit: minute, requests_per_unit: 5}}\n"),
	})
	if err != nil {
		t.Fatal(err)
	}
	service.Replace(config)
	if got := said(service.Decide(t.Context(), ask(t, "k=1"))); got != "ok: 3 of 5/minute" {
		t.Error(got)
	}
	if got := metricsOf(service); !strings.Contains(got, "hits_total d k within 2") {
		t.Error(got)
	}
}

// A ConfigMap of Kubernetes is a directory of links to files in another directory, whose link is swapped.
func TestAWatcherFollowsSwappedLinks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		write := func(name, text string) {
			t.Helper()
			if err := os.MkdirAll(filepath.Join(dir, name), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, name, "limits.yaml"), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
			os.Remove(filepath.Join(dir, "next"))
			if err := os.Symlink(name, filepath.Join(dir, "next")); err != nil {
				t.Fatal(err)
			}
			if err := os.Rename(filepath.Join(dir, "next"), filepath.Join(dir, "..data")); err != nil {
				t.Fatal(err)
			}
		}
		limit := func(n int) string {
			return fmt.Sprintf(
				"domain: d\ndescriptors:\n  - {key: k, rate_limit: {unit: day, requests_per_unit: %d}}\n", n)
		}
		write("..one", limit(10))
		if err := os.Symlink("..data/limits.yaml", filepath.Join(dir, "limits.yaml")); err != nil {
			t.Fatal(err)
		}
		service, watcher, err := descriptors.NewWatcher([]string{dir}, descriptors.Options{Logger: quiet()})
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- watcher.Run(ctx) }()
		steps := []struct {
			dir, text, want string
			applied, failed int64
		}{
			{"..two", limit(20), "ok: 19 of 20/day", 2, 0},
			{"..three", "domain: d\ndescriptors: 5\n", "ok: 18 of 20/day", 2, 1},
			{"..four", limit(30), "ok: 27 of 30/day", 3, 1},
		}
		for _, step := range steps {
			write(step.dir, step.text)
			time.Sleep(9 * time.Second)
			if got := said(service.Decide(t.Context(), ask(t, "k=1"))); got != step.want {
				t.Errorf("%s: %s", step.dir, got)
			}
			applied, failed := watcher.Loads()
			if _, err := watcher.Failure(); (err != nil) != (step.dir == "..three") || applied != step.applied ||
				failed != step.failed {
				t.Errorf("%s: %v, %d applied, %d failed", step.dir, err, applied, failed)
			}
		}
		stop()
		<-ended
	})
}

func TestAReloadNeedsNoSecondRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "limits.yaml")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const text = "domain: d\ndescriptors:\n  - {key: k, rate_limit: {unit: day, requests_per_unit: %d}}\n"
	write(fmt.Sprintf(text, 10))
	var log strings.Builder
	service, watcher, err := descriptors.NewWatcher([]string{path},
		descriptors.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	write(fmt.Sprintf(text, 20))
	watcher.Reload()
	if got := said(service.Decide(t.Context(), ask(t, "k=1"))); got != "ok: 19 of 20/day" {
		t.Error(got)
	}
	write("domain: d\ndescriptors: 5\n")
	watcher.Reload()
	watcher.Reload()
	if n := strings.Count(log.String(), "not applied"); n != 2 {
		t.Errorf("a mistake that was asked for twice was logged %d times:\n%s", n, &log)
	}
}

const oneDomain = "domain: d\ndescriptors:\n  - {key: k, rate_limit: {unit: day, requests_per_unit: 10}}\n"

// The limits in force would count as removed otherwise.
func TestADirectoryThatLosesItsLimitsIsAMistake(t *testing.T) {
	one, two := t.TempDir(), t.TempDir()
	write := func(dir, name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(one, "limits.yaml", oneDomain)
	write(two, "limits.yaml", strings.Replace(oneDomain, "domain: d", "domain: e", 1))
	write(one, "weir.yaml", "version: 1\nrules: []\n")
	var log strings.Builder
	service, watcher, err := descriptors.NewWatcher([]string{one, two},
		descriptors.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(one, "limits.yaml")); err != nil {
		t.Fatal(err)
	}
	watcher.Reload()
	if got := said(service.Decide(t.Context(), ask(t, "k=1"))); got != "ok: 9 of 10/day" {
		t.Error(got)
	}
	if _, err := watcher.Failure(); err == nil || !strings.Contains(err.Error(), one+": has no file of limits") {
		t.Errorf("got %v, want an error that names %s", err, one)
	}
	write(one, "limits.yaml", oneDomain)
	watcher.Reload()
	if _, err := watcher.Failure(); err != nil {
		t.Error(err)
	}
}

func TestAPolicyFileThatComesBesideLimitsIsLogged(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "limits.yaml"), []byte(oneDomain), 0o600); err != nil {
		t.Fatal(err)
	}
	var log strings.Builder
	_, watcher, err := descriptors.NewWatcher([]string{dir},
		descriptors.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(dir, "weir.yaml")
	if err := os.WriteFile(name, []byte("version: 1\ndomain: d\nrules: []\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	watcher.Reload()
	watcher.Reload()
	if got := log.String(); strings.Count(got, "level=WARN") != 1 || !strings.Contains(got, name) ||
		!strings.Contains(got, "restart") {
		t.Errorf("want one line about %s:\n%s", name, got)
	}
	if _, err := watcher.Failure(); err != nil {
		t.Error(err)
	}
}

// A field too many makes a policy no file of limits: its own mistakes are told.
func TestADirectoryIsSortedByWhatItsFilesAre(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"a.yaml": oneDomain, "b.yaml": "domain: e\n", "c.yaml": "rules: []\n", "d.yaml": "domain: f\nrules: []\n",
		"e.yaml": "domain: g\ndescriptors: []\nrules: []\n", "f.yaml": "rules: [\n", "g.txt": "rules: []\n",
		"h.yaml": "version: 1\nrulse: []\n", "i.yaml": "",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	limits, policies, err := descriptors.Sort(dir)
	got := strings.ReplaceAll(fmt.Sprint(limits, policies, err), dir+string(filepath.Separator), "")
	if got != "[a.yaml b.yaml e.yaml i.yaml] [c.yaml d.yaml f.yaml h.yaml] <nil>" {
		t.Error(got)
	}
	if _, _, err := descriptors.Sort(filepath.Join(dir, "a.yaml")); err == nil {
		t.Error("a file is no directory")
	}
}

func TestAConfigurationHasItsMistakesReported(t *testing.T) {
	if _, err := descriptors.New(nil, descriptors.Options{Instances: -1, MaxDetailed: -1}); err == nil ||
		strings.Count(err.Error(), "\n") != 2 {
		t.Error(err)
	}
	if _, err := descriptors.Load(t.TempDir()); err == nil {
		t.Error("a directory without files")
	}
	if _, err := descriptors.Load("/dev/zero"); err == nil {
		t.Error("a device")
	}
}

func FuzzParse(f *testing.F) {
	for _, text := range loading(f) {
		f.Add(text)
	}
	schema := jsonschema.Parse(f, descriptors.Schema())
	f.Fuzz(func(t *testing.T, text string) {
		config, err := descriptors.Parse(descriptors.File{Name: "f", Text: []byte(text)})
		if err != nil {
			if len(descriptors.Mistakes(err)) == 0 {
				t.Errorf("no mistake: %v", err)
			}
			return
		}
		if why := schema.Validate("f", read(t, text)); why != "" {
			t.Errorf("loads, but by the schema %s: %q", why, text)
		}
		service := descriptors.MustNew(config, descriptors.Options{
			Backend:  memory.MustNew(memory.Options{MaxKeys: 1000}),
			Fallback: memory.MustNew(memory.Options{MaxKeys: 1000}),
		})
		for _, domain := range config.Domains() {
			service.Decide(t.Context(), &descriptors.Request{Domain: domain, Descriptors: []descriptors.Descriptor{
				{Entries: []descriptors.Entry{{Key: "a", Value: "1"}, {Key: "b", Value: "x"}}},
				{Entries: []descriptors.Entry{{Key: "k", Value: "f/x"}}},
			}})
		}
	})
}

// Two a minute by unit, and a bucket of one in ten seconds.
func TestADeniedRequestIsPromisedATurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // begins with a minute
		config, err := descriptors.Parse(descriptors.File{Name: "d.yaml", Text: []byte(`domain: d
descriptors:
  - key: window
    rate_limit: {unit: minute, requests_per_unit: 2}
  - key: bucket
    rate_limit: {algorithm: token-bucket 6/minute burst 1}
  - key: wide
    rate_limit: {algorithm: token-bucket 12/minute burst 4}
  - key: shadow
    rate_limit: {unit: day, requests_per_unit: 0}
    shadow_mode: true
`)})
		if err != nil {
			t.Fatal(err)
		}
		s := descriptors.MustNew(config, descriptors.Options{MaxPromise: 2 * time.Hour})
		plain := descriptors.MustNew(config, descriptors.Options{})
		for _, tt := range []struct{ text, want string }{
			{"window=1", "0s 0s 1m0s 1m0s 2m0s 2m0s"},
			{"bucket=1 ; shadow=1", "0s 10s 20s 30s 40s 50s"},
			{"window=2 ; bucket=2", "0s 10s 1m0s 1m0s 2m0s 2m0s"},
			{"bucket=3 +2", "0s 0s 0s 0s 0s 0s"}, // never fits
			{"window=3 ; window=3", "0s 1m0s 2m0s 3m0s 4m0s 5m0s"},
			{"window=4 +2 ; window=4", "0s 0s 0s 0s 0s 0s"}, // never fits, together
			{"wide=1 ; wide=1", "0s 0s 5s 15s 25s 35s"},
		} {
			got := ""
			for range 6 {
				for _, service := range []*descriptors.Service{s, plain} {
					a, err := service.Decide(t.Context(), ask(t, tt.text))
					if err != nil {
						t.Fatal(err)
					}
					if service == s {
						got += " " + a.Turn.String()
					} else if a.Turn != 0 {
						t.Errorf("%s: %v without promises", tt.text, a.Turn)
					}
				}
			}
			if got[1:] != tt.want {
				t.Errorf("%s: turns %s, want %s", tt.text, got[1:], tt.want)
			}
		}
	})
}
