package limitstest

import (
	"time"

	"github.com/weir-go/weir/limits"
)

// calendarTables are about periods of the calendar. A table in a zone is skipped if the program has
// no data of the zone.
var calendarTables = []table{
	{
		name: "a month of the calendar ends with the month",
		why: "February has 28 days, and all units come back at its end; takings within it do not " +
			"move that (DESIGN 5, the table of algorithms)",
		start: time.Date(2026, time.February, 27, 12, 0, 0, 0, time.UTC),
		phases: []phase{{limits.Calendar(3, limits.Month), []step{
			{0, 0, allowed(3, 0, 36*hour)},
			{0, 2, allowed(1, 36*hour, 36*hour)},
			{35 * hour, 2, denied(1, 1*hour, 1*hour)},
			{0, 4, denied(1, limits.Never, 1*hour)},
			{0, 1, allowed(0, 1*hour, 1*hour)},
			{1*hour - 1*us, 1, denied(0, 1*us, 1*us)},
			{1 * us, 3, allowed(0, 31*day, 31*day)}, // March
			{31*day - 1*us, 1, denied(0, 1*us, 1*us)},
			{1 * us, 1, allowed(2, 30*day, 30*day)},    // April
			{100 * day, 1, allowed(2, 22*day, 22*day)}, // July 10
		}}},
	},
	{
		name: "a month from the 31st begins on the last day of shorter months",
		why: "a customer of the 31st has twelve periods a year: from January 31, February 29 or 28, " +
			"March 31 and April 30 (DESIGN 5, the table of algorithms)",
		start: time.Date(2024, time.January, 31, 0, 0, 0, 0, time.UTC),
		phases: []phase{{limits.Calendar(5, limits.Month.From(31)), []step{
			{0, 1, allowed(4, 29*day, 29*day)},
			{29*day - 1*us, 5, denied(4, 1*us, 1*us)},
			{1 * us, 5, allowed(0, 31*day, 31*day)},           // February 29
			{31 * day, 5, allowed(0, 30*day, 30*day)},         // March 31
			{30 * day, 5, allowed(0, 31*day, 31*day)},         // April 30
			{(306 - 30) * day, 5, allowed(0, 28*day, 28*day)}, // January 31, 2025
			{28 * day, 5, allowed(0, 31*day, 31*day)},         // February 28
		}}},
	},
	{
		name: "weeks and years begin on their days",
		why: "a week begins on Monday unless another day is named, a year on January 1, and one from " +
			"February 29 on the 28th where there is none (DESIGN 5, the table of algorithms)",
		start: time.Date(2026, time.November, 24, 6, 0, 0, 0, time.UTC), // a Tuesday
		phases: []phase{
			{limits.Calendar(5, limits.Week), []step{{0, 1, allowed(4, 6*day-6*hour, 6*day-6*hour)}}},
			{limits.Calendar(5, limits.Week.From(7)), []step{
				{6*day - 6*hour, 1, allowed(4, 6*day, 6*day)}, // Monday the 30th: what was taken is over
				{6 * day, 5, allowed(0, 7*day, 7*day)},
			}},
			// December 13
			{limits.Calendar(5, limits.Year), []step{{7 * day, 1, allowed(4, 19*day, 19*day)}}},
			{limits.Calendar(5, limits.Year.FromDate(time.February, 29)), []step{
				{19 * day, 1, allowed(4, 58*day, 58*day)},   // January 1, 2027
				{58 * day, 1, allowed(4, 366*day, 366*day)}, // February 28 to February 29, 2028
			}},
		},
	},
	{
		name: "days of a zone last 23 and 25 hours",
		why: "a period ends at the next midnight of its zone, where clocks change after 23 or 25 " +
			"hours (DESIGN 5, the table of algorithms)",
		start: time.Date(2026, time.March, 28, 22, 59, 59, 999_999_000, time.UTC),
		phases: []phase{{limits.Calendar(5, limits.Day.In("Europe/Berlin")), []step{
			{0, 5, allowed(0, 1*us, 1*us)},
			{1 * us, 5, allowed(0, 23*hour, 23*hour)},
			{23*hour - 1*us, 1, denied(0, 1*us, 1*us)},
			{1 * us, 5, allowed(0, 24*hour, 24*hour)},
			{208 * day, 5, allowed(0, 24*hour, 24*hour)}, // October 24
			{24 * hour, 5, allowed(0, 25*hour, 25*hour)},
			{25*hour - 1*us, 1, denied(0, 1*us, 1*us)},
			{1 * us, 1, allowed(4, 24*hour, 24*hour)},
		}}},
	},
	{
		name: "a day is begun once where clocks go back over midnight",
		why: "in Newfoundland clocks went back from one minute past midnight: the hour before " +
			"midnight came again, and belongs to the day that had begun (DESIGN 5, the table of algorithms)",
		start: time.Date(2006, time.October, 29, 2, 29, 59, 0, time.UTC),
		phases: []phase{{limits.Calendar(5, limits.Day.In("America/St_Johns")), []step{
			{0, 5, allowed(0, 1*sec, 1*sec)},
			{1 * sec, 5, allowed(0, 25*hour, 25*hour)},
			{1 * mins, 1, denied(0, 25*hour-mins, 25*hour-mins)}, // 23:01 once more
			{1 * hour, 1, denied(0, 24*hour-mins, 24*hour-mins)},
			{24*hour - mins, 5, allowed(0, 24*hour, 24*hour)},
		}}},
	},
	{
		name: "a month in a zone begins with the zone's day",
		why: "Samoa had no December 30 in 2011, and its year 2012 began ten hours after that of UTC " +
			"less a day (DESIGN 5, the table of algorithms)",
		start: time.Date(2011, time.December, 30, 9, 0, 0, 0, time.UTC),
		phases: []phase{{limits.Calendar(5, limits.Month.In("Pacific/Apia")), []step{
			{0, 1, allowed(4, 25*hour, 25*hour)},
			{25*hour - 1*us, 5, denied(4, 1*us, 1*us)},
			{1 * us, 5, allowed(0, 31*day, 31*day)},
		}}},
	},
	{
		name: "the calendar is known in 1970 and in 2254",
		why: "instants of half a century before and of two centuries after lose no precision " +
			"(DESIGN 5, legal limits)",
		start: time.Date(1970, time.January, 1, 12, 0, 0, 0, time.UTC),
		phases: []phase{
			// a Thursday
			{limits.Calendar(5, limits.Week), []step{{0, 1, allowed(4, 4*day-12*hour, 4*day-12*hour)}}},
			{limits.Calendar(1_000_000_000, limits.Year),
				[]step{{4*day - 12*hour, 1_000_000_000, allowed(0, 361*day, 361*day)}}},
		},
	},
	{
		name: "another number of units keeps the period and its count",
		why: "a customer who changes the plan within a period has used what was used; what is above " +
			"the new maximum leaves Remaining 0, never less (DESIGN 5, changing a limit)",
		start: time.Date(2026, time.June, 10, 0, 0, 0, 0, time.UTC),
		phases: []phase{
			{limits.Calendar(10, limits.Month), []step{{0, 8, allowed(2, 21*day, 21*day)}}},
			{limits.Calendar(100, limits.Month), []step{{day, 2, allowed(90, 20*day, 20*day)}}},
			{limits.Calendar(5, limits.Month), []step{
				{day, 0, allowed(0, 19*day, 19*day)},
				{0, 1, denied(0, 19*day, 19*day)},
			}},
			{limits.Calendar(12, limits.Month), []step{{0, 2, allowed(0, 19*day, 19*day)}}},
			{limits.Calendar(5, limits.Month), []step{{19 * day, 1, allowed(4, 31*day, 31*day)}}},
		},
	},
	{
		name: "another period counts the units in use as taken now",
		why: "units of the month are in use on the day on which the day is first charged (DESIGN " +
			"5, changing a limit)",
		start: time.Date(2026, time.June, 10, 0, 0, 0, 0, time.UTC),
		phases: []phase{
			{limits.Calendar(10, limits.Month), []step{{0, 4, allowed(6, 21*day, 21*day)}}},
			{limits.Calendar(10, limits.Day), []step{
				{hour, 0, allowed(6, 23*hour, 23*hour)},
				{0, 7, denied(6, 23*hour, 23*hour)},
				{0, 1, allowed(5, 23*hour, 23*hour)},
			}},
			{limits.FixedWindow(limits.PerDay(10)), []step{{hour, 1, allowed(4, 22*hour, 22*hour)}}},
			{limits.Calendar(10, limits.Month), []step{{hour, 1, allowed(3, 21*day-3*hour, 21*day-3*hour)}}},
			{limits.Calendar(10, limits.Month.From(15)),
				[]step{{hour, 1, allowed(2, 5*day-4*hour, 5*day-4*hour)}}},
		},
	},
	{
		name: "a period of the calendar stops its clock at its start",
		why: "before its period the clock of a key stops, and nothing is taken in the period before; " +
			"behind by more than the longest period its units count as taken now (DESIGN 5, a " +
			"clock that steps back)",
		start: time.Date(2026, time.June, 1, 0, 0, 10, 0, time.UTC),
		phases: []phase{{limits.Calendar(10, limits.Day), []step{
			{0, 4, allowed(6, day-10*sec, day-10*sec)},
			{-20 * sec, 1, allowed(5, day+10*sec, day+10*sec)},
			{-10 * sec, 6, denied(5, day+20*sec, day+20*sec)},
			{-2 * day, 0, allowed(5, 20*sec, 20*sec)}, // May 29
		}}},
	},
}
