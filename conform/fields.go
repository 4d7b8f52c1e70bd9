package conform

import (
	"fmt"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weir-go/weir/internal/http/structured"
)

// dialect is a way to write limits into fields of an answer.
type dialect struct {
	name   string
	source string // the document that has its syntax

	// read reads the fields of an answer. found reports whether they are there. Each problem of fields
	// that are there is one against the document.
	read func(h http.Header, denied bool) (t told, found bool, problems []string)
}

// counts reports whether d tells what is left. A server need not do so in each answer: section 6.2 of
// draft -11, section 4.1 of -06 and -07.
func (d *dialect) counts() bool { return d.name != "retry-after" }

// told is what an answer tells. A number is absent if it is not told.
type told struct {
	limit, remaining, window int64
	reset                    moment
}

const absent = -1

// moment is when more is admitted, as a field tells it.
type moment struct {
	kind momentKind
	n    int64 // seconds to go, or since 1970
}

type momentKind uint8

const (
	notTold momentKind = iota
	secondsToGo
	atSecond
	atMillisecond
)

// dialects are those that a profile may name, in the order of messages.
var dialects = []dialect{
	{"retry-after", "RFC 9110, section 10.2.3", readRetryAfter},
	{"x-ratelimit", "what services document, since these fields have no specification", readXRateLimit},
	{"draft-6", "draft-ietf-httpapi-ratelimit-headers-06, sections 3 and 4", readDraft6},
	{"draft-7", "draft-ietf-httpapi-ratelimit-headers-07, section 3", readDraft7},
	{"draft-8", "draft-ietf-httpapi-ratelimit-headers-08, sections 3 and 4", lists{}.read},
	{"draft-11", "draft-ietf-httpapi-ratelimit-headers-11, sections 3 and 4",
		lists{needRest: true, leastWindow: 1}.read},
}

// Dialects returns the names that the field fields of a profile may have.
func Dialects() (names []string) {
	for _, d := range dialects {
		names = append(names, d.name)
	}
	return names
}

// dialectOf returns the dialect with a name, or nil.
func dialectOf(name string) *dialect {
	for i := range dialects {
		if dialects[i].name == name {
			return &dialects[i]
		}
	}
	return nil
}

// nothingTold returns a told without numbers.
func nothingTold() told { return told{limit: absent, remaining: absent, window: absent} }

// single returns the value of a field that has one line.
func single(h http.Header, name string, problems *[]string) (value string, ok bool) {
	lines := h.Values(name)
	if len(lines) == 0 {
		return "", false
	}
	if len(lines) > 1 {
		*problems = append(*problems, fmt.Sprintf("%s has %d lines", name, len(lines)))
	}
	return lines[0], true
}

// digits reads a whole number that is not negative, as in 1*DIGIT.
func digits(value string) int64 {
	if n, err := strconv.ParseInt(value, 10, 64); err == nil && strings.Trim(value, "0123456789") == "" {
		return n
	}
	return absent
}

// whole reads the value of a field as digits.
func whole(name, value string, problems *[]string) int64 {
	n := digits(value)
	if n == absent {
		*problems = append(*problems, fmt.Sprintf("%s is %q, and must be a whole number, 0 or more", name, value))
	}
	return n
}

func readRetryAfter(h http.Header, denied bool) (t told, ok bool, problems []string) {
	t = nothingTold()
	value, ok := single(h, "Retry-After", &problems)
	switch {
	case !ok && denied:
		return t, false, []string{"a denial has no Retry-After, which the profile lists"}
	case !ok:
		return t, false, nil
	}
	if at, err := http.ParseTime(value); err == nil {
		t.reset = moment{atSecond, at.Unix()}
	} else if n := digits(value); n != absent {
		t.reset = moment{secondsToGo, n}
	} else {
		problems = append(problems, fmt.Sprintf("Retry-After is %q, and must be a whole number of seconds, or a date "+
			"that ends in GMT", value))
	}
	return t, true, problems
}

// readXRateLimit reads X-RateLimit-Limit, -Remaining and -Reset, or the same with X-Rate-Limit. The
// size of a reset says whether it is a number of seconds or an instant.
func readXRateLimit(h http.Header, _ bool) (t told, ok bool, problems []string) {
	t = nothingTold()
	prefix := "X-RateLimit-"
	if h.Get(prefix+"Limit") == "" && h.Get("X-Rate-Limit-Limit") != "" {
		prefix = "X-Rate-Limit-"
	}
	for _, part := range []struct {
		name string
		into *int64
	}{{"Limit", &t.limit}, {"Remaining", &t.remaining}} {
		value, is := single(h, prefix+part.name, &problems)
		if !is {
			problems = append(problems, "there is no "+prefix+part.name)
			continue
		}
		ok = true
		*part.into = whole(prefix+part.name, value, &problems)
	}
	if value, is := single(h, prefix+"Reset", &problems); is {
		if t.reset = resetOf(value); t.reset.kind == notTold {
			problems = append(problems, fmt.Sprintf("%sReset is %q, and must be seconds, 0 or more, or a date", prefix, value))
		}
	}
	return t, ok, problems
}

