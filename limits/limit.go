package limits

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unique"

	"github.com/weir-go/weir/internal/ground/algorithm"
	"github.com/weir-go/weir/internal/ground/arith"
	"github.com/weir-go/weir/internal/ground/bounds"
	"github.com/weir-go/weir/internal/ground/calendar"
)

// Limit is an algorithm with its rate and burst. It is a comparable value: data without behaviour.
// The zero Limit is not legal; make one with a constructor or with [Parse]. Constructors accept
// every value: [Limit.Validate] reports mistakes, and every function that takes a Limit calls it.
type Limit struct {
	algorithm Algorithm
	rate      Rate                 // zero in a concurrency limit
	burst     int64                // the units, if the limit has no burst of its own
	extra     unique.Handle[extra] // zero in most limits
}

// extra is the parameters that few limits have. A [Limit] holds a handle of them, so it stays small
// and quick to compare.
type extra struct {
	period  Period        // of the calendar
	lasting time.Duration // of a ban
	longest time.Duration // of a ban that grows
}

// extras returns the extra parameters of l.
func (l Limit) extras() extra {
	if l.extra == (unique.Handle[extra]{}) {
		return extra{}
	}
	return l.extra.Value()
}

// with returns l with extra parameters.
func (l Limit) with(e extra) Limit {
	l.extra = unique.Make(e)
	return l
}

// Growing returns a [Ban] whose bans grow: each further ban of a key that begins soon after the last
// one is twice as long, up to longest. For example
//
//	limits.Ban(limits.Per(5, 10*time.Minute), time.Hour).Growing(24*time.Hour)
//
// bans for one hour, then 2, 4, 8, 16 and 24. Soon means less than longest after the end of the ban
// before: such bans are in a row. A key that is not banned for so long starts anew, with an hour.
// Denied requests lengthen no ban, and neither does a look. If the end of a request lifts a ban,
// later bans are as long as without it.
//
// longest is at least as long as the ban lasts, and at most 366 days, rounded to a microsecond. The
// number of a ban that grows is 1 to 10,000,000. It counts up to 67,108,863 units; from that number
// an ending returns nothing.
func (l Limit) Growing(longest time.Duration) Limit {
	l.algorithm = grownAlgorithm
	e := l.extras()
	e.longest = longest.Round(time.Microsecond)
	return l.with(e)
}

// Algorithm returns the algorithm of l.
func (l Limit) Algorithm() Algorithm { return l.algorithm }

// Rate returns the rate of l. It is zero for a concurrency limit. For a calendar limit its period
// is the longest one, without changes of clocks: 24 hours, 7, 31 or 366 days.
func (l Limit) Rate() Rate { return l.rate }

// Burst returns the most units that l ever allows at one instant: the burst or
// capacity of a bucket, the units of a window or log, the number of a concurrency limit
// or ban.
func (l Limit) Burst() int64 { return l.burst }

// Lasting returns how long a ban lasts, the first of a row if bans grow, and 0 for other limits.
func (l Limit) Lasting() time.Duration { return l.extras().lasting }

// Longest returns how long a ban lasts at most: the longest if bans grow ([Limit.Growing]),
// otherwise as Lasting.
func (l Limit) Longest() time.Duration {
	e := l.extras()
	return max(e.lasting, e.longest)
}

// Period returns the period of a calendar limit, and "" for other limits.
func (l Limit) Period() Period {
	if l.extra == (unique.Handle[extra]{}) { // package memory asks on every charge
		return ""
	}
	return l.extra.Value().period
}

// Window returns the window that contains an instant. The end belongs to the next window. ok is
// true for a legal [FixedWindow], [SlidingWindow] or [Calendar] limit: all its keys have the same
// windows.
func (l Limit) Window(at time.Time) (start, end time.Time, ok bool) {
	switch row := algorithm.Of(l.algorithm); {
	case row.Aligned:
		period := l.rate.Period.Microseconds()
		if period <= 0 {
			return start, end, false
		}
		us := at.UnixMicro()
		into := us % period
		if into < 0 { // before 1970
			into += period
		}
		return time.UnixMicro(us - into), time.UnixMicro(us - into + period), true
	case row.Has(algorithm.Periods):
		c, err := calendar.Of(string(l.Period()))
		if err != nil {
			return start, end, false
		}
		p := c.At(at.UnixMicro())
		return time.UnixMicro(p.Start), time.UnixMicro(p.End), true
	}
	return start, end, false
}

