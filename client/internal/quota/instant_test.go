package quota

import (
	"net/http"
	"strings"
	"testing"
	"time"
)

// dateForms are the forms of dates that are read, as layouts of package time, and who writes them.
// What follows " | " is no layout.
var dateForms = []struct{ layout, by string }{
	{http.TimeFormat, "HTTP"},
	{time.RFC850, "HTTP, formerly; without a zone but UTC"},
	{time.ANSIC, "HTTP, formerly; asctime"},
	{"Mon, 02 Jan 2006 15:04:05 UTC", "go-limiter, by time.RFC1123"},
	{"Mon, 02 Jan 2006 15:04:05 -0700", "mail; Python's email.utils.formatdate"},
	{"Mon, 2 Jan 2006 15:04:05 -0700", "mail, with a day of one digit"},
	{"2 Jan 2006 15:04:05 -0700", "mail, without a weekday"},
	{"Mon, 02 Jan 2006 15:04:05 Z07:00", "others"},
	{"Monday, 02-Jan-2006 15:04:05 UTC", "PHP's DATE_COOKIE"},
	{"Mon Jan _2 15:04:05 UTC 2006", "date; Java's Date.toString"},
	{"Mon Jan 02 2006 15:04:05 GMT-0700", "JavaScript"},
	{"Mon Jan 02 2006 15:04:05 GMT-0700 |  (Central European Standard Time)", "JavaScript"},
	{"2006-01-02T15:04:05Z07:00", "ISO 8601"},
	{"2006-01-02T15:04:05.000Z07:00", "JavaScript's toISOString"},
	{"2006-01-02T15:04:05.0000000Z07:00", ".NET's round-trip format"},
	{"2006-01-02T15:04:05Z0700", "ISO 8601"},
	{"2006-01-02T15:04:05-07:00", "Python's isoformat"},
	{"2006-01-02T15:04:05.000000", "Python's isoformat, without a zone"},
	{"2006-01-02T15:04:05-07:00 | [Europe/Paris]", "Java's ZonedDateTime"},
	{"2006-01-02T15:04Z07:00", "Atlassian"},
	{"2006-01-02 15:04:05", "SQL"},
	{"2006-01-02 15:04:05 UTC", "Ruby's Time.to_s"},
	{"2006-01-02 15:04:05 -0700", "Ruby's Time.to_s"},
	{"2006-01-02 15:04:05Z07:00", ".NET"},
	{"2006-01-02 15:04:05.000000-07:00", "Python's str"},
	{"2006-01-02 15:04:05.999999999 -0700 MST", "Go's Time.String"},
	{"2006-01-02 15:04:05.999999999 -0700 MST |  m=+0.000012345", "Go's Time.String, of time.Now"},
}

// isLocal reports whether a layout has an offset, so that its instants may be in any zone.
func isLocal(layout string) bool {
	return strings.Contains(layout, "-07") || strings.Contains(layout, "Z07")
}

func TestDatesAreReadAsProgramsWriteThem(t *testing.T) {
	for _, at := range []time.Time{
		time.Date(2026, 11, 28, 12, 1, 0, 0, time.UTC),
		time.Date(2027, 3, 1, 0, 0, 59, 999_999_999, time.UTC),
		time.Date(2028, 2, 29, 23, 59, 7, 500_000_000, time.FixedZone("CET", 3600)),
		time.Date(2027, 1, 1, 3, 4, 5, 0, time.FixedZone("NST", -12600)),
	} {
		for _, form := range dateForms {
			checkForm(t, form.layout, at)
		}
	}
}

