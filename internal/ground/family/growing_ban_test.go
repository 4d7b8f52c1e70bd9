package family

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/internal/proof/testrun"
	"github.com/weir-go/weir/limits"
)

func TestARowOfBansIsCountedTo63(t *testing.T) {
	k := newKey(limits.Ban(limits.Per(1, time.Millisecond), time.Millisecond).Growing(366 * 24 * time.Hour))
	now := int64(0)
	for n := range 100 {
		o := k.do(step{at: now, verb: "take", n: 1})
		want := (366 * 24 * time.Hour).Microseconds()
		if n < 35 {
			want = min(want, 1000<<n)
		}
		if row := growing(k.used).row(); o.Reset != want || row != int64(min(n+1, 63)) {
			t.Fatalf("ban %d lasts %v, want %v; %d in a row", n+1, duration(o.Reset), duration(want), row)
		}
		now += o.Reset
	}
}

// rowOfBans is a growing ban by its definition. It remembers everything.
type rowOfBans struct {
	number, period, first, longest int64

	bans    []struct{ began, ended int64 }
	start   int64    // of the period
	takings []taking // in the period
	banned  bool     // the period led to the last of bans
}

func (m *rowOfBans) units() (sum int64) {
	for _, t := range m.takings {
		sum += t.left
	}
	return sum
}

// advance ends the period if it is over.
func (m *rowOfBans) advance(now int64) {
	over := m.start + m.period
	if m.banned {
		over = m.bans[len(m.bans)-1].ended
	}
	if now >= over {
		m.takings, m.banned = nil, false
	}
}

func (m *rowOfBans) add(units, n, now int64) {
	if len(m.takings) == 0 {
		m.start = now
	}
	m.takings = append(m.takings, taking{at: now, units: units, left: n})
	if m.banned || m.units() < m.number {
		return
	}
	lasts, began := m.first, now
	for i := len(m.bans) - 1; i >= 0 && began < m.bans[i].ended+m.longest; i-- {
		lasts, began = min(2*lasts, m.longest), m.bans[i].began
	}
	m.bans = append(m.bans, struct{ began, ended int64 }{now, now + lasts})
	m.banned = true
}

// refund returns n units of a taking, and reports how many units fewer there are.
func (m *rowOfBans) refund(i int, n int64) int64 {
	m.takings[i].left -= n
	m.takings[i].units = 0
	if m.banned && m.units() < m.number {
		last := len(m.bans) - 1
		began := m.bans[last].began
		m.banned, m.bans = false, m.bans[:last]
		if last > 0 && began < m.bans[last-1].ended+m.longest { // they were in a row
			m.bans[last-1].ended = m.start
		}
	}
	if m.units() == 0 {
		m.takings = nil
	}
	return n
}

func TestGrowingBanByItsDefinition(t *testing.T) {
	random := testrun.Random(t)
	for range testrun.Sized(300, 10_000) {
		number, period := 1+random.Int64N(6), 1000+random.Int64N(3000)
		first := 1000 + random.Int64N(4000)
		longest := first * (1 + random.Int64N(20))
		k := newKey(limits.Ban(limits.Per(number, duration(period)), duration(first)).Growing(duration(longest)))
		m := &rowOfBans{number: number, period: period, first: first, longest: longest}
		lines := []string{fmt.Sprint(k.Given)}
		if wrong := m.follow(k, random, &lines); wrong != "" {
			t.Fatalf("%s:\n%s", wrong, strings.Join(lines, "\n"))
		}
	}
}

func (m *rowOfBans) follow(k *key, random *rand.Rand, lines *[]string) string {
	var o outcome
	at := int64(0)
	for range 100 {
		untilFresh := k.limit.FreshAt(k.used) - begin - at
		at += max(0, []int64{0, 1, random.Int64N(m.period), o.Reset, o.Reset - 1, untilFresh,
			untilFresh - 1, random.Int64N(2 * m.longest)}[random.IntN(8)])
		now := begin + at
		m.advance(now)
		s, before := step{at: at, verb: "take", n: random.Int64N(m.number + 2)}, m.units()
		switch random.IntN(6) {
		case 0:
			s.verb = "charge"
		case 1, 2:
			if len(m.takings) == 0 {
				continue
			}
			i := random.IntN(len(m.takings))
			s.of, s.from = m.takings[i].units, m.takings[i].at-begin
			if s.of == 0 || m.takings[i].at >= m.start+m.period {
				continue
			}
			s.verb, s.n = "return", 1+random.Int64N(s.of)
			m.refund(i, s.n)
			m.advance(now) // a ban that is lifted may have outlasted its period
		}
		o = k.do(s)
		*lines = append(*lines, fmt.Sprint(s, " -> ", o))
		switch {
		case s.verb == "take" && o.fits == m.banned:
			return fmt.Sprint("it should fit: ", !m.banned)
		case s.verb == "take" && o.fits && s.n > 0:
			m.add(s.n, s.n, now)
		case s.verb == "charge":
			want := min(s.n, max(0, 2*m.number-before))
			if m.banned {
				want = 0
			}
			if o.added != want {
				return fmt.Sprintf("it should be charged %d", want)
			}
			if want > 0 {
				m.add(0, want, now)
			}
		}
		reset := int64(0)
		if m.banned {
			reset = m.bans[len(m.bans)-1].ended - now
		} else if m.units() > 0 {
			reset = m.start + m.period - now
		}
		if o.InUse != m.units() || o.Reset != reset {
			return fmt.Sprintf("in use %d, reset %v are right", m.units(), duration(reset))
		}
		fresh := now + reset
		if len(m.bans) > 0 {
			fresh = max(fresh, m.bans[len(m.bans)-1].ended+m.longest)
		}
		if got := max(now, k.limit.FreshAt(k.used)); got != max(now, fresh) {
			return fmt.Sprintf("it is fresh at %v, want %v", duration(got-begin), duration(fresh-begin))
		}
	}
	return ""
}