// Validate returns nil if l is legal. Otherwise its error names every illegal value and the legal
// range.
func (l Limit) Validate() error {
	if l.algorithm == 0 {
		return errors.New("limit is not set (make one with a constructor such as " +
			"SlidingWindow(PerMinute(100)))")
	}
	if int(l.algorithm) >= algorithm.End {
		return fmt.Errorf("unknown algorithm %d", uint8(l.algorithm))
	}
	var errs []error
	parameters := algorithm.Of(l.algorithm).Parameters
	for i := range parameters {
		if err := forms[parameters[i].Form].check(l); err != nil {
			errs = append(errs, err)
		}
	}
	if errs != nil {
		return errors.Join(errs...)
	}
	if l.algorithm.HasBurst() && l.refillsTooSlowly() {
		return fmt.Errorf("a burst of %d at %d per %s takes over 100 years to refill: lower the burst",
			l.burst, l.rate.Units, shortDuration(l.rate.Period))
	}
	return nil
}

// checkUnits reports units of a rate that are not legal.
func (l Limit) checkUnits() error {
	if most := algorithm.Of(l.algorithm).Most; l.rate.Units < 1 || l.rate.Units > most {
		return fmt.Errorf("units of %s must be 1 to %d (got %d)", l.algorithm.withArticle(), most,
			l.rate.Units)
	}
	return nil
}

// refillsTooSlowly reports whether an empty bucket takes over 100 years to fill.
func (l Limit) refillsTooSlowly() bool {
	return arith.ProductExceeds(l.burst, l.rate.Period.Microseconds(), l.rate.Units, bounds.BucketFill)
}

// Share returns l divided among n instances, rounded up: 100 a minute among 3 is 34 a minute.
// Together, n processes that count alone then allow about what l allows. For n below 2 it returns
// l.
func (l Limit) Share(n int) Limit {
	if n < 2 {
		return l
	}
	instances := int64(n)
	l.rate.Units = arith.CeilDiv(l.rate.Units, instances)
	l.burst = arith.CeilDiv(l.burst, instances)
	if l.algorithm.HasBurst() && l.refillsTooSlowly() {
		l.burst-- // rounding up may exceed 100 years
	}
	return l
}

// WithUnits returns l with n units, and with its burst or capacity in the same proportion, at least
// 1. The units of a concurrency limit are those held at once. [Limit.Validate] reports whether the
// result is legal.
func (l Limit) WithUnits(n int64) Limit {
	traits := algorithm.Of(l.algorithm)
	switch {
	case traits.Held:
		l.burst = n
		return l
	case traits.Drains && l.rate.Units > 0:
		l.burst = max(1, int64(float64(l.burst)*float64(n)/float64(l.rate.Units)+0.5))
	default:
		l.burst = n
	}
	l.rate.Units = n
	return l
}

// String returns a text that [Parse] reads as an equal limit, such as "token-bucket 100/1m burst
// 20".
func (l Limit) String() string {
	if l == (Limit{}) {
		return "limit not set"
	}
	row := algorithm.Of(l.algorithm)
	s := row.FirstWord()
	for _, p := range row.Parameters {
		if p.Words != "" {
			s += " " + p.Words
		}
		s += " " + forms[p.Form].write(l)
	}
	return s
}

// MarshalText implements [encoding.TextMarshaler] by [Limit.String]. It fails if l is not legal.
func (l Limit) MarshalText() ([]byte, error) {
	if err := l.Validate(); err != nil {
		return nil, fmt.Errorf("limits: %w", err)
	}
	return []byte(l.String()), nil
}

// UnmarshalText implements [encoding.TextUnmarshaler] by [Parse], so a limit can stand in a flag,
// in YAML or in JSON.
func (l *Limit) UnmarshalText(text []byte) error {
	parsed, err := Parse(string(text))
	if err != nil {
		return err
	}
	*l = parsed
	return nil
}

