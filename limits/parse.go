package limits

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Parse reads a limit in text:
//
//	100/minute                      sliding-window, since no algorithm is named
//	100 per hour
//	5/10s
//	fixed-window 1000/day
//	token-bucket 100/1m burst 20
//	leaky-queue 10/s capacity 50
//	sliding-log 3/5m
//	anchored-window 60/hour
//	concurrent 20
//	ban 10/10m for 1h
//	distinct 5/10m
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

var errLimitSyntax = errors.New(
	`want [algorithm] units/period [burst n], such as "100/minute" or "token-bucket 100/1m burst 20"`)

func parseLimit(s string) (Limit, error) {
	if given := strings.Fields(s); len(given) > 0 &&
		strings.EqualFold(given[0], AlgorithmCalendar.String()) {
		return parseCalendar(given[1:])
	}
	words := strings.Fields(strings.ReplaceAll(strings.ToLower(s), "/", " / "))
	algorithm := AlgorithmSlidingWindow
	if len(words) > 0 && !strings.ContainsAny(words[0][:1], "-+0123456789") {
		if algorithm = algorithmNamed(words[0]); algorithm == 0 {
			return Limit{}, fmt.Errorf("unknown algorithm %.30q: use one of %s", words[0],
				strings.Join(algorithmNames(), ", "))
		}
		words = words[1:]
	}
	switch algorithm {
	case AlgorithmConcurrent:
		return parseConcurrent(words)
	case AlgorithmBan:
		return parseBan(words)
	}
	burst := ""
	if n := len(words); n >= 2 && (words[n-2] == "burst" || words[n-2] == "capacity") {
		words, burst = words[:n-2], words[n-1]
	}
	rate, err := parseRate(words, errLimitSyntax)
	if err != nil {
		return Limit{}, err
	}
	l := Limit{algorithm: algorithm, rate: rate, burst: rate.Units}
	if burst == "" {
		return l, nil
	}
	if !algorithm.HasBurst() {
		return Limit{}, fmt.Errorf("%s has no burst of its own: remove %q",
			algorithm.withArticle(), "burst "+burst)
	}
	l.burst, err = parseUnits(burst)
	return l, err
}

var (
	errConcurrentSyntax = errors.New(`want concurrent units, such as "concurrent 20"`)
	errBanSyntax        = errors.New(`want ban units/period for duration, such as "ban 10/10m for 1h"`)
)

func parseConcurrent(words []string) (Limit, error) {
	if len(words) != 1 {
		return Limit{}, errConcurrentSyntax
	}
	n, err := parseUnits(words[0])
	return Concurrent(n), err
}

func parseBan(words []string) (Limit, error) {
	n := len(words)
	if n < 2 || words[n-2] != "for" {
		return Limit{}, errBanSyntax
	}
	rate, err := parseRate(words[:n-2], errBanSyntax)
	if err != nil {
		return Limit{}, err
	}
	lasting, err := parsePeriod(words[n-1])
	return Ban(rate, lasting), err
}

// parseRate reads "100 / minute" or "100 per minute". It returns errSyntax for another text.
func parseRate(words []string, errSyntax error) (rate Rate, err error) {
	units, period, ok := splitRate(words)
	if !ok {
		return Rate{}, errSyntax
	}
	if rate.Units, err = parseUnits(units); err != nil {
		return Rate{}, err
	}
	rate.Period, err = parsePeriod(period)
	return rate, err
}

func algorithmNamed(name string) Algorithm {
	for _, a := range Algorithms() {
		if a.String() == name {
			return a
		}
	}
	return 0
}

// splitRate splits "100 / minute" or "100 per minute".
func splitRate(words []string) (units, period string, ok bool) {
	if len(words) == 3 && (words[1] == "per" || words[1] == "/") {
		return words[0], words[2], true
	}
	return "", "", false
}

func parseUnits(s string) (int64, error) {
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
