package family

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/internal/ground/steps"
	"github.com/weir-go/weir/internal/proof/testrun"
	"github.com/weir-go/weir/limits"
)

// begin is the instant 0s of all tests: a midnight, so a turn of most windows.
var begin = time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC).UnixMicro()

// key is a key under one limit. It does with a state what a store does.
type key struct {
	limit Compiled
	Numbers
	begin   int64 // the instant 0s
	used    Used
	entries *entries
	ring    *Ring // nil: of a bucket that remembers no levels
	lasts   int64 // of the charges of a bucket with a ring; 0: it has none
}

func newKey(limit limits.Limit) *key {
	k := &key{entries: new(entries), begin: begin}
	k.limit, k.Numbers = Compile(limit)
	return k
}

// step is what happens to a key: a line of a specification.
type step struct {
	at       int64 // after the beginning, as are all instants of a step
	verb     string
	n        int64
	value    uint64
	of, from int64 // return: n units of so many, which were taken then
}

func (s step) String() string {
	line := fmt.Sprintf("%v %s %d", duration(s.at), s.verb, s.n)
	if s.verb == "return" {
		line += fmt.Sprintf(" of %d from %v", s.of, duration(s.from))
	}
	return line
}

// outcome is what a step leads to. After steps other than takings, the key is told what a peek is.
type outcome struct {
	word  string
	fits  bool
	added int64 // units; return: that came back
	Told
}

func (o outcome) String() string {
	wait := duration(o.Wait).String()
	if o.Wait < 0 {
		wait = "never"
	}
	return fmt.Sprintf("%s, in use %d, reset %v, wait %s", o.word, o.InUse, duration(o.Reset), wait)
}

func duration(us int64) time.Duration { return time.Duration(us) * time.Microsecond }

// do makes a step.
func (k *key) do(s step) (o outcome) {
	now := k.begin + s.at
	if k.Values {
		s.n = min(s.n, 1)
	}
	asOf, before, _ := k.limit.Decide(k.used, 0, now, 0, k.entries)
	switch s.verb {
	case "take":
		asOf, o.Told, o.fits = k.limit.Decide(k.used, s.n, now, s.value, k.entries)
		if o.word = "denied"; o.fits {
			o.word = "allowed"
		}
		if o.fits && s.n > 0 {
			o.added = s.n
			k.store(asOf, s.value, now)
		}
		if !o.fits && s.n > k.Max && !k.Bans {
			o.Wait = -1
		}
		return o
	case "charge":
		if asOf, o.added = k.limit.Charge(asOf, s.n, before.InUse, now); o.added > 0 {
			k.store(asOf, s.value, now)
		}
		o.word = fmt.Sprint("charged ", o.added)
	case "return":
		if k.limit.FreshAt(k.used) > now || k.Held {
			k.used = k.limit.Refund(k.used, Refund{Taken: s.of, Final: s.of - s.n, At: k.begin + s.from, Now: now, Ring: k.ring},
				k.entries)
		}
	case "inherit": // a key that is not found
		asOf, _, _ = k.limit.Decide(Used{}, 0, now, 0, k.entries)
		inherited, ok := k.limit.Inherit(asOf, s.n)
		if !ok {
			inherited, _ = k.limit.Charge(asOf, s.n, 0, now)
		}
		k.store(inherited, s.value, now)
		o.word = "inherited"
	default:
		panic("no such step: " + s.verb)
	}
	_, o.Told, o.fits = k.limit.Decide(k.used, 0, now, 0, k.entries)
	if s.verb == "return" {
		o.added = before.InUse - o.InUse
		o.word = fmt.Sprint("returned ", o.added)
	}
	return o
}

