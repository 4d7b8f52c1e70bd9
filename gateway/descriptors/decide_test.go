package descriptors_test

import (
	"context"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/gateway/descriptors"
	"github.com/weir-go/weir/internal/proof/testrun"
	"github.com/weir-go/weir/limits/backends"
)

// The texts of requests: entries key=value; "+2" hits, "-2" hits to be refunded, "!5/minute" or "!5/10minute" a
// limit that comes with the descriptor; ";" between descriptors; "*2" in front, hits of the request.
func ask(t *testing.T, text string) *descriptors.Request {
	t.Helper()
	r := &descriptors.Request{Domain: "d", Descriptors: make([]descriptors.Descriptor, 1)}
	units := map[string]descriptors.Unit{
		"second": descriptors.Second,
		"minute": descriptors.Minute,
		"hour":   descriptors.Hour,
		"day":    descriptors.Day,
		"week":   descriptors.Week,
		"month":  descriptors.Month,
		"year":   descriptors.Year,
	}
	number := func(s string) uint64 {
		n, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	for _, word := range strings.Fields(text) {
		d := &r.Descriptors[len(r.Descriptors)-1]
		switch word[0] {
		case ';':
			r.Descriptors = append(r.Descriptors, descriptors.Descriptor{})
		case '@':
			r.Domain = word[1:]
		case '*':
			r.Hits = number(word[1:])
		case '+', '-':
			n := number(word[1:])
			d.Hits, d.Refund = &n, word[0] == '-'
		case '!':
			n, unit, _ := strings.Cut(word[1:], "/")
			many := strings.TrimRight(unit, "acdehikmnorstuwy")
			d.Limit = &descriptors.Override{RequestsPerUnit: uint32(number(n)), Unit: units[unit[len(many):]]}
			if many != "" {
				d.Limit.Multiplier = uint32(number(many))
			}
		default:
			key, value, _ := strings.Cut(word, "=")
			d.Entries = append(d.Entries, descriptors.Entry{Key: key, Value: value})
		}
	}
	return r
}

// The texts of answers: what all come to, and a status for each descriptor.
func said(a descriptors.Answer, err error) string {
	if err != nil {
		return err.Error()
	}
	words := map[bool]string{false: "ok", true: "OVER"}
	var all []string
	for _, s := range a.Statuses {
		text := ""
		if s.Over != a.Over || s.Over && len(a.Statuses) > 1 {
			text = words[s.Over] + " "
		}
		switch {
		case s.Unlimited:
			text += "unlimited"
		case s.Limit == nil:
			text += "-"
		default:
			text += fmt.Sprintf("%d of %d/", s.Remaining, s.Limit.RequestsPerUnit)
			if s.Limit.Multiplier > 1 {
				text += fmt.Sprint(s.Limit.Multiplier)
			}
			text += s.Limit.Unit.String()
		}
		if s.Shadowed {
			text += " shadow"
		}
		all = append(all, text)
	}
	return words[a.Over] + ": " + strings.Join(all, ", ")
}

func newService(t *testing.T, text string, b backends.Backend) *descriptors.Service {
	t.Helper()
	config, err := descriptors.Parse(descriptors.File{Name: "d.yaml", Text: []byte("domain: d\n" + text)})
	if err != nil {
		t.Fatal(err)
	}
	return descriptors.MustNew(config, descriptors.Options{Backend: b, Logger: slog.New(slog.DiscardHandler)})
}

const (
	nested = `
descriptors:
  - key: a
    value: "1"
    rate_limit: {unit: minute, requests_per_unit: 1}
    descriptors:
      - {key: b, rate_limit: {unit: minute, requests_per_unit: 2}}
      - {key: b, value: x, rate_limit: {unit: minute, requests_per_unit: 3}}
  - key: a
    rate_limit: {unit: minute, requests_per_unit: 4}
    descriptors:
      - {key: b, rate_limit: {unit: minute, requests_per_unit: 5}}
      - {key: c, rate_limit: {unit: minute, requests_per_unit: 6}}
  - {key: a, value: bare}
  - {key: "n", value: 50.0.0.5, rate_limit: {unit: second, requests_per_unit: 0}}
  - {key: "n", rate_limit: {unit: second, requests_per_unit: 10}}
`
	wild = `
descriptors:
  - {key: p, value: /api/*, rate_limit: {unit: minute, requests_per_unit: 1}}
  - {key: p, value: "/api/v*", rate_limit: {unit: minute, requests_per_unit: 2}}
  - {key: p, value: "/x/*/y/*/z", rate_limit: {unit: minute, requests_per_unit: 3}}
  - {key: p, value: "*.png", rate_limit: {unit: minute, requests_per_unit: 4}}
  - {key: p, value: /api/exact, rate_limit: {unit: minute, requests_per_unit: 5}}
  - {key: p, value: "ab*ba", rate_limit: {unit: minute, requests_per_unit: 6}}
  - {key: p, rate_limit: {unit: minute, requests_per_unit: 7}}
  - {key: s, value: "f/*", share_threshold: true, rate_limit: {unit: minute, requests_per_unit: 2}}
  - {key: i, value: "f/*", rate_limit: {unit: minute, requests_per_unit: 2}}
  - key: t
    value: "f/*"
    share_threshold: true
    descriptors:
      - {key: m, rate_limit: {unit: minute, requests_per_unit: 2}}
`
	plain = `
descriptors:
  - {key: k, rate_limit: {unit: minute, requests_per_unit: 3}}
  - {key: z, rate_limit: {unit: minute, requests_per_unit: 0}}
  - {key: u, rate_limit: {unlimited: true}}
  - {key: s, shadow_mode: true, rate_limit: {unit: minute, requests_per_unit: 1}}
  - {key: w, rate_limit: {unit: week, requests_per_unit: 2}}
  - {key: e, value: "", rate_limit: {name: "", unit: MINUTE, requests_per_unit: 9}}
`
	multiplied = `
descriptors:
  - {key: k, rate_limit: {unit: minute, unit_multiplier: 10, requests_per_unit: 2}}
  - {key: m, rate_limit: {unit: month, unit_multiplier: 2, requests_per_unit: 1}}
`
	named = `
descriptors:
  - {key: slow, rate_limit: {name: slow, unit: minute, requests_per_unit: 1}}
  - {key: fast, rate_limit: {unit: minute, requests_per_unit: 9, replaces: [{name: slow}, {name: other}]}}
  - {key: free, rate_limit: {unlimited: true, replaces: [{name: slow}]}}
`
	quotas = `
descriptors:
  - {key: q, quota_mode: true, rate_limit: {unit: minute, requests_per_unit: 1}}
  - {key: r, quota_mode: true, rate_limit: {unit: minute, requests_per_unit: 2}}
  - {key: k, rate_limit: {unit: minute, requests_per_unit: 3}}
`
	several = `
descriptors:
  - key: k
    rate_limits:
      - {unit: second, requests_per_unit: 2}
      - {unit: minute, requests_per_unit: 3}
  - {key: w, rate_limit: {algorithm: sliding-window 2/30s}}
  - {key: b, rate_limit: {algorithm: token-bucket 2/minute}}
  - {key: huge, rate_limit: {algorithm: fixed-window 1000000000/day}}
`
	together = `
all_or_nothing: true
descriptors:
  - {key: k, rate_limit: {unit: minute, requests_per_unit: 3}}
  - {key: l, rate_limit: {unit: minute, requests_per_unit: 1}}
  - {key: z, rate_limit: {unit: minute, requests_per_unit: 0}}
  - {key: s, shadow_mode: true, rate_limit: {unit: minute, requests_per_unit: 1}}
`
)

type example struct {
	name, file string
	steps      []string // request, answer, and "wait 30s"
}

// cases are written from the public documents of Envoy and of github.com/envoyproxy/ratelimit, those of
// several and together from the documentation of this package. Steps of a case follow each other.
var cases = []example{
	{"an exact pair comes before its key", nested, []string{"a=1", "ok: 0 of 1/minute"}},
	{"the key alone is for other values", nested, []string{"a=2", "ok: 3 of 4/minute"}},
	{"each value counts by itself", nested, []string{
		"a=2", "ok: 3 of 4/minute", "a=3", "ok: 3 of 4/minute", "a=2", "ok: 2 of 4/minute",
	}},
	{"an exact pair below an exact pair", nested, []string{"a=1 b=x", "ok: 2 of 3/minute"}},
	{"a key below an exact pair", nested, []string{"a=1 b=y", "ok: 1 of 2/minute"}},
	{"a key below a key", nested, []string{"a=2 b=y", "ok: 4 of 5/minute"}},
	{"an exact pair hides what is below its key", nested, []string{"a=1 c=y", "ok: -"}},
	{"an exact pair without a limit hides its key", nested, []string{"a=bare", "ok: -", "a=bare b=1", "ok: -"}},
	{"more entries than levels match nothing", nested, []string{"a=2 b=y c=z", "ok: -"}},
	{"fewer entries than levels count on their own level", nested, []string{
		"a=1", "ok: 0 of 1/minute", "a=1", "OVER: 0 of 1/minute", "a=1 b=x", "ok: 2 of 3/minute",
	}},
	{"the order of entries matters", nested, []string{"b=x a=1", "ok: -"}},
	{"an unknown key", nested, []string{"zz=1", "ok: -"}},
	{"keys and values have cases", nested, []string{"A=1", "ok: -", "a=1 b=X", "ok: 1 of 2/minute"}},
	{"an empty value is a value", nested, []string{"a=", "ok: 3 of 4/minute"}},
	{"a limit of 0 denies", nested, []string{
		"n=50.0.0.5", "OVER: 0 of 0/second", "n=50.0.0.1", "ok: 9 of 10/second",
	}},
	{"an unknown domain", nested, []string{"@other a=1", "ok: -"}},
	{"an empty domain", nested, []string{"@ a=1", "rate limit domain must not be empty"}},

	{"an exact pair comes before wildcards", wild, []string{"p=/api/exact", "ok: 4 of 5/minute"}},
	{"wildcards go by the order of the file", wild, []string{"p=/api/v1", "ok: 0 of 1/minute"}},
	{"a wildcard matches no letters", wild, []string{"p=/api/", "ok: 0 of 1/minute"}},
	{"a wildcard is no part of a shorter text", wild, []string{"p=/api", "ok: 6 of 7/minute"}},
	{"two stars", wild, []string{
		"p=/x/1/y/2/z", "ok: 2 of 3/minute", "p=/x//y//z", "ok: 2 of 3/minute",
		"p=/x/1/2/z", "ok: 6 of 7/minute",
	}},
	{"two stars take the middle where it first fits", wild, []string{"p=/x/1/y/3/y/z", "ok: 2 of 3/minute"}},
	{"a star in front", wild, []string{"p=logo.png", "ok: 3 of 4/minute", "p=.png", "ok: 3 of 4/minute"}},
	{"beginning and end do not overlap", wild, []string{
		"p=aba", "ok: 6 of 7/minute", "p=abba", "ok: 5 of 6/minute",
	}},
	{"a wildcard comes before the key", wild, []string{"p=/other", "ok: 6 of 7/minute"}},
	{"a value with a star is a text in a request", wild, []string{"p=/api/*", "ok: 0 of 1/minute"}},
	{"values of a wildcard count by themselves", wild, []string{
		"i=f/a", "ok: 1 of 2/minute", "i=f/b", "ok: 1 of 2/minute",
	}},
	{"share_threshold counts them together", wild, []string{
		"s=f/a", "ok: 1 of 2/minute", "s=f/b", "ok: 0 of 2/minute", "s=f/c", "OVER: 0 of 2/minute",
	}},
	{"share_threshold holds for what is below", wild, []string{
		"t=f/a m=x", "ok: 1 of 2/minute", "t=f/b m=x", "ok: 0 of 2/minute", "t=f/b m=y", "ok: 1 of 2/minute",
	}},

	{"hits of a request are 1 unless set", plain, []string{"k=1", "ok: 2 of 3/minute"}},
	{"hits of a request", plain, []string{"*2 k=1", "ok: 1 of 3/minute"}},
	{"hits of a descriptor come first", plain, []string{"*3 k=1 +2 ; k=2", "ok: 1 of 3/minute, 0 of 3/minute"}},
	{"hits above the limit are over", plain, []string{"*4 k=1", "OVER: 0 of 3/minute"}},
	{"what is over counts", plain, []string{
		"*2 k=1", "ok: 1 of 3/minute", "*2 k=1", "OVER: 0 of 3/minute", "k=1", "OVER: 0 of 3/minute",
	}},
	{"a window over its limit owes the next nothing", plain, []string{
		"k=1 +900", "OVER: 0 of 3/minute", "wait 60s", "", "k=1", "ok: 2 of 3/minute",
	}},
	{"0 hits charge nothing", plain, []string{"k=1 +0", "ok: 3 of 3/minute", "k=1 +0", "ok: 3 of 3/minute"}},
	{"a window that is exactly full passes a check", plain, []string{
		"k=1 +3", "ok: 0 of 3/minute", "k=1 +0", "ok: 0 of 3/minute",
	}},
	{"a window that is over does not", plain, []string{
		"k=1 +4", "OVER: 0 of 3/minute", "k=1 +0", "OVER: 0 of 3/minute",
	}},
	{"check at the request, charge at the end", plain, []string{
		"k=1 +0", "ok: 3 of 3/minute", "k=1 +100", "OVER: 0 of 3/minute", "k=1 +0", "OVER: 0 of 3/minute",
		"wait 60s", "", "k=1 +0", "ok: 3 of 3/minute",
	}},
	{"a limit of 0 passes a check", plain, []string{
		"z=1 +0", "ok: 0 of 0/minute", "z=1", "OVER: 0 of 0/minute", "z=1 +0", "OVER: 0 of 0/minute",
	}},
	{"an empty value in the file is no value", plain, []string{"e=1", "ok: 8 of 9/minute"}},
	{"unlimited", plain, []string{"u=1", "ok: unlimited", "u=1 +1000000", "ok: unlimited"}},
	{"a shadow is ok", plain, []string{"s=1", "ok: 0 of 1/minute", "s=1", "ok: 0 of 1/minute shadow"}},
	{"one over is over", plain, []string{
		"k=1 +3", "ok: 0 of 3/minute", "k=1 ; k=2", "OVER: OVER 0 of 3/minute, ok 2 of 3/minute",
	}},
	{"descriptors count apart", plain, []string{
		"z=1 ; k=2", "OVER: OVER 0 of 0/minute, ok 2 of 3/minute", "k=2 +0", "ok: 2 of 3/minute",
	}},
	{"the same descriptor twice is charged in order", plain, []string{
		"k=1 ; k=1", "ok: 2 of 3/minute, 1 of 3/minute",
		"k=1 ; k=1", "OVER: ok 0 of 3/minute, OVER 0 of 3/minute",
	}},
	{"descriptors with and without a limit", plain, []string{
		"zz=1 ; u=1 ; k=1", "ok: -, unlimited, 2 of 3/minute",
	}},
	{"a week", plain, []string{
		"w=1 +2", "ok: 0 of 2/week", "w=1", "OVER: 0 of 2/week", "wait 168h", "", "w=1", "ok: 1 of 2/week",
	}},
	{"a refund", plain, []string{
		"k=1 +3", "ok: 0 of 3/minute", "k=1 -2", "ok: 2 of 3/minute", "k=1 +2", "ok: 0 of 3/minute",
	}},
	{"a refund of a window that is over", plain, []string{
		"k=1 +10", "OVER: 0 of 3/minute", "k=1 -6", "OVER: 0 of 3/minute", "k=1 -2", "ok: 1 of 3/minute",
	}},
	{"a refund of more than was charged", plain, []string{
		"k=1", "ok: 2 of 3/minute", "k=1 -100", "ok: 3 of 3/minute", "k=1 -100", "ok: 3 of 3/minute",
	}},
	{"a refund of nothing", plain, []string{"k=1 -1", "ok: 3 of 3/minute", "k=1 -0", "ok: 3 of 3/minute"}},
	{"a refund does not reach the window before", plain, []string{
		"k=1 +3", "ok: 0 of 3/minute", "wait 60s", "", "k=1 +2", "ok: 1 of 3/minute",
		"k=1 -3", "ok: 3 of 3/minute",
	}},
	{"a refund beside a charge", plain, []string{
		"k=1 +3", "ok: 0 of 3/minute", "k=1 -2 ; k=2", "ok: 2 of 3/minute, 2 of 3/minute",
	}},
	{"a refund does not help a charge before it", plain, []string{
		"k=1 +3", "ok: 0 of 3/minute", "k=1 ; k=1 -2", "OVER: OVER 0 of 3/minute, ok 1 of 3/minute",
	}},
	{"a refund helps a charge after it", plain, []string{
		"k=1 +3", "ok: 0 of 3/minute", "k=1 -2 ; k=1", "ok: 2 of 3/minute, 1 of 3/minute",
	}},
	{"a limit of the request", plain, []string{"k=1 !5/minute", "ok: 4 of 5/minute"}},
	{"a limit of the request shares its count", plain, []string{
		"k=1", "ok: 2 of 3/minute", "k=1 !5/minute", "ok: 3 of 5/minute", "k=1", "ok: 0 of 3/minute",
	}},
	{"a limit of the request of another unit does not", plain, []string{
		"k=1", "ok: 2 of 3/minute", "k=1 !5/hour", "ok: 4 of 5/hour",
	}},
	{"a limit of the request needs no descriptor in the file", plain, []string{
		"zz=1 yy=2 !1/hour", "ok: 0 of 1/hour", "zz=1 yy=2 !1/hour", "OVER: 0 of 1/hour",
	}},
	{"a limit of the request is no shadow", plain, []string{
		"s=1 !1/hour", "ok: 0 of 1/hour", "s=1 !1/hour", "OVER: 0 of 1/hour",
	}},
	{"a limit of the request limits what is unlimited", plain, []string{"u=1 !1/hour", "ok: 0 of 1/hour"}},
	{"a limit of the request in an unknown domain", plain, []string{"@other k=1 !1/hour", "ok: -"}},
	{"a limit of the request by several units", plain, []string{
		"k=1 !10/60second +10", "ok: 0 of 10/60second", "wait 59s", "", "k=1 !10/60second", "OVER: 0 of 10/60second",
		"wait 1s", "", "k=1 !10/60second", "ok: 9 of 10/60second", "k=1", "ok: 2 of 3/minute",
	}},
	{"one unit is the unit", plain, []string{"k=1", "ok: 2 of 3/minute", "k=1 !5/1minute", "ok: 3 of 5/minute"}},
	{"a limit by several units", multiplied, []string{
		"k=1 +2", "ok: 0 of 2/10minute", "wait 599s", "", "k=1", "OVER: 0 of 2/10minute",
		"wait 1s", "", "k=1", "ok: 1 of 2/10minute", "k=1 !5/10minute", "ok: 3 of 5/10minute",
		"m=1", "ok: 0 of 1/2month", "wait 1h", "", "m=1", "OVER: 0 of 1/2month",
		"wait 1440h", "", "m=1", "ok: 0 of 1/2month",
	}},
	{"a descriptor that breaks the protocol leaves the others counted", plain, []string{
		"k=1 !5/none ; k=1", "ok: -, 2 of 3/minute", "=x ; k=1", "ok: -, 1 of 3/minute",
		"k=1 ;", "ok: 0 of 3/minute, -", "k=1 !5/2year ; k=1", "OVER: ok -, OVER 0 of 3/minute",
	}},
	{"a limit above the highest is the highest", plain, []string{
		"k=1 !4294967295/minute", "ok: 499999998 of 4294967295/minute",
		"k=1 !4294967295/minute +499999998", "ok: 0 of 4294967295/minute",
		"k=1 !4294967295/minute", "OVER: 0 of 4294967295/minute",
	}},
	{"the highest limit and addend", plain, []string{
		"k=1 +1000000000", "OVER: 0 of 3/minute", "k=1 !499999999/minute", "OVER: 0 of 499999999/minute",
		"k=1 +1000000000 ; k=1 +1000000000 ; k=2", "OVER: OVER 0 of 3/minute, OVER 0 of 3/minute, ok 2 of 3/minute",
	}},

	{"a window without room is over, though a part fits", plain, []string{
		"k=1 +500000000 ; k=2", "OVER: OVER 0 of 3/minute, ok 2 of 3/minute", "k=1", "OVER: 0 of 3/minute",
		"k=1 +1 ; k=1 +499999999", "OVER: OVER 0 of 3/minute, OVER 0 of 3/minute",
	}},
	{"an addend above every limit is over, and counts", plain, []string{
		"k=1 +18446744073709551615", "OVER: 0 of 3/minute", "k=1 +0", "OVER: 0 of 3/minute",
		"*4294967295 k=2 !499999999/minute", "OVER: 0 of 499999999/minute",
		"k=2 -18446744073709551615", "ok: 3 of 3/minute", "u=1 +18446744073709551615", "ok: unlimited",
	}},
	{"an addend above every algorithm is over", several, []string{
		"huge=1 +18446744073709551615", "OVER: 0 of 1000000000/day",
		"huge=1 +1000000000", "ok: 0 of 1000000000/day",
	}},
	{"an addend above every limit, all or nothing", together, []string{
		"k=1 +18446744073709551615 ; k=1 +18446744073709551615", "OVER: OVER 0 of 3/minute, OVER 0 of 3/minute",
		"k=1", "ok: 2 of 3/minute",
	}},

	{"what is replaced is uncharged", named, []string{
		"slow=1 ; fast=1", "ok: -, 8 of 9/minute", "slow=1", "ok: 0 of 1/minute",
	}},
	{"what is replaced, in the other order", named, []string{"fast=1 ; slow=1", "ok: 8 of 9/minute, -"}},
	{"unlimited replaces, too", named, []string{"slow=1 ; free=1", "ok: -, unlimited"}},
	{"all of a name are replaced", named, []string{"slow=1 ; slow=2 ; fast=1", "ok: -, -, 8 of 9/minute"}},

	{"a quota that is over lets others pass", quotas, []string{
		"q=1 ; r=1", "ok: 0 of 1/minute, 1 of 2/minute", "q=1 ; r=1", "ok: OVER 0 of 1/minute, 0 of 2/minute",
	}},
	{"all quotas over are over", quotas, []string{
		"q=1 ; r=1", "ok: 0 of 1/minute, 1 of 2/minute", "q=1 ; r=1", "ok: OVER 0 of 1/minute, 0 of 2/minute",
		"q=1 ; r=1", "OVER: OVER 0 of 1/minute, OVER 0 of 2/minute",
	}},
	{"a quota and a limit that is over", quotas, []string{
		"q=1 ; k=1 +9", "OVER: ok 0 of 1/minute, OVER 0 of 3/minute",
	}},
	{"one quota over, and a limit that is not", quotas, []string{
		"q=1 +2 ; k=1", "OVER: OVER 0 of 1/minute, ok 2 of 3/minute",
	}},

	{"several limits of one descriptor", several, []string{
		"k=1", "ok: 1 of 2/second", "k=1", "ok: 0 of 2/second", "k=1", "OVER: 0 of 2/second", "wait 1s", "",
		"k=1", "OVER: 0 of 3/minute",
	}},
	{"an algorithm takes nothing from what it denies", several, []string{
		"w=1 +3", "OVER: 0 of 2/unknown", "w=1 +2", "ok: 0 of 2/unknown", "w=1 +0", "OVER: 0 of 2/unknown",
	}},
	{"an algorithm, twice in one request", several, []string{
		"w=1", "ok: 1 of 2/unknown", "w=1 ; w=1", "OVER: ok 0 of 2/unknown, OVER 0 of 2/unknown",
	}},
	{"a bucket refills", several, []string{
		"b=1 +2", "ok: 0 of 2/minute", "wait 30s", "", "b=1", "ok: 0 of 2/minute", "b=1", "OVER: 0 of 2/minute",
	}},
	{"an algorithm beside a limit by unit", several, []string{
		"w=1 +2 ; k=1", "ok: 0 of 2/unknown, 1 of 2/second",
		"w=1 ; k=1", "OVER: OVER 0 of 2/unknown, ok 0 of 2/second",
	}},

	{"a window is charged in order beside an algorithm that is charged twice", several, []string{
		"b=1 ; b=1 ; k=1 ; k=1", "ok: 1 of 2/minute, 0 of 2/minute, 1 of 2/second, 0 of 2/second",
	}},
	{"a refund beside an algorithm that is charged twice", several, []string{
		"k=1 +2", "ok: 0 of 2/second",
		"w=1 ; w=1 ; k=1 ; k=1 -2",
		"OVER: ok 1 of 2/unknown, ok 0 of 2/unknown, OVER 0 of 2/second, ok 1 of 2/second",
	}},
	{"a limit of the request hides none that is over", several, []string{
		"k=1 +2", "ok: 0 of 2/second",
		"w=1 ; w=1 ; k=1 ; k=1 !9/second",
		"OVER: ok 1 of 2/unknown, ok 0 of 2/unknown, OVER 0 of 2/second, ok 5 of 9/second",
	}},
	{"all or nothing", together, []string{
		"k=1 ; l=1", "ok: 2 of 3/minute, 0 of 1/minute",
		"k=1 ; l=1", "OVER: ok 2 of 3/minute, OVER 0 of 1/minute", "k=1", "ok: 1 of 3/minute",
	}},
	{"all or nothing, with a limit of 0", together, []string{
		"k=1 ; z=1", "OVER: ok 3 of 3/minute, OVER 0 of 0/minute", "k=1", "ok: 2 of 3/minute",
		"z=1 +0", "OVER: 0 of 0/minute",
	}},
	{"all or nothing, with a shadow", together, []string{
		"k=1 ; s=1", "ok: 2 of 3/minute, 0 of 1/minute", "k=1 ; s=1", "ok: 1 of 3/minute, 0 of 1/minute shadow",
	}},
	{"all or nothing, twice in one request", together, []string{
		"k=1 +2 ; k=1 +2", "OVER: OVER 0 of 3/minute, OVER 0 of 3/minute", "k=1", "ok: 2 of 3/minute",
	}},
}

func TestAnswersAreThoseOfTheDocuments(t *testing.T) {
	runInMemory(t, cases)
	if len(cases) < 60 {
		t.Errorf("%d cases", len(cases))
	}
}

func TestAnswersOfRedisAreTheSame(t *testing.T) {
	runInRedis(t, cases)
}

func runInMemory(t *testing.T, examples []example) {
	for _, c := range examples {
		synctest.Test(t, func(t *testing.T) { c.run(t, newService(t, c.file, nil)) })
	}
}

func runInRedis(t *testing.T, examples []example) {
	testrun.NeedsMiniredis(t)
	for _, c := range examples {
		synctest.Test(t, func(t *testing.T) {
			backend := startRedis(t)
			c.run(t, newService(t, c.file, backend))
			backend.end()
		})
	}
}

func (c *example) run(t *testing.T, service *descriptors.Service) {
	for i := 0; i < len(c.steps); i += 2 {
		text, want := c.steps[i], c.steps[i+1]
		if wait, ok := strings.CutPrefix(text, "wait "); ok {
			d, _ := time.ParseDuration(wait)
			time.Sleep(d)
			continue
		}
		if got := said(service.Decide(context.Background(), ask(t, text))); got != want {
			t.Errorf("%s, step %d, %q:\ngot  %s\nwant %s", c.name, i/2, text, got, want)
		}
	}
}

// A limit with an algorithm has a unit, too, if its period is as long.
func TestAnAlgorithmIsExplainedWhereAllOrNothingCounts(t *testing.T) {
	const limits = `descriptors:
  - {key: unit, rate_limit: {unit: month, requests_per_unit: 0}}
  - {key: several, rate_limit: {unit: minute, unit_multiplier: 5, requests_per_unit: 9}}
  - {key: bucket, rate_limit: {algorithm: token-bucket 10/minute burst 50}}
`
	for _, all := range []string{"", "all_or_nothing: true\n"} {
		config, err := descriptors.Parse(descriptors.File{Name: "d.yaml", Text: []byte("domain: d\n" + all + limits)})
		if err != nil {
			t.Fatal(err)
		}
		for key, want := range map[string]string{
			"unit": "0/month", "several": "9/5 minutes", "bucket": "token-bucket 10/1m burst 50",
		} {
			e, ok := config.Explain("d", []descriptors.Entry{{Key: key, Value: "x"}})
			if !ok || e.Limits[0] != want {
				t.Errorf("%s%s: %v, want %s", all, key, e, want)
			}
		}
	}
}
