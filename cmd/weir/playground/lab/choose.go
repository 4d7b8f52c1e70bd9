package lab

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/weir-go/weir/limits"
)

// Choice is a limit in all its notations.
type Choice struct {
	Limit string // for ParseLimit
	Go    string
	YAML  string
	Error string // if not empty, the other fields are empty
}

// Choose returns the limit of an algorithm with a rate such as "100/minute", or for a calendar such
// as "10000/month".
func Choose(algorithm, rate string) Choice {
	if algorithm == limits.AlgorithmCalendar.String() {
		return describe(algorithm + " " + rate)
	}
	limit, err := limits.Parse("token-bucket " + rate)
	if err != nil {
		return Choice{Error: fmt.Sprintf("%.30q is not a rate: type one such as 100/minute", rate)}
	}
	for _, a := range limits.Algorithms() {
		if a.String() == algorithm {
			return describe(limitOf(a, limit))
		}
	}
	return Choice{Error: fmt.Sprintf("there is no algorithm %.30q", algorithm)}
}

func describe(text string) Choice {
	limit, err := limits.Parse(text)
	if err != nil {
		return Choice{Error: strings.TrimPrefix(err.Error(), "limits: ")}
	}
	return Choice{Limit: limit.String(), Go: goSource(limit), YAML: "limit: " + limit.String()}
}

// goSource returns a Go expression for limit.
func goSource(limit limits.Limit) string {
	switch {
	case limit.Algorithm().Holds():
		return fmt.Sprintf("limits.Concurrent(%d)", limit.Burst())
	case limit.Period() != "":
		return fmt.Sprintf("limits.Calendar(%d, %q)", limit.Burst(), limit.Period())
	}
	rest := rateSource(limit.Rate())
	switch {
	case limit.Algorithm().HasBurst():
		rest += ", " + strconv.FormatInt(limit.Burst(), 10)
	case limit.Lasting() > 0:
		rest += ", " + durationSource(limit.Lasting())
	}
	name := ""
	for word := range strings.SplitSeq(limit.Algorithm().String(), "-") {
		name += strings.ToUpper(word[:1]) + word[1:]
	}
	return "limits." + name + "(" + rest + ")"
}

func rateSource(r limits.Rate) string {
	name := ""
	switch r.Period {
	case time.Second:
		name = "PerSecond"
	case time.Minute:
		name = "PerMinute"
	case time.Hour:
		name = "PerHour"
	case 24 * time.Hour:
		name = "PerDay"
	default:
		return fmt.Sprintf("limits.Per(%d, %s)", r.Units, durationSource(r.Period))
	}
	return fmt.Sprintf("limits.%s(%d)", name, r.Units)
}

func durationSource(d time.Duration) string {
	for _, unit := range []struct {
		of   time.Duration
		name string
	}{
		{time.Hour, "time.Hour"}, {time.Minute, "time.Minute"}, {time.Second, "time.Second"},
		{time.Millisecond, "time.Millisecond"},
	} {
		switch {
		case d == unit.of:
			return unit.name
		case d%unit.of == 0:
			return fmt.Sprintf("%d*%s", d/unit.of, unit.name)
		}
	}
	return fmt.Sprintf("%d*time.Microsecond", d/time.Microsecond)
}
