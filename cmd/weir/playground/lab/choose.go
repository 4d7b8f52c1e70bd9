package lab

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/weir-go/weir/internal/ground/algorithm"
	"github.com/weir-go/weir/limits"
)

// Choice is a limit in all its notations.
type Choice struct {
	Asks  string // what a person types: "rate", "units" or "periods" of the calendar
	Limit string // for ParseLimit
	Go    string
	YAML  string
	Error string // if not empty, there is no limit
}

// Choose returns the limit of the algorithm of a name with a rate such as "100/minute", or for a
// calendar such as "10000/month".
func Choose(name, rate string) Choice {
	row := rowNamed(name)
	switch {
	case row == nil:
		return Choice{Error: fmt.Sprintf("there is no algorithm %.30q", name)}
	case row.Has(algorithm.Periods):
		return describe(row.FirstWord()+" "+rate, row)
	}
	limit, err := limits.Parse("token-bucket " + rate)
	if err != nil {
		return Choice{
			Asks: asks(row), Error: fmt.Sprintf("%.30q is not a rate: type one such as 100/minute", rate),
		}
	}
	return describe(limitOf(row, limit), row)
}

// rowNamed returns the row of an algorithm, or nil.
func rowNamed(name string) *algorithm.Algorithm {
	for _, a := range limits.Algorithms() {
		if a.String() == name {
			return algorithm.Of(a)
		}
	}
	return nil
}

// asks returns what a person types for a limit of an algorithm.
func asks(row *algorithm.Algorithm) string {
	switch row.Parameters[0].Form {
	case algorithm.Periods:
		return "periods"
	case algorithm.Units:
		return "units"
	}
	return "rate"
}

func describe(text string, row *algorithm.Algorithm) Choice {
	limit, err := limits.Parse(text)
	if err != nil {
		return Choice{Asks: asks(row), Error: strings.TrimPrefix(err.Error(), "limits: ")}
	}
	return Choice{
		Asks: asks(row), Limit: limit.String(), Go: goSource(limit), YAML: "limit: " + limit.String(),
	}
}

// goSource returns a Go expression for limit. Its text has all parameters.
func goSource(limit limits.Limit) string {
	row := algorithm.Of(limit.Algorithm())
	_, parts := algorithm.Split(limit.String())
	var arguments []string
	methods := ""
	for i, p := range row.Parameters {
		source := ""
		switch p.Form {
		case algorithm.Rate:
			source = rateSource(limit.Rate())
		case algorithm.Units, algorithm.Burst:
			source = strconv.FormatInt(limit.Burst(), 10)
		case algorithm.Periods:
			source = fmt.Sprintf("%d, %q", limit.Burst(), limit.Period())
		default:
			once, _ := limits.Parse("1/" + parts[i].Value)
			source = durationSource(once.Rate().Period)
		}
		if p.Method != "" {
			methods += "." + p.Method + "(" + source + ")"
		} else {
			arguments = append(arguments, source)
		}
	}
	return "limits." + row.Constructor() + "(" + strings.Join(arguments, ", ") + ")" + methods
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
