package descriptors_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/weir-go/weir/gateway/descriptors"
	"github.com/weir-go/weir/memory"
	"github.com/weir-go/weir/remote"
)

const observed = `
descriptors:
  - {key: two, rate_limit: {unit: minute, requests_per_unit: 2}}
  - {key: ten, rate_limit: {unit: minute, requests_per_unit: 10}}
  - {key: path, value: /orders*, rate_limit: {unit: minute, requests_per_unit: 5}}
  - {key: named, detailed_metric: true, rate_limit: {unit: minute, requests_per_unit: 3}}
  - {key: shadow, shadow_mode: true, rate_limit: {unit: minute, requests_per_unit: 1}}
  - {key: quota, quota_mode: true, rate_limit: {unit: minute, requests_per_unit: 1}}
  - {key: flight, rate_limit: {algorithm: concurrent 1, hold_time: 1m, holder: id}}
  - {key: free, rate_limit: {unlimited: true}}
  - {key: both, rate_limits: [{unit: second, requests_per_unit: 9}, {algorithm: sliding-window 1/10s}]}
`

// tellsOf returns the texts of events.
func tellsOf(e descriptors.Event) string {
	if e.Err != nil {
		return fmt.Sprintf("%q: %v", e.Domain, e.Err)
	}
	verdict := "ok"
	switch {
	case e.Over && e.Shadowed:
		verdict = "both"
	case e.Over:
		verdict = "over"
	case e.Shadowed:
		verdict = "shadow"
	}
	return strings.TrimSpace(fmt.Sprintf("%s %s by %v", verdict, e.Rule, e.Source))
}

func TestAnEventNamesTheRuleThatBindsAndWhoDecided(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		config, err := descriptors.Parse(descriptors.File{Name: "d.yaml", Text: []byte("domain: d\n" + observed)})
		if err != nil {
			t.Fatal(err)
		}
		b := &distant{Memory: memory.MustNew(memory.Options{})}
		var events []descriptors.Event
		service := descriptors.MustNew(config, descriptors.Options{
			Backend: remote.MustNewDenialCache(b, remote.DenialCacheOptions{}), Logger: quiet(),
			Observe: func(_ context.Context, e descriptors.Event) { events = append(events, e) },
		})
		for i, step := range []struct{ request, want string }{
			{"two=secret", "ok two by primary"},
			{"ten=1 ; two=secret", "ok two by primary"}, // has less left
			{"two=secret", "over two by primary"},
			{"two=secret", "over two by denial-cache"},
			{"two=secret ; ten=1", "over two by denial-cache"},
			{"path=/orders/7", "ok path_/orders* by primary"},
			{"named=secret", "ok named by primary"},
			{"shadow=1", "ok shadow by primary"},
			{"shadow=1", "shadow shadow by primary"},
			{"ten=1 ; shadow=1", "shadow shadow by denial-cache"},
			{"shadow=1 ; two=secret", "over two by denial-cache"},
			{"quota=1 *2", "over quota by primary"},
			{"quota=1 ; quota=2", "ok quota by denial-cache"}, // one quota is left
			{"flight=1 id=a", "ok flight by primary"},
			{"flight=1 id=b", "over flight by primary"},
			{"flight=1 id=a -1", "ok flight by not-asked"},
			{"free=1", "ok free by not-asked"},
			{"free=1 ; ten=1", "ok ten by primary"},
			{"both=1", "ok both by primary"},
			{"both=1", "over both by primary"},
			{"both=1", "over both by denial-cache"},
			{"two=9 !1/minute", "ok (override) by primary"},
			{"two=8 -1", "ok two by primary"},
			{"unknown=secret", "ok  by not-asked"},
			{"@else two=1", "ok  by not-asked"},
			{"=1", `"d": descriptor 0 has an empty key`},
		} {
			events = nil
			_, err := service.Decide(t.Context(), ask(t, step.request))
			if len(events) != 1 || tellsOf(events[0]) != step.want || events[0].Err != err {
				t.Errorf("step %d, %s: %v, %+v; want %s", i, step.request, err, events, step.want)
			}
			for _, e := range events {
				if e.Domain != "d" && !strings.HasPrefix(step.request, "@") || e.Domain == "else" ||
					strings.Contains(fmt.Sprint(e), "secret") {
					t.Errorf("step %d, %s: %+v", i, step.request, e)
				}
			}
		}
	})
}

func TestAnEventTellsOfAFailure(t *testing.T) {
	for _, c := range []struct{ file, want string }{
		{plain, "ok k by fallback"},
		{"on_failure: open\n" + plain, "ok k by open"},
		{"on_failure: closed\n" + plain, `"d": ` + descriptors.ErrUnavailable.Error()},
	} {
		config, err := descriptors.Parse(descriptors.File{Name: "d", Text: []byte("domain: d\n" + c.file)})
		if err != nil {
			t.Fatal(err)
		}
		var events []descriptors.Event
		service := descriptors.MustNew(config, descriptors.Options{
			Backend: &failing{Backend: memory.MustNew(memory.Options{}), down: true}, Logger: quiet(),
			Observe: func(_ context.Context, e descriptors.Event) { events = append(events, e) },
		})
		service.Decide(t.Context(), ask(t, "k=secret"))
		if len(events) != 1 || tellsOf(events[0]) != c.want {
			t.Errorf("%q: %+v, want %s", c.file, events, c.want)
		}
	}
}

// What a request costs on which no one has an eye, and what an event adds.
func BenchmarkDecide(b *testing.B) {
	config, err := descriptors.Parse(descriptors.File{Name: "d.yaml", Text: []byte("domain: d\n" + observed)})
	if err != nil {
		b.Fatal(err)
	}
	observe := func(context.Context, descriptors.Event) {}
	for name, o := range map[string]descriptors.Options{"unobserved": {}, "observed": {Observe: observe}} {
		b.Run(name, func(b *testing.B) {
			service := descriptors.MustNew(config, o)
			r := &descriptors.Request{Domain: "d", Descriptors: []descriptors.Descriptor{
				{Entries: []descriptors.Entry{{Key: "ten", Value: "1"}}},
				{Entries: []descriptors.Entry{{Key: "path", Value: "/orders/7"}}},
			}}
			b.ReportAllocs()
			for b.Loop() {
				if _, err := service.Decide(b.Context(), r); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