// checkForm checks that at is read in a form, in its zone if the form has one.
func checkForm(t *testing.T, layout string, at time.Time) {
	t.Helper()
	if !isLocal(layout) {
		at = at.UTC()
	}
	layout, after, _ := strings.Cut(layout, " | ")
	text := at.Format(layout)
	want, err := time.Parse(layout, text) // without what the form leaves out
	if err != nil {
		t.Fatal(err)
	}
	text += after
	if isLocal(layout) && strings.Contains(layout, "MST") { // time.Parse may know the name alone
		want = at
	}
	got, ok := instantOf(text)
	nanoseconds := int64(want.Nanosecond())
	coarse := int64(1)
	switch {
	case strings.HasSuffix(layout, "15:04Z07:00"):
		coarse = 60
	case nanoseconds > 0:
		coarse = 0
	}
	if !ok || got != (instant{want.Unix(), nanoseconds, coarse}) {
		t.Errorf("%q is read as %+v, %v, want %v", text, got, ok, want)
	}
}

func TestWhatIsNoDateWithATimeIsNotRead(t *testing.T) {
	for _, text := range []string{
		"", " ", "now", "tomorrow", "Sun", "Sun, 22 Nov 2026", "2026-11-22", "10:00:00", "22 Nov 10:00:00",
		"11/22/2026 10:00:00", "22.11.2026 10:00:00", "2026-22-11 10:00:00", "2026-11-31T10:00:00Z",
		"2027-02-29T10:00:00Z", "2026-11-22T24:00:00Z", "2026-11-22T10:60:00Z", "2026-11-22T10:00:61Z",
		"2026-11-22T10:00:00 PM", "2026-11-22T10:00:00X", "2026-11-22T10:00:00+1", "2026-11-22T10:00:00+25:00",
		"2026-11-22T10:00:00. Z", "Sun, 22 Nov 2026 10:00:00 PST", "Sun, 22 Nov 2026 10:00:00 GMT 7",
		"Sun, 22 Foo 2026 10:00:00 GMT", "Sun, 0 Nov 2026 10:00:00 GMT", "Sun, 22 Nov 02026 10:00:00 GMT",
		"Sun, 22 Nov 2026 10:00 10:00", "22-11-2026 10:00:00", "22-Nov 2026 10:00:00", "é", "2026-11-22T10:00:00é",
		"20261122T100000Z", "Sun, 22 Nov 2026 100:00:00 GMT", "(UTC)", "Z",
	} {
		if got, ok := instantOf(text); ok {
			t.Errorf("%q is read as %+v", text, got)
		}
	}
}

// A field has every form, in quotes, too.
func TestOneReaderReadsEveryMoment(t *testing.T) {
	h := http.Header{"Date": {"Sun, 22 Nov 2026 12:00:00 GMT"}}
	for text, want := range map[string]time.Duration{
		"60": time.Minute, `"60"`: time.Minute, " 60 ": time.Minute, "'60'": time.Minute,
		"60.25": 60250 * time.Millisecond,
		"60s":   time.Minute, "60 s": time.Minute, "60 seconds": time.Minute, "60 Seconds": time.Minute,
		"1 minute": time.Minute, "1m": time.Minute, "1 min": time.Minute, "2 mins": 2 * time.Minute,
		"60 secs":           time.Minute,
		"1 hour 30 minutes": 90 * time.Minute, "1h30m": 90 * time.Minute,
		"6m0s": 6 * time.Minute, "12ms": 12 * time.Millisecond,
		"1.5m": 90 * time.Second, "0.5 minutes": 30 * time.Second, "0.25h": 15 * time.Minute,
		"0.5 days": 12 * time.Hour, "0.999999999d": 24*time.Hour - 86_400*time.Nanosecond,
		"1.5s": 1500 * time.Millisecond, "2 days": 48 * time.Hour, "1d2h": 26 * time.Hour,
		"500 milliseconds": 500 * time.Millisecond,
		"15µs":             15 * time.Microsecond, `"1m30s"`: 90 * time.Second, "99999 days": Longest,
		"1795348830": 31 * time.Second, `"1795348830000"`: 31 * time.Second,
		"2026-11-22T12:00:30Z": 31 * time.Second, `"2026-11-22T12:00:30.5Z"`: 30500 * time.Millisecond,
		"2026-11-22 12:00:30 UTC": 31 * time.Second, "2026-11-22 13:00:30 +0100": 31 * time.Second,
		"Sun, 22 Nov 2026 12:00:30 +0000": 31 * time.Second, "2026-11-22T12:00Z": time.Minute,
		"Sun, 22 Nov 2026 11:59:00 GMT": -59 * time.Second,
	} {
		if got, _, ok := moment(text, h); !ok || got != want {
			t.Errorf("%q is read as %v, %v, want %v", text, got, ok, want)
		}
	}
	for _, text := range []string{
		"", "-5", "1e9", "soon", "60 parsecs", "60 s s", "s", "1m 30", "5 5s", `"`, `""`, `"60`, `'60"`, "1.5.2s", ".5",
		"0x10", "+60", "60,5s", strings.Repeat("6", maxNumber+1),
	} {
		if got, _, ok := moment(text, h); ok {
			t.Errorf("%q is read as %v", text, got)
		}
	}
}

