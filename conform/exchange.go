package conform

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"
)

// clockGrain is how far the clock by which a server decides may be from ours: many read milliseconds.
const clockGrain = 2 * time.Millisecond

// exchange is a request with its answer.
type exchange struct {
	sent, answered time.Time // the server decided it in between
	status         int
	header         http.Header
	err            error // there was no answer
	denial         int   // the status that denies
}

// admitted reports whether the request went through.
func (x *exchange) admitted() bool { return x.err == nil && x.status >= 200 && x.status < 400 }

// denied reports whether the limiter denied the request.
func (x *exchange) denied() bool { return x.err == nil && x.status == x.denial }

// failed reports whether neither is known.
func (x *exchange) failed() bool { return !x.admitted() && !x.denied() }

// late reports whether the answer did not come in time, so that it is not known what became of the request.
func (x *exchange) late() bool {
	var timeout net.Error
	return errors.As(x.err, &timeout) && timeout.Timeout()
}

// String returns the outcome as a report has it.
func (x *exchange) String() string {
	switch {
	case x.err != nil:
		return "not answered"
	case x.admitted():
		return "admitted"
	case x.denied():
		return "denied"
	}
	return fmt.Sprintf("answered %d", x.status)
}

// tally is what became of several requests.
type tally struct{ admitted, denied, failed int }

func count(answers []exchange) (t tally) {
	for i := range answers {
		switch x := &answers[i]; {
		case x.admitted():
			t.admitted++
		case x.denied():
			t.denied++
		default:
			t.failed++
		}
	}
	return t
}

// failures returns the first requests that were neither admitted nor denied.
func failures(answers []exchange) (lines []string) {
	for i := range answers {
		if x := &answers[i]; x.failed() && len(lines) < 3 {
			text := fmt.Sprintf("request %d: %s", i+1, x)
			if x.err != nil {
				text += fmt.Sprintf(": %v", x.err)
			}
			lines = append(lines, text)
		}
	}
	return lines
}

// took returns the time from the first sending to the last answer.
func took(answers []exchange) time.Duration {
	first, last := ends(answers)
	return last.Sub(first)
}

// ends returns the first sending and the last answer.
func ends(answers []exchange) (first, last time.Time) {
	if len(answers) == 0 {
		return first, last
	}
	first, last = answers[0].sent, answers[0].answered
	for _, x := range answers {
		if x.sent.Before(first) {
			first = x.sent
		}
		if x.answered.After(last) {
			last = x.answered
		}
	}
	return first, last
}

// mostWithin returns the most admitted requests that were surely decided within an interval shorter
// than d, and the interval's length.
func mostWithin(d time.Duration, answers []exchange) (most int, length time.Duration) {
	for i := range answers {
		if !answers[i].admitted() {
			continue
		}
		n, start, last := 0, answers[i].sent, time.Duration(0)
		for j := range answers {
			x := &answers[j]
			if end := x.answered.Sub(start); x.admitted() && !x.sent.Before(start) && end < d {
				n, last = n+1, max(last, end)
			}
		}
		if n > most {
			most, length = n, last
		}
	}
	return most, length
}

// story returns answers as lines of a report, at most so many of the last.
func story(answers []exchange, most int) (lines []string) {
	if len(answers) == 0 {
		return nil
	}
	start := answers[0].sent
	for i := max(0, len(answers)-most); i < len(answers); i++ {
		x := &answers[i]
		lines = append(lines, fmt.Sprintf("request %d, sent at %s, answered at %s: %s", i+1,
			seconds(x.sent.Sub(start)), seconds(x.answered.Sub(start)), x))
	}
	return lines
}

// seconds returns d as a report has it.
func seconds(d time.Duration) string { return fmt.Sprintf("%.3f s", d.Seconds()) }