// store makes s, to which units were just added, the state of k.
func (k *key) store(s Used, value uint64, now int64) {
	switch {
	case k.Lists:
		if Log(s).Head() == 0 {
			free(Log(k.used).Head(), 0, k.entries) // the store drops what s replaces
		}
		s = k.limit.(Lister).Store(onStored(s, k.used), now, value, k.entries)
	case k.lasts == 0:
	case k.ring == nil:
		k.ring = NewRing(now, k.lasts)
	default:
		found, _, _ := k.limit.Decide(k.used, 0, now, 0, k.entries)
		k.ring.Note(now, found)
	}
	k.used = s
}

// onStored returns the state s, which was decided on a stored one, on top of it.
func onStored(s, stored Used) Used {
	if Log(s).Head() == 0 {
		return s
	}
	return Used(Log(s).On(Log(stored)))
}

// entries is the store of one log. The number 0 ends a list, so no list has its first entry.
type entries struct {
	all  []Entry
	free []uint32
	most int // entries that may be in use; 0: any number
}

func (e *entries) Get(i uint32) Entry    { return e.all[i] }
func (e *entries) Set(i uint32, x Entry) { e.all[i] = x }
func (e *entries) Link(i, next uint32)   { e.all[i].Next = next }

func (e *entries) Free(i uint32) {
	e.all[i] = Entry{Word: -1, Next: i} // a reader of it runs in a circle
	e.free = append(e.free, i)
}

func (e *entries) Find(head uint32, word int64, mark uint8) (i, before uint32) {
	for i = head; i != 0; i, before = e.all[i].Next, i {
		if e.all[i].Word == word && e.all[i].Mark == mark {
			return i, before
		}
	}
	return 0, 0
}

func (e *entries) Append(_, tail uint32, x Entry) (i uint32) {
	if e.all == nil {
		e.all = make([]Entry, 1)
	}
	switch n := len(e.free); {
	case n > 0:
		i, e.free = e.free[n-1], e.free[:n-1]
	case e.most > 0 && len(e.all) > e.most:
		return 0
	default:
		i, e.all = uint32(len(e.all)), append(e.all, Entry{})
	}
	if e.all[i] = x; tail != 0 {
		e.all[tail].Next = i
	}
	return i
}

// wrong returns what is wrong with the list of a state, "" if nothing is: each entry is in it or
// free, and the units are as many as the state says.
func (e *entries) wrong(s Used) string {
	listed, units := 0, Log(s).Latest()
	for i := Log(s).Head(); i != 0 && listed < len(e.all); i = e.all[i].Next {
		listed, units = listed+1, units+int64(e.all[i].Units)
	}
	if lost := max(0, len(e.all)-1) - len(e.free) - listed; lost != 0 {
		return fmt.Sprintf("%d entries are in no list", lost)
	}
	if sum := Log(s).Sum(); units != sum {
		return fmt.Sprintf("a list of %d units has %d", sum, units)
	}
	return ""
}

// makes makes a step of a table, and compares what it leads to.
func (k *key) makes(t *testing.T, want steps.Step) {
	t.Helper()
	s := step{at: want.At.Microseconds(), verb: string(want.Verb), n: want.Units, value: valueOf(want.Value),
		of: want.Of, from: want.From.Microseconds()}
	o := k.do(s)
	n := int64(0) // of a look
	if want.Verb == steps.Take {
		n = s.n
	}
	got := steps.Want{Changed: o.added, InUse: o.InUse}
	switch want.Verb {
	case steps.Take, steps.Inherit:
		got.Changed = 0
	case steps.Return:
		got.Changed = min(o.added, s.n) // a ban may forget more with its period
	}
	k.Describe(&got.Decision, n, o.Told, o.fits)
	if o.added > 0 && want.Verb == steps.Take {
		got.Decision.Delay = k.Queued(k.used, n)
	}
	if k.Held {
		got.Decision.EffectiveWindow = limits.Never
	}
	if got != want.Want {
		t.Errorf("%s: %v\n%v -> %v\nwant %v", want.Place, k.Given, s, got, want.Want)
	}
	if wrong := k.untrue(s, o); wrong != "" {
		t.Errorf("%s: %v %v -> %v: %s", want.Place, k.Given, s, o, wrong)
	}
}