// Whatever instant a program writes in a form that is read, that instant is read.
func FuzzInstantsAreReadInEveryForm(f *testing.F) {
	for i := range dateForms {
		f.Add(int64(1795348830), int64(i)*123_456, i, i-12)
	}
	f.Fuzz(func(t *testing.T, second, nanosecond int64, form, quarters int) {
		if form < 0 || form >= len(dateForms) || quarters < -56 || quarters > 56 ||
			second < 0 || second > 253_000_000_000 || nanosecond < 0 || nanosecond > 999_999_999 {
			return
		}
		layout := dateForms[form].layout
		if layout == time.RFC850 && (second < 24*365*86400 || second > 60*365*86400) {
			return // a year of two digits
		}
		zone := time.FixedZone("LMT", quarters*15*60)
		checkForm(t, layout, time.Unix(second, nanosecond).In(zone))
	})
}

// What package http reads as a date is that date.
func FuzzDatesAreReadAsPackageHTTPReadsThem(f *testing.F) {
	f.Add("Sun, 22 Nov 2026 10:00:00 GMT")
	f.Add("Sunday, 22-Nov-26 10:00:00 GMT")
	f.Add("Sun Nov 22 10:00:00 2026")
	f.Add("Mon, 29 Feb 2028 23:59:59 GMT")
	for _, form := range dateForms {
		f.Add(time.Unix(1795348830, 0).UTC().Format(form.layout))
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, ok := instantOf(text)
		if got.nanosecond < 0 || got.nanosecond > 999_999_999 {
			t.Errorf("%q is read as %+v", text, got)
		}
		want, err := http.ParseTime(text)
		if err != nil || want.Year() < 1 || strings.ContainsAny(text, "\t\n\r\v\f") {
			return
		}
		if !ok || got.second != want.Unix() {
			t.Errorf("%q is read as %+v, %v, want %v", text, got, ok, want)
		}
	})
}

// The usual form is read by the places of its parts. Any other text of that length is read as before.
func TestTheUsualDateIsReadAsByItsParts(t *testing.T) {
	same := func(text string) {
		d := dateReader{rest: text}
		wantOK := d.date() && d.complete()
		want := d.instant()
		if got, ok := instantOf(text); ok != wantOK || ok && got != want {
			t.Errorf("%q is read as %+v, %v, want %+v, %v", text, got, ok, want, wantOK)
		}
	}
	for second := int64(0); second < 200*365*86400; second += 9_999_991 {
		same(time.Unix(second, 0).UTC().Format(http.TimeFormat))
	}
	for _, text := range []string{
		"Sun, 22 Nov 2026 10:00:00 GMT", "Mon, 29 Feb 2100 23:59:60 GMT", "wed, 31 DEC 0000 00:00:00 GMT",
	} {
		same(text)
		for at := range text {
			for c := range 256 {
				same(text[:at] + string([]byte{byte(c)}) + text[at+1:])
			}
		}
	}
}
