package report

import (
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/weir-go/weir/cmd/weir/internal/simulate"
)

// Range returns a range as text, such as 371–433.
func Range(r simulate.Range) string {
	if r.Low == r.High {
		return group(r.Low)
	}
	return group(r.Low) + "–" + group(r.High)
}

// Share returns a range as a percentage of all.
func Share(r simulate.Range, total int64) string {
	if total == 0 {
		return ""
	}
	low, high := percent(r.Low, total), percent(r.High, total)
	if low == high {
		return low + "%"
	}
	return low + "–" + high + "%"
}

// percent returns a percentage with two significant digits. It returns 0 and 100 only for exact
// values.
func percent(n, total int64) string {
	p := float64(n) * 100 / float64(total)
	switch {
	case n == 0 || n >= total:
		return strconv.FormatFloat(p, 'f', 0, 64)
	case p < 0.001:
		return "<0.001"
	case p > 99.9:
		return ">99.9"
	case p >= 10:
		return strconv.FormatFloat(p, 'f', 1, 64)
	}
	digits := 1 - int(math.Floor(math.Log10(p)))
	return strconv.FormatFloat(p, 'f', min(digits, 3), 64)
}

// Wait returns the longest wait of a rule.
func Wait(rule *simulate.Rule) string {
	if rule.KeysDenied.High == 0 {
		return "–"
	}
	if rule.Never.High > 0 && rule.WaitMillis.High == 0 {
		return "for ever"
	}
	low, high := duration(rule.WaitMillis.Low), duration(rule.WaitMillis.High)
	s := high
	if low != high {
		s = low + "–" + high
	}
	if rule.Never.High > 0 {
		s += ", some for ever"
	}
	return s
}

func duration(ms int64) string {
	d := simulate.RoundedWait(ms)
	s := d.String()
	if d < 10*time.Second {
		return s
	}
	for _, end := range []string{"m0s", "h0m"} {
		if strings.HasSuffix(s, end) {
			s = s[:len(s)-2]
		}
	}
	return s
}

// group returns a number with separated thousands.
func group(n int64) string {
	s := strconv.FormatInt(n, 10)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

func people(r simulate.Range) string {
	if r.High == 1 && r.Low == 1 {
		return "1 client"
	}
	return Range(r) + " clients"
}

// count returns a number with a noun.
func count(n int64, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return group(n) + " " + thing + "s"
}

func upperFirst(s string) string { return strings.ToUpper(s[:1]) + s[1:] }