// valueOf returns the number of a value. That of "" is 0.
func valueOf(name string) (sum uint64) {
	for _, b := range []byte(name) {
		sum = sum<<8 | uint64(b)
	}
	return sum
}

// specify makes the steps of a text in the form of package steps, below "under".
func specify(t *testing.T, k *key, text string) {
	t.Helper()
	tables, err := steps.Parse("text", fmt.Sprintf("== steps\nwhy: below\narithmetic\nunder %v\n%s", k.Given, text))
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range tables[0].Phases[0].Steps {
		k.makes(t, s)
	}
}

// untrue returns what is wrong with what the key was told, "" if nothing is. The state is fresh
// after Reset. Wait is the least wait at which the units of a step that was denied fit, or one unit
// where nothing is left.
func (k *key) untrue(s step, o outcome) string {
	switch level := levelOf(k.used); {
	case k.Held:
		return "" // it has no instants
	case k.Drains && (level.us < 0 || level.frac < 0 || level.frac >= k.q):
		return fmt.Sprintf("%+v is no level", level)
	}
	fresh := max(0, k.limit.FreshAt(k.used)-k.begin-s.at)
	if k.Lists {
		if wrong := k.entries.wrong(k.used); wrong != "" {
			return wrong
		}
	}
	if k.Lists && o.InUse == 0 {
		fresh = 0 // and the instant is that of a taking that was returned
	}
	if _, grows := k.limit.(*growingBan); o.Reset != fresh && !(grows && o.Reset < fresh) {
		return fmt.Sprintf("it is fresh after %v", duration(fresh))
	}
	ask := int64(1)
	switch {
	case o.fits && o.InUse < k.Max && o.Wait != 0 && !k.Ends:
		return "one more unit fits, and there is a wait"
	case o.Wait < 0 || o.fits && o.InUse < k.Max:
		return ""
	case !o.fits:
		ask = s.n
		if s.verb != "take" {
			ask = 0 // a peek
		}
	}
	at, value := k.begin+s.at+o.Wait, s.value
	if o.fits {
		value = math.MaxUint64 // a new one
	}
	if _, _, fits := k.limit.Decide(k.used, ask, at, value, k.entries); !fits {
		return fmt.Sprintf("%d do not fit after the wait", ask)
	}
	if _, _, fits := k.limit.Decide(k.used, ask, at-1, value, k.entries); fits {
		return fmt.Sprintf("%d fit 1µs before the wait is over", ask)
	}
	return ""
}

// model is an algorithm by its definition: it looks at all takings.
type model struct {
	// inUse returns how many units are in use.
	inUse func(k *key, h history, now int64) int64

	// returns reports how much of n units of the i-th taking comes back; nil: all.
	returns func(k *key, h history, i int, n int64) int64

	// parts is how many parts a unit has, in which history counts; nil: one.
	parts func(k *key) int64

	// atMost says that less than returns may come back, in parts.
	atMost bool

	// lenient says that a key may have less in use after a return than if what came back had never
	// been taken.
	lenient bool
}

// history is the takings of a key, oldest first.
type history []taking

type taking struct {
	at    int64
	units int64 // that were taken; 0: it was a charge, which never comes back
	left  int64 // parts that have not come back
}

// last returns the instant of the latest taking.
func (h history) last() int64 { return h[len(h)-1].at }

// follow tries random steps of keys under random limits, and compares them with the model.
func follow(t *testing.T, m model, anyLimit func(*rand.Rand) limits.Limit) {
	follows(t, m, func(random *rand.Rand) *key { return newKey(anyLimit(random)) })
}

func follows(t *testing.T, m model, anyKey func(*rand.Rand) *key) {
	t.Helper()
	random := testrun.Random(t)
	for range testrun.Sized(100, 5000) {
		k := anyKey(random)
		steps := []string{fmt.Sprint(k.Given)}
		if wrong := m.follow(k, random, &steps); wrong != "" {
			t.Fatalf("%s:\n%s", wrong, strings.Join(steps, "\n"))
		}
	}
}