// shortDuration is d.String without zero minutes and seconds at the end; whole days become "7d".
func shortDuration(d time.Duration) string {
	const day = 24 * time.Hour
	if d >= day && d%day == 0 {
		return fmt.Sprintf("%dd", d/day)
	}
	s := d.String()
	if short, ok := strings.CutSuffix(s, "m0s"); ok {
		s = short + "m"
	}
	if short, ok := strings.CutSuffix(s, "h0m"); ok {
		s = short + "h"
	}
	return s
}

// form is how limits have a parameter of one form: how an error describes it, how [Parse] reads it,
// how String writes it, and what is legal. read returns errForm for a text of another form.
type form struct {
	text  string
	read  func(l *Limit, value string) error
	write func(l Limit) string
	check func(l Limit) error
}

var forms = [...]form{
	algorithm.Rate: {
		text: "units/period",
		read: func(l *Limit, value string) (err error) {
			l.rate, err = parseRate(value)
			l.burst = l.rate.Units
			return err
		},
		write: func(l Limit) string {
			return fmt.Sprintf("%d/%s", l.rate.Units, shortDuration(l.rate.Period))
		},
		check: func(l Limit) error { return errors.Join(l.checkUnits(), l.rate.checkPeriod()) },
	},
	algorithm.Units: {
		text: "units", read: readBurst, write: writeBurst,
		check: func(l Limit) error {
			if most := algorithm.Of(l.algorithm).Most; l.burst < 1 || l.burst > most {
				return fmt.Errorf("%s must be 1 to %d (got %d)", l.algorithm.withArticle(), most, l.burst)
			}
			return nil
		},
	},
	algorithm.Periods: {
		text: "units/period [from day] [in zone]",
		read: func(l *Limit, value string) error {
			units, period, err := parsePeriods(value)
			*l = Calendar(units, period)
			return err
		},
		write: func(l Limit) string { return fmt.Sprintf("%d/%s", l.rate.Units, l.Period()) },
		check: func(l Limit) error { return errors.Join(l.checkUnits(), l.Period().validate()) },
	},
	algorithm.Burst: {
		text: "n", read: readBurst, write: writeBurst,
		check: func(l Limit) error {
			if l.burst < 1 || l.burst > maxUnits {
				return fmt.Errorf("burst must be 1 to %d (got %d)", maxUnits, l.burst)
			}
			return nil
		},
	},
	algorithm.Lasting: durationForm("last", func(e *extra) *time.Duration { return &e.lasting }),
	algorithm.Growing: growingForm(),
}

// growingForm is the form of the length to which bans grow.
func growingForm() form {
	f := durationForm("grow to", func(e *extra) *time.Duration { return &e.longest })
	isDuration := f.check
	f.check = func(l Limit) error {
		e := l.extras()
		switch {
		case e.lasting == 0:
			return errors.New("only a ban grows: write Ban(rate, lasting).Growing(longest)")
		case e.longest < e.lasting:
			return fmt.Errorf("a ban of %s must grow to as much at least (got %s)",
				shortDuration(e.lasting), shortDuration(e.longest))
		}
		return isDuration(l)
	}
	return f
}

func readBurst(l *Limit, value string) (err error) {
	l.burst, err = parseUnits(value)
	return err
}

func writeBurst(l Limit) string { return strconv.FormatInt(l.burst, 10) }

// durationForm is the form of an extra parameter of 1ms to 366 days. A limit must do so: "last".
func durationForm(does string, of func(*extra) *time.Duration) (f form) {
	f.text = "duration"
	f.read = func(l *Limit, value string) error {
		if len(strings.Fields(value)) != 1 {
			return errForm
		}
		d, err := parsePeriod(strings.ToLower(value))
		e := l.extras()
		*of(&e) = d.Round(time.Microsecond)
		*l = l.with(e)
		return err
	}
	f.write = func(l Limit) string {
		e := l.extras()
		return shortDuration(*of(&e))
	}
	f.check = func(l Limit) error {
		e := l.extras()
		if d := *of(&e); d < minPeriod || d > maxPeriod {
			return fmt.Errorf("%s must %s 1ms to 366 days (8784h) (got %v)",
				l.algorithm.withArticle(), does, d)
		}
		return nil
	}
	return f
}
