package limits

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/weir-go/weir/internal/ground/algorithm"
)

// Parse reads a limit in text. The constants of [Algorithm] have a text of each algorithm.
//
//	100/minute                      sliding-window, since no algorithm is named
//	100 per hour
//	5/10s
//	token-bucket 100/1m burst 20
//	leaky-queue 10/s capacity 50
//	calendar 10000/month
//	calendar 10000/month from 15 in Europe/Berlin
//	calendar 500/week from sunday
//	calendar 1000000/year from april 6 in Europe/London
//
// The period is a unit (second, minute, hour, day, their plurals or sec, min, s, m, h, d), a number
// of days (7d) or a [time.Duration]. A bucket without a burst or capacity has one that equals the
// units. The limit is legal ([Limit.Validate]), or the error says what to change.
func Parse(s string) (Limit, error) {
	l, err := parseLimit(s)
	if err == nil {
		err = l.Validate()
	}
	if err != nil {
		return Limit{}, fmt.Errorf("limits: %.60q: %w", s, err)
	}
	return l, nil
}

func parseLimit(s string) (Limit, error) {
	word, parts := algorithm.Split(s)
	l := Limit{algorithm: defaultAlgorithm}
	if word != "" {
		l.algorithm = Algorithm(algorithm.Named(word, parts))
		if l.algorithm == 0 {
			return Limit{}, fmt.Errorf("unknown algorithm %.30q: use one of %s", word,
				strings.Join(firstWords(), ", "))
		}
	}
	row := algorithm.Of(l.algorithm)
	for i := range row.Parameters {
		p := &row.Parameters[i]
		switch {
		case len(parts) == 0 || !p.Follows(parts[0].Words):
			if !p.Optional {
				return Limit{}, syntaxError(word, row)
			}
			continue
		case parts[0].Value == "":
			return Limit{}, syntaxError(word, row)
		}
		err := forms[p.Form].read(&l, parts[0].Value)
		if errors.Is(err, errForm) {
			return Limit{}, syntaxError(word, row)
		} else if err != nil {
			return Limit{}, err
		}
		parts = parts[1:]
	}
	switch {
	case len(parts) == 0:
		return l, nil
	case row.HasWords(parts[0].Words): // twice, or in another order
		return Limit{}, syntaxError(word, row)
	}
	part := parts[0].Words + " " + parts[0].Value
	return Limit{}, fmt.Errorf("%s has no %q: remove %q", l.algorithm.withArticle(), parts[0].Words,
		strings.TrimSpace(part))
}

// errForm says that a text is no parameter of the form. parseLimit returns a syntaxError instead.
var errForm = errors.New("another form")

// syntaxError says how texts of an algorithm are written. word is the one that the text begins
// with; "": any algorithm is meant.
func syntaxError(word string, row *algorithm.Algorithm) error {
	if word == "" {
		return errors.New(`want [algorithm] units/period [burst n], such as "100/minute" or ` +
			`"token-bucket 100/1m burst 20"`)
	}
	want := row.FirstWord()
	for _, p := range row.Parameters {
		text := strings.TrimSpace(p.Words + " " + forms[p.Form].text)
		if p.Optional {
			text = "[" + text + "]"
		}
		want += " " + text
	}
	examples := strconv.Quote(row.Example)
	for _, other := range algorithm.All() {
		if other.FirstWord() == row.FirstWord() && other.Name != row.Name {
			examples += " or " + strconv.Quote(other.Example)
		}
	}
	return fmt.Errorf("want %s, such as %s", want, examples)
}

// parseRate reads "100/minute" or "100 per minute".
func parseRate(value string) (rate Rate, err error) {
	units, period, ok := splitRate(wordsOf(value))
	if !ok {
		return Rate{}, errForm
	}
	if rate.Units, err = parseUnits(units); err != nil {
		return Rate{}, err
	}
	rate.Period, err = parsePeriod(period)
	return rate, err
}

// wordsOf splits "100/minute" into "100", "/" and "minute".
func wordsOf(value string) []string {
	return strings.Fields(strings.ReplaceAll(strings.ToLower(value), "/", " / "))
}

// splitRate splits "100 / minute" or "100 per minute".
func splitRate(words []string) (units, period string, ok bool) {
	if len(words) == 3 && (words[1] == "per" || words[1] == "/") {
		return words[0], words[2], true
	}
	return "", "", false
}

func parseUnits(s string) (int64, error) {
	if len(wordsOf(s)) != 1 {
		return 0, errForm
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if errors.Is(err, strconv.ErrRange) {
		return 0, fmt.Errorf("must be 1 to %d (got %.30s)", maxUnits, s)
	}
	if err != nil {
		return 0, fmt.Errorf("%.30q is not a whole number of units", s)
	}
	return n, nil
}

var periodNames = map[string]time.Duration{
	"s": time.Second, "sec": time.Second, "second": time.Second, "seconds": time.Second,
	"m": time.Minute, "min": time.Minute, "minute": time.Minute, "minutes": time.Minute,
	"h": time.Hour, "hour": time.Hour, "hours": time.Hour,
	"d": 24 * time.Hour, "day": 24 * time.Hour, "days": 24 * time.Hour,
}

func parsePeriod(s string) (time.Duration, error) {
	if p, ok := periodNames[s]; ok {
		return p, nil
	}
	if days, ok := strings.CutSuffix(s, "d"); ok {
		if n, err := strconv.ParseInt(days, 10, 64); err == nil {
			return time.Duration(min(n, 100_000)) * 24 * time.Hour, nil // Validate refuses 100,000 days
		}
	}
	switch Period(s) {
	case Week, Month, Year:
		return 0, fmt.Errorf(`a %[1]s has a calendar: write "calendar 1000/%[1]s"`, s)
	}
	p, err := time.ParseDuration(s)
	if err != nil {
		return 0, fmt.Errorf("%.30q is not a period: use second, minute, hour, day, 7d or 1m30s", s)
	}
	return p, nil
}
