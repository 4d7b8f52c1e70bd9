package calendar

import (
	"errors"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
	_ "time/tzdata"
)

// zones whose clocks do what few do.
var oddZones = []string{
	"", "Europe/Berlin", "America/New_York",
	"America/St_Johns",   // went back at one minute past midnight
	"America/Sao_Paulo",  // changed at midnight
	"Asia/Beirut",        // changes at midnight
	"Africa/Monrovia",    // 44 minutes and 30 seconds behind until 1972
	"Pacific/Apia",       // had no December 30 in 2011
	"Pacific/Kwajalein",  // had no August 21 in 1993
	"Pacific/Kiritimati", // 14 hours ahead
	"Asia/Kathmandu",     // 5:45 ahead
	"Australia/Lord_Howe",
	"Africa/Casablanca", // changes with Ramadan
	"Antarctica/Troll",  // by two hours
	"Asia/Pyongyang",
	"America/Scoresbysund",
}

// TestADayBeginsWhenClocksFirstShowIt walks every day of the years with odd changes, and others.
func TestADayBeginsWhenClocksFirstShowIt(t *testing.T) {
	for _, zone := range oddZones {
		c, err := Of(Text("day", "", zone))
		if err != nil {
			t.Fatal(err)
		}
		for _, year := range []int{1900, 1969, 1970, 1971, 1972, 1987, 1993, 1994, 1999, 2000, 2006, 2011, 2018, 2023, 2024,
			2026, 2037, 2038, 2100, 2254} {
			day := time.Date(year, 1, 2, 0, 0, 0, 0, time.UTC)
			last := c.At(day.Add(-36 * time.Hour).UnixMicro()).End
			for ; day.Year() == year; day = day.AddDate(0, 0, 1) {
				n := c.numberOf(day.Date())
				start := c.start(n)
				shows := func(instant int64) bool { // the day or a later one
					y, m, d := time.UnixMicro(instant).In(c.zone).Date()
					return !time.Date(y, m, d, 0, 0, 0, 0, time.UTC).Before(day)
				}
				if !shows(start) || shows(start-1) {
					t.Fatalf("%s: %v begins at %v", zone, day, time.UnixMicro(start).In(c.zone))
				}
				for before := start - 30*time.Hour.Microseconds(); before < start; before += 7 * time.Minute.Microseconds() {
					if shows(before) {
						t.Fatalf("%s: %v begins at %v, and clocks showed it at %v", zone, day, time.UnixMicro(start).In(c.zone),
							time.UnixMicro(before).In(c.zone))
					}
				}
				if start < last || start == last && c.start(n+1) > start && c.At(start).Start != start {
					t.Fatalf("%s: %v begins at %v, before %v", zone, day, start, last)
				}
				last = start
			}
		}
	}
}

// TestEachInstantLiesInOnePeriod walks from one period to the next, and asks for instants in between.
func TestEachInstantLiesInOnePeriod(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	texts := []string{"day", "week", "week from sunday", "month", "month from 15", "month from 29", "month from 31",
		"year", "year from april 6", "year from february 29", "year from december 31"}
	for _, zone := range oddZones {
		for _, text := range texts {
			unit, start, _ := Split(text)
			c, err := Of(Text(unit, start, zone))
			if err != nil {
				t.Fatal(err)
			}
			for range 20 {
				at := random.Int64N(1<<54) - 1<<53 // 1684 to 2255
				for range 14 {
					p := c.At(at)
					if at < p.Start || at >= p.End || p.Next < p.End {
						t.Fatalf("%s in %s: %d lies in %v", text, zone, at, p)
					}
					inside := p.Start + random.Int64N(p.End-p.Start)
					around := c.Around(inside)
					switch {
					case c.At(inside) != p || c.At(p.End-1) != p || c.At(p.Start) != p:
						t.Fatalf("%s in %s: %d and %d lie in different periods", text, zone, at, inside)
					case c.At(p.End).Start != p.End:
						t.Fatalf("%s in %s: %d does not begin a period", text, zone, p.End)
					case around[1] != p.Start || around[2] != p.End || around[3] != p.Next:
						t.Fatalf("%s in %s: around %d are %v, want %v", text, zone, inside, around, p)
					case c.At(p.Start-1).End != p.Start:
						t.Fatalf("%s in %s: the period before %d ends at %d", text, zone, p.Start, c.At(p.Start-1).End)
					}
					if longest := Length(text) + 26*time.Hour; time.Duration(p.End-p.Start)*time.Microsecond > longest {
						t.Fatalf("%s in %s: %v lasts longer than %v", text, zone, p, longest)
					}
					at = p.End
				}
			}
		}
	}
}