// resetOf reads a reset without a specification. GitHub writes whole seconds, Discord decimals, Mastodon
// a date.
func resetOf(value string) moment {
	if n := digits(value); n != absent {
		return momentOf(n)
	}
	if s, err := strconv.ParseFloat(value, 64); err == nil && s < 1e15 && strings.Trim(value, "0123456789.") == "" {
		if m := momentOf(int64(math.Ceil(s))); m.kind != atSecond {
			return m
		}
		return moment{atMillisecond, int64(math.Ceil(s * 1000))}
	}
	if at, err := http.ParseTime(strings.Replace(value, " UTC", " GMT", 1)); err == nil {
		return moment{atSecond, at.Unix()}
	}
	at, err := time.Parse(time.RFC3339, value)
	switch {
	case err != nil:
		return moment{}
	case at.Nanosecond() == 0:
		return moment{atSecond, at.Unix()}
	}
	return moment{atMillisecond, at.UnixMilli()}
}

// momentOf returns the moment that a number without a unit means.
func momentOf(n int64) moment {
	switch {
	case n >= 1e11:
		return moment{atMillisecond, n}
	case n >= 1e8:
		return moment{atSecond, n}
	}
	return moment{secondsToGo, n}
}

// integer reads a structured Item that is an Integer, 0 or more, without what draft -06 does not
// name.
func integer(h http.Header, name string, problems *[]string) int64 {
	item := structured.Item(h.Values(name))
	item.Member()
	value := item.Value
	for item.Member() {
	}
	if item.Malformed() || value.Kind != structured.Integer || value.N < 0 {
		*problems = append(*problems, fmt.Sprintf("%s is %q, and must be an Integer, 0 or more (RFC 9651, "+
			"section 3.3.1)", name, strings.Join(h.Values(name), ", ")))
		return absent
	}
	return value.N
}

// readDraft6 reads RateLimit-Limit, -Remaining and -Reset. Section 4 requires the reset if the limit is
// there.
func readDraft6(h http.Header, _ bool) (t told, ok bool, problems []string) {
	t = nothingTold()
	reset := int64(absent)
	for _, part := range []struct {
		name string
		into *int64
	}{{"RateLimit-Limit", &t.limit}, {"RateLimit-Remaining", &t.remaining}, {"RateLimit-Reset", &reset}} {
		if len(h.Values(part.name)) > 0 {
			ok = true
			*part.into = integer(h, part.name, &problems)
		}
	}
	if reset != absent {
		t.reset = moment{secondsToGo, reset}
	}
	if len(h.Values("RateLimit-Limit")) > 0 && len(h.Values("RateLimit-Reset")) == 0 {
		problems = append(problems, "there is no RateLimit-Reset beside RateLimit-Limit")
	}
	t.window = windowOf(policies(h, structured.Integer, 0, &problems), t.limit)
	return t, ok, problems
}

// windowOf returns the window of the policy that has a quota; or absent.
func windowOf(all []policy, quota int64) int64 {
	for _, p := range all {
		if p.quota == quota {
			return p.window
		}
	}
	return absent
}

// readDraft7 reads RateLimit, a Dictionary with limit, reset and, if the server likes, remaining.
func readDraft7(h http.Header, _ bool) (t told, ok bool, problems []string) {
	t = nothingTold()
	lines := h.Values("RateLimit")
	if len(lines) == 0 {
		return t, false, []string{"there is no RateLimit"}
	}
	reset, wrong := int64(absent), false
	dictionary := structured.Dictionary(lines)
	for dictionary.Member() {
		n := int64(absent)
		if v := dictionary.Value; v.Kind == structured.Integer && v.N >= 0 {
			n = v.N
		}
		switch dictionary.Key {
		case "limit":
			t.limit = n
		case "remaining":
			t.remaining, wrong = n, n == absent
		case "reset":
			reset = n
		}
	}
	if wrong || dictionary.Malformed() || t.limit < 0 || reset < 0 {
		return nothingTold(), true, []string{fmt.Sprintf("RateLimit is %q, and must be a Dictionary with "+
			"limit and reset, and may have remaining, each an Integer, 0 or more (RFC 9651, section 3.2)",
			strings.Join(lines, ", "))}
	}
	t.reset = moment{secondsToGo, reset}
	t.window = windowOf(policies(h, structured.Integer, 0, &problems), t.limit)
	return t, true, problems
}

// policy is a member of RateLimit-Policy.
type policy struct {
	name          string // since draft -08, as it stands in the field
	quota, window int64  // window is absent without one
	others        bool   // it counts something else than requests
}