func (m *model) follow(k *key, random *rand.Rand, steps *[]string) string {
	var h history
	s, o, parts := step{}, outcome{}, int64(1)
	if m.parts != nil {
		parts = m.parts(k)
	}
	for range 100 {
		s.at += []int64{0, 0, random.Int64N(1 + k.Period/k.Max), random.Int64N(1 + k.Period), random.Int64N(1 + 3*k.Period),
			max(0, o.Wait), o.Reset, 1}[random.IntN(8)]
		s.verb, s.n = "take", []int64{1, 1 + random.Int64N(1+k.Max/4), random.Int64N(k.Max + 3)}[random.IntN(3)]
		now, i := begin+s.at, -1
		switch random.IntN(8) {
		case 0:
			s.n = 0
		case 1:
			s.verb = "charge"
		case 2, 3:
			if len(h) > 0 {
				i = max(random.IntN(len(h)), random.IntN(len(h)))
			}
			if i < 0 || h[i].units == 0 {
				continue
			}
			s.verb, s.of, s.from = "return", h[i].units, h[i].at-begin
			s.n = 1 + random.Int64N(s.of)
		}
		used := m.inUse(k, h, now)
		before := k.used
		o = k.do(s)
		*steps = append(*steps, fmt.Sprint(s, " -> ", o))
		fits := s.n == 0 || s.n <= k.Max-used
		if k.Bans {
			fits = used < k.Max
		}
		switch {
		case s.verb == "take" && o.fits != fits:
			return fmt.Sprint("it should fit: ", fits)
		case s.verb == "charge":
			want := min(s.n, max(0, 2*k.Max-used))
			if k.Held {
				want = s.n
			} else if k.Bans && !fits {
				want = 0
			}
			if o.added != want {
				return fmt.Sprintf("it should be charged %d", want)
			}
		}
		if o.added > 0 && s.verb != "return" {
			h = append(h, taking{at: now, left: parts * o.added})
			if s.verb == "take" {
				h[len(h)-1].units = o.added
			}
		}
		if i >= 0 {
			if wrong := m.comesBack(k, h, i, parts*s.n, now, before, o.InUse); wrong != "" {
				return wrong
			}
			if m.inUse(k, h, now) == 0 {
				h = nil // as if there had never been any
			}
		}
		if want := m.inUse(k, h, now); o.InUse != want {
			return fmt.Sprintf("%d should be in use", want)
		}
		if !k.Held && m.inUse(k, h, now+o.Reset) != 0 {
			return "it is not fresh after the reset"
		}
		if wrong := k.untrue(s, o); wrong != "" {
			return wrong
		}
	}
	return ""
}

// comesBack takes what comes back of n parts off the i-th taking of h. before is the state before.
func (m *model) comesBack(k *key, h history, i int, n, now int64, before Used, inUse int64) string {
	without := append(history(nil), h...)
	if without[i].left -= n; without[i].left == 0 {
		without = append(without[:i], without[i+1:]...)
	}
	never := m.inUse(k, without, now)
	if inUse < m.inUse(k, h, now) && inUse < never && !m.lenient {
		return fmt.Sprintf("%d would be in use if they had never been taken", never)
	}
	back := n
	if m.inUse(k, h, now) == 0 {
		back = 0 // all is over
	} else if m.returns != nil {
		back = m.returns(k, h, i, n)
	}
	if m.atMost {
		got := (before.A-k.used.A)*k.q + before.B - k.used.B
		if got > back {
			return fmt.Sprintf("%d parts came back, at most %d should", got, back)
		}
		back = got
	}
	h[i].units, h[i].left = 0, h[i].left-back
	return ""
}

// anyRate returns a rate whose windows and drains rarely take whole numbers of microseconds.
func anyRate(random *rand.Rand) limits.Rate {
	return limits.Per(1+random.Int64N(12), time.Duration(1000+random.IntN(3000))*time.Microsecond)
}