func TestPeriodsBeginOnTheirDays(t *testing.T) {
	for _, tt := range []struct{ text, at, start, end string }{
		{"day", "2026-03-29T12:00:00Z", "2026-03-29T00:00:00Z", "2026-03-30T00:00:00Z"},
		{"day in Europe/Berlin", "2026-03-29T12:00:00Z", "2026-03-28T23:00:00Z", "2026-03-29T22:00:00Z"}, // 23 hours
		{"day in Europe/Berlin", "2026-10-25T12:00:00Z", "2026-10-24T22:00:00Z", "2026-10-25T23:00:00Z"}, // 25
		{"day in America/St_Johns", "2006-10-29T02:40:00Z", "2006-10-29T02:30:00Z", "2006-10-30T03:30:00Z"},
		// the 31st, after the 29th
		{"day in Pacific/Apia", "2011-12-30T12:00:00Z", "2011-12-30T10:00:00Z", "2011-12-31T10:00:00Z"},
		{"week", "2026-11-24T12:00:00Z", "2026-11-23T00:00:00Z", "2026-11-30T00:00:00Z"},
		{"week from sunday", "2026-11-24T12:00:00Z", "2026-11-22T00:00:00Z", "2026-11-29T00:00:00Z"},
		{"week from tuesday", "2026-11-24T00:00:00Z", "2026-11-24T00:00:00Z", "2026-12-01T00:00:00Z"},
		{"month", "2024-02-29T23:59:59Z", "2024-02-01T00:00:00Z", "2024-03-01T00:00:00Z"},
		{"month from 31", "2026-02-28T00:00:00Z", "2026-02-28T00:00:00Z", "2026-03-31T00:00:00Z"},
		{"month from 31", "2024-02-28T23:59:59Z", "2024-01-31T00:00:00Z", "2024-02-29T00:00:00Z"},
		{"month from 30", "2026-04-29T00:00:00Z", "2026-03-30T00:00:00Z", "2026-04-30T00:00:00Z"},
		{"year", "2026-11-24T12:00:00Z", "2026-01-01T00:00:00Z", "2027-01-01T00:00:00Z"},
		{"year from april 6 in Europe/London", "2026-04-05T22:59:59Z", "2025-04-05T23:00:00Z", "2026-04-05T23:00:00Z"},
		{"year from february 29", "2027-02-28T00:00:00Z", "2027-02-28T00:00:00Z", "2028-02-29T00:00:00Z"},
	} {
		c, err := Of(tt.text)
		if err != nil {
			t.Fatal(err)
		}
		at, err := time.Parse(time.RFC3339, tt.at)
		if err != nil {
			t.Fatal(err)
		}
		p := c.At(at.UnixMicro())
		start, end := time.UnixMicro(p.Start).UTC().Format(time.RFC3339), time.UnixMicro(p.End).UTC().Format(time.RFC3339)
		if start != tt.start || end != tt.end {
			t.Errorf("%s at %s: %s to %s, want %s to %s", tt.text, tt.at, start, end, tt.start, tt.end)
		}
	}
}

func TestWithoutZoneDataTheErrorSaysWhatToImport(t *testing.T) {
	defer func() { loadZone = time.LoadLocation }()
	loadZone = func(string) (*time.Location, error) { return nil, errors.New("no data") }
	if _, err := Of("month in Europe/Vienna"); err == nil || !strings.Contains(err.Error(), `import _ "time/tzdata"`) {
		t.Errorf("got %v", err)
	}
	loadZone = time.LoadLocation
	if _, err := Of("month in Europe/Viena"); err == nil || strings.Contains(err.Error(), "tzdata") ||
		!strings.Contains(err.Error(), "unknown time zone") {
		t.Errorf("got %v", err)
	}
	if _, err := Of("month in Europe/Vienna"); err != nil {
		t.Errorf("with data: %v", err)
	}
}

// The file systems of machines find zones by more names than the IANA has: "Europe//Berlin", and endlessly many others.
func TestAZoneHasNoOtherNamesThanThoseOfTheIANA(t *testing.T) {
	for _, zone := range []string{
		"Europe//Berlin", "./Europe/Berlin", "Europe/./Berlin", "Europe/../Europe/Berlin", "/Europe/Berlin", "Europe/Berlin/",
		".", "..", "/",
		"posix/Europe/Berlin", "right/Europe/Berlin", "posixrules", "localtime", "Local", "Europe\\Berlin",
		"Europe/Berlin\x00", "Europe/B\u00e9rlin",
	} {
		if _, err := Of("day in " + zone); err == nil || !strings.Contains(err.Error(), "a time zone is a name of the IANA") {
			t.Errorf("%q: %v", zone, err)
		}
	}
	for _, zone := range []string{"Etc/GMT+5", "America/Port-au-Prince", "America/Argentina/ComodRivadavia", "EST5EDT",
		"America/North_Dakota/New_Salem"} {
		if _, err := Of("day in " + zone); err != nil {
			t.Errorf("%q: %v", zone, err)
		}
	}
}
