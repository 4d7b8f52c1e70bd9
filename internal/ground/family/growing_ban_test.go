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

func TestGrowingBan(t *testing.T) {
	for name, table := range map[string]string{
		"each ban of a row is twice as long, up to the longest": `
			0s     take 5 -> allowed, in use 5, reset 1m0s, wait 1m0s
			59s    take 0 -> denied, in use 5, reset 1s, wait 1s
			1m0s   take 1 -> allowed, in use 1, reset 10s, wait 10s
			1m1s   take 9 -> allowed, in use 10, reset 2m0s, wait 2m0s
			3m1s   take 0 -> allowed, in use 0, reset 0s, wait 10s
			4m0s   take 5 -> allowed, in use 5, reset 4m0s, wait 4m0s
			8m0s   take 5 -> allowed, in use 5, reset 5m0s, wait 5m0s
			13m0s  take 5 -> allowed, in use 5, reset 5m0s, wait 5m0s`,
		"a row is over once no ban has begun for as long as the longest": `
			0s           take 5 -> allowed, in use 5, reset 1m0s, wait 1m0s
			5m59.999999s take 5 -> allowed, in use 5, reset 2m0s, wait 2m0s
			12m59.999999s take 5 -> allowed, in use 5, reset 1m0s, wait 1m0s`,
		"the instant at which a ban begins counts, not its first unit": `
			0s   take 5 -> allowed, in use 5, reset 1m0s, wait 1m0s
			5m59s take 4 -> allowed, in use 4, reset 10s, wait 10s
			6m1s take 1 -> allowed, in use 5, reset 1m0s, wait 1m0s`,
		"peeks and denials lengthen nothing": `
			0s   take 5 -> allowed, in use 5, reset 1m0s, wait 1m0s
			30s  take 9 -> denied, in use 5, reset 30s, wait 30s
			59s  take 0 -> denied, in use 5, reset 1s, wait 1s
			2m0s take 0 -> allowed, in use 0, reset 0s, wait 10s
			6m0s take 5 -> allowed, in use 5, reset 1m0s, wait 1m0s`,
		"a charge bans and grows, and counts nothing during a ban": `
			0s   charge 20 -> charged 10, in use 10, reset 1m0s, wait 1m0s
			2s   charge 1  -> charged 0, in use 10, reset 58s, wait 58s
			1m0s charge 6  -> charged 6, in use 6, reset 2m0s, wait 2m0s`,
		"a return that lifts a ban takes it out of the row": `
			0s   take 5                  -> allowed, in use 5, reset 1m0s, wait 1m0s
			1s   return 1 of 5 from 0s   -> returned 1, in use 4, reset 9s, wait 9s
			2s   take 1                  -> allowed, in use 5, reset 1m0s, wait 1m0s
			2m0s take 5                  -> allowed, in use 5, reset 2m0s, wait 2m0s
			3m0s return 5 of 5 from 2m0s -> returned 5, in use 0, reset 0s, wait 10s
			4m0s take 5                  -> allowed, in use 5, reset 2m0s, wait 2m0s`,
		"a row that a return left lasts from the start of that period": `
			0s           take 5                  -> allowed, in use 5, reset 1m0s, wait 1m0s
			3m0s         take 5                  -> allowed, in use 5, reset 2m0s, wait 2m0s
			4m0s         return 5 of 5 from 3m0s -> returned 5, in use 0, reset 0s, wait 10s
			7m59.999999s take 5                  -> allowed, in use 5, reset 2m0s, wait 2m0s
			8m0s         return 5 of 5 from 7m59.999999s -> returned 5, in use 0, reset 0s, wait 10s
			12m59.999999s take 5                 -> allowed, in use 5, reset 1m0s, wait 1m0s`,
		"after the ban nothing is returned": `
			0s   take 5                  -> allowed, in use 5, reset 1m0s, wait 1m0s
			1m0s return 5 of 5 from 0s   -> returned 0, in use 0, reset 0s, wait 10s
			2m0s take 5                  -> allowed, in use 5, reset 2m0s, wait 2m0s`,
		"inherited units deny, and ban nobody": `
			0s inherit 4             -> inherited, in use 4, reset 10s, wait 10s
			4s take 2                -> allowed, in use 6, reset 10s, wait 10s
			5s take 0                -> denied, in use 6, reset 9s, wait 9s
			5s charge 2              -> charged 2, in use 8, reset 10s, wait 10s
			6s return 1 of 2 from 4s -> returned 0, in use 8, reset 9s, wait 9s
			6s return 9 of 9 from 5s -> returned 4, in use 4, reset 9s, wait 9s
			7s take 5                -> allowed, in use 9, reset 1m0s, wait 1m0s
			8s take 1                -> denied, in use 9, reset 59s, wait 59s
			2m0s take 5              -> allowed, in use 5, reset 2m0s, wait 2m0s`,
		"inherited units are over after a period, and fewer than the number": `
			0s  inherit 9 -> inherited, in use 4, reset 10s, wait 10s
			10s take 4    -> allowed, in use 4, reset 10s, wait 10s
			12s take 1    -> allowed, in use 5, reset 1m0s, wait 1m0s`,
		"a return is of a taking in the period": `
			0s  take 5                  -> allowed, in use 5, reset 1m0s, wait 1m0s
			20s return 1 of 5 from 10s  -> returned 0, in use 5, reset 40s, wait 40s`,
		"a full count returns nothing": `
			0s take 9223372036854775807                -> allowed, in use 67108863, reset 1m0s, wait 1m0s
			1s return 67108863 of 67108863 from 0s -> returned 0, in use 67108863, reset 59s, wait 59s`,
	} {
		t.Run(name, func(t *testing.T) {
			specifyKey(t, newKey(limits.Ban(limits.Per(5, 10*time.Second), time.Minute).Growing(5*time.Minute)), table)
		})
	}
}

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