// policies reads RateLimit-Policy, whose members are quotas in drafts -04 to -07 and names later.
func policies(h http.Header, kind structured.Kind, leastWindow int64, problems *[]string) (all []policy) {
	lines := h.Values("RateLimit-Policy")
	if len(lines) == 0 {
		return nil
	}
	list, wrong := structured.List(lines), false
	for list.Member() {
		p := policy{quota: absent, window: absent}
		switch {
		case list.Value.Kind != kind:
			wrong = true
		case kind == structured.Integer:
			p.quota = list.Value.N
		default:
			p.name = list.Value.Text
		}
		for list.Parameter() {
			v := list.Value
			switch list.Key {
			case "q":
				p.quota = v.N
				wrong = wrong || v.Kind != structured.Integer || v.N < 0
			case "w":
				p.window = v.N
				wrong = wrong || v.Kind != structured.Integer || v.N < leastWindow
			case "qu":
				if kind == structured.String { // a comment in older drafts
					p.others = v.Text != "requests"
					wrong = wrong || v.Kind != structured.String
				}
			}
		}
		wrong = wrong || p.quota < 0 || kind == structured.Integer && p.window < 0
		all = append(all, p)
	}
	if wrong || list.Malformed() {
		form := `"default";q=10;w=60`
		if kind == structured.Integer {
			form = "10;w=60"
		}
		*problems = append(*problems, fmt.Sprintf("RateLimit-Policy is %q, and must be a List such as %s "+
			"(RFC 9651, section 3.1)", strings.Join(lines, ", "), form))
		return nil
	}
	return all
}

// lists are RateLimit and RateLimit-Policy since draft -08, and what a revision asks of them.
type lists struct {
	needRest    bool  // r is required
	leastWindow int64 // of w
}

// read reads both fields. Of several limits of requests the one with the least left counts.
func (l lists) read(h http.Header, _ bool) (t told, ok bool, problems []string) {
	t = nothingTold()
	lines := h.Values("RateLimit")
	if len(lines) == 0 {
		return t, false, []string{"there is no RateLimit"}
	}
	all, name := policies(h, structured.String, l.leastWindow, &problems), ""
	list, wrong, members := structured.List(lines), false, 0
	for list.Member() {
		members++
		own := list.Value.Text
		wrong = wrong || list.Value.Kind != structured.String
		r, reset := int64(absent), int64(absent)
		for list.Parameter() {
			v := list.Value
			switch list.Key {
			case "r":
				r = v.N
				wrong = wrong || v.Kind != structured.Integer || v.N < 0
			case "t":
				reset = v.N
				wrong = wrong || v.Kind != structured.Integer || v.N < 0
			}
		}
		others := slices.ContainsFunc(all, func(p policy) bool { return p.name == own && p.others })
		switch {
		case r == absent:
			wrong = wrong || l.needRest
		case !others && (t.remaining == absent || r < t.remaining):
			name, t.remaining, t.reset = own, r, moment{}
			if reset >= 0 {
				t.reset = moment{secondsToGo, reset}
			}
		}
	}
	if wrong || list.Malformed() || members == 0 {
		return nothingTold(), true, []string{fmt.Sprintf("RateLimit is %q, and must be a List such as "+
			`"default";r=9;t=60 (RFC 9651, section 3.1)`, strings.Join(lines, ", "))}
	}
	for _, p := range all {
		if p.name == name || len(all) == 1 {
			t.limit, t.window = p.quota, p.window
			break
		}
	}
	return t, true, problems
}

// byClock reports whether m is an instant of the clock of the server.
func (m moment) byClock() bool { return m.kind == atSecond || m.kind == atMillisecond }

// earliest returns the instant that m tells, for a client that reads it at an instant.
func (m moment) earliest(read time.Time) time.Time {
	switch m.kind {
	case secondsToGo:
		return read.Add(time.Duration(min(m.n, 1e6)) * time.Second)
	case atSecond:
		return time.Unix(m.n, 0)
	case atMillisecond:
		return time.UnixMilli(m.n)
	}
	return read
}

// String returns m as a report has it.
func (m moment) String() string {
	switch m.kind {
	case secondsToGo:
		return fmt.Sprintf("%d s", m.n)
	case atSecond:
		return fmt.Sprintf("second %d", m.n)
	case atMillisecond:
		return fmt.Sprintf("millisecond %d", m.n)
	}
	return "nothing"
}

// span is an interval of instants, without its first.
type span struct{ from, to time.Time }

// roundings are the ways in which a server may round seconds, and what each adds to the told one at
// most and at least.
var roundings = []struct {
	name        string
	least, most time.Duration
}{
	{"up", -time.Second, 0},
	{"down", 0, time.Second},
	{"to the nearest", -time.Second / 2, time.Second / 2},
}

// within returns the instants that m may mean, rounded in a way, in an answer to a request that was
// sent and answered at two instants.
func (m moment) within(sent, answered time.Time, least, most time.Duration) span {
	switch m.kind {
	case secondsToGo:
		d := time.Duration(min(m.n, 1e6)) * time.Second
		return span{sent.Add(d + least - clockGrain), answered.Add(d + most + clockGrain)}
	case atSecond:
		at := time.Unix(m.n, 0)
		return span{at.Add(least - clockGrain), at.Add(most + clockGrain)}
	}
	at := time.UnixMilli(m.n)
	return span{at.Add(-clockGrain), at.Add(clockGrain)}
}
