package shed

import (
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/internal/ground/shedlimit"
	"github.com/weir-go/weir/internal/proof/testrun"
)

// model is the definition of the limiter by the slowest and plainest means: lists, searched
// from end to end.
type model struct {
	limit, room int
	shares      []int
	running     []mine
	waiting     []mine // the oldest first
	closed      []time.Duration
	admitted    []int
	shed        []int
	left        []int
	open        bool   // the mode is not enforce
	passing     []mine // that the mode alone has let in
	shadowed    []int
}

type mine struct{ id, class int }

// bound returns the limit that counts: everybody has a place, and the most important class another one.
func (m *model) bound() int {
	if m.limit == 1 && m.shares[len(m.shares)-1] < m.shares[0] {
		return 2
	}
	return m.limit
}

func (m *model) entry(class int) int {
	for n := 0; ; n++ {
		last := m.shares[class] < m.shares[0] && n == m.bound()-1 // the first class has 100
		if n*100 >= m.shares[class]*m.bound() || last {
			return n
		}
	}
}

func (m *model) inFlight(class int) (n int) {
	for _, r := range m.running {
		if r.class == class {
			n++
		}
	}
	return n
}

const never = -time.Hour

func (m *model) admits(class int, now time.Duration) bool {
	if len(m.running) >= m.entry(class) {
		return false
	}
	passed := now - m.closed[class]
	return passed >= time.Second || m.inFlight(class) <= int(int64(m.entry(class))*int64(passed)/int64(time.Second))
}

func (m *model) begin(r mine) {
	m.running = append(m.running, r)
	m.admitted[r.class]++
}

// dispatch lets in those who wait: by class, of a class the newest.
func (m *model) dispatch(now time.Duration) {
	for class := range m.shares {
		for i := len(m.waiting) - 1; i >= 0; i-- {
			if w := m.waiting[i]; w.class == class && m.admits(class, now) {
				m.waiting = slices.Delete(m.waiting, i, i+1)
				m.begin(w)
			}
		}
	}
}

// pass lets in a request that would have been shed.
func (m *model) pass(r mine) {
	m.passing = append(m.passing, r)
	m.shadowed[r.class]++
}

// setMode opens the model, or closes it. Nobody waits while it is open.
func (m *model) setMode(open bool, now time.Duration) {
	m.open = open
	m.dispatch(now)
	if open {
		for _, w := range m.waiting {
			m.pass(w)
		}
		m.waiting = nil
	}
}

// arrive returns what becomes of a request: 'r' runs, 'p' passes in addition, 'w' waits, 's' is shed.
func (m *model) arrive(r mine, now time.Duration) byte {
	m.dispatch(now)
	if m.admits(r.class, now) {
		m.begin(r)
		return 'r'
	}
	above := 0
	for class := range r.class {
		above += m.inFlight(class)
	}
	if above >= m.entry(r.class) {
		for class := r.class; class < len(m.closed); class++ {
			m.closed[class] = now
		}
	}
	if m.open {
		m.pass(r)
		return 'p'
	}
	room := m.room
	if room == 0 {
		room = m.bound()
	}
	for len(m.waiting) >= room {
		victim := -1
		for i, w := range m.waiting {
			if w.class >= r.class && (victim < 0 || w.class > m.waiting[victim].class) {
				victim = i
			}
		}
		if victim < 0 {
			m.shed[r.class]++
			return 's'
		}
		m.shed[m.waiting[victim].class]++
		m.waiting = slices.Delete(m.waiting, victim, victim+1)
	}
	m.waiting = append(m.waiting, r)
	return 'w'
}

func (m *model) remove(list *[]mine, id int) bool {
	i := slices.IndexFunc(*list, func(r mine) bool { return r.id == id })
	if i < 0 {
		return false
	}
	*list = slices.Delete(*list, i, i+1)
	return true
}

// settable is an algorithm whose limit the test sets.
type settable struct{ limit int }

func (s *settable) Update(shedlimit.Sample) int { return s.limit }

// real is what the limiter says of a request.
type real struct {
	id     int
	class  *class
	permit *Permit // nil: it waits, or is decided
	waiter *waiter
}

// decided moves the permit of a waiter that has been let in to where it is looked for.
func (r *real) decided() {
	if r.waiter == nil {
		return
	}
	select {
	case <-r.waiter.decided:
		r.permit = r.waiter.entry.permit
		r.waiter = nil
	default:
	}
}

// improvise plays steps that next chooses, on limiter and model.
func improvise(t *testing.T, next func(n int) int, steps int) {
	synctest.Test(t, func(t *testing.T) {
		shares := []int{100, 1 + next(100), 1 + next(100)}
		slices.Sort(shares)
		slices.Reverse(shares)
		a := &settable{1 + next(12)}
		l := &limiter{epoch: time.Now()}
		m := &model{limit: a.limit, room: next(4), shares: shares, closed: []time.Duration{never, never, never},
			admitted: make([]int, 3), shed: make([]int, 3), left: make([]int, 3), shadowed: make([]int, 3)}
		named := []Class{{"a", shares[0]}, {"b", shares[1]}, {"c", shares[2]}}
		classes := l.configure(named, limits{algorithm: a, maxWaiting: m.room})
		l.window.most = 1 << 62 // the test updates
		var requests []*real
		for step := range steps {
			now := l.now()
			switch action := next(16); {
			case action < 7: // a request arrives
				r := &real{id: step, class: classes[next(3)]}
				want := m.arrive(mine{step, r.class.rank}, now)
				e, w := l.enter(r.class, 0, 0, true)
				r.permit, r.waiter = e.permit, w
				got := byte('s')
				switch {
				case w != nil:
					got = 'w'
				case e.shadow:
					got = 'p'
				case r.permit != nil:
					got = 'r'
				}
				if got != want {
					t.Fatalf("step %d: class %s: %c, want %c", step, r.class.name, got, want)
				}
				requests = append(requests, r)
			case action < 12 && len(requests) > 0: // one ends, streams, or gives up
				r := requests[next(len(requests))]
				r.decided()
				switch {
				case r.permit != nil && next(4) == 0:
					r.permit.Stream()
				case r.permit != nil:
					r.permit.End(Result{})
					m.remove(&m.passing, r.id)
				case r.waiter != nil:
					left := next(2) == 0
					l.giveUp(r.waiter, left)
					if !left {
						m.dispatch(now)
					}
					if m.remove(&m.waiting, r.id) {
						if left {
							m.left[r.class.rank]++
						} else {
							m.shed[r.class.rank]++
						}
						r.waiter = nil
					}
					compare(t, step, l, m, requests)
					continue // let in at the last instant, it runs
				}
				if m.remove(&m.running, r.id) {
					m.dispatch(now)
				}
			case action == 12 && len(requests) > 0: // one leaves at the instant at which it is let in
				if w := requests[next(len(requests))].waiter; w != nil {
					select {
					case <-w.decided:
						had, shadow := w.entry.permit != nil && w.entry.permit.state != ended, w.entry.shadow
						l.giveUp(w, true)
						if w.entry.left != had || had && w.entry.permit != nil {
							t.Fatalf("step %d: a waiter that was let in left: %+v", step, w.entry)
						}
						for _, r := range requests {
							if r.waiter == w && had {
								r.waiter = nil
								m.left[r.class.rank]++
								if shadow {
									m.shadowed[r.class.rank]--
									m.remove(&m.passing, r.id)
									continue
								}
								m.admitted[r.class.rank]--
								m.remove(&m.running, r.id)
								m.dispatch(now)
							}
						}
					default:
					}
				}
			case action == 13: // the limit changes
				a.limit = 1 + next(12)
				m.limit = a.limit
				l.mu.Lock()
				l.updateLocked(now)
				l.window.most = 1 << 62
				l.dispatchLocked(now)
				l.mu.Unlock()
				m.dispatch(now)
			case action == 14 && next(3) == 0: // the mode changes
				open := next(2) == 0
				l.configure(named, limits{algorithm: a, maxWaiting: m.room, open: open})
				m.setMode(open, now)
			default:
				time.Sleep(time.Duration(next(400)) * time.Millisecond)
			}
			compare(t, step, l, m, requests)
		}
	})
}

// compare fails if limiter and model differ.
func compare(t *testing.T, step int, l *limiter, m *model, requests []*real) {
	t.Helper()
	s := l.state()
	if s.InFlight != len(m.running) || s.Waiting != len(m.waiting) || s.Shadowed != len(m.passing) {
		t.Fatalf("step %d: %d in flight, %d waiting, %d passing, want %d, %d and %d", step, s.InFlight, s.Waiting, s.Shadowed, len(m.running), len(m.waiting), len(m.passing))
	}
	n := 0
	for p := l.running.First; p != nil; p = p.Next {
		if n++; p.Of.state != inFlight {
			t.Fatalf("step %d: the list of permits is broken", step)
		}
	}
	if n != s.InFlight {
		t.Fatalf("step %d: %d permits, %d in flight", step, n, s.InFlight)
	}
	for i, c := range s.Classes {
		if c.Entry != m.entry(i) || c.InFlight != m.inFlight(i) || int(c.Admitted) != m.admitted[i] || int(c.Shed) != m.shed[i] || int(c.Left) != m.left[i] || int(c.Shadowed) != m.shadowed[i] {
			t.Fatalf("step %d: %+v, want entry %d, in flight %d, admitted %d, shed %d, left %d, shadowed %d",
				step, c, m.entry(i), m.inFlight(i), m.admitted[i], m.shed[i], m.left[i], m.shadowed[i])
		}
	}
	for _, r := range requests {
		running := slices.ContainsFunc(m.running, func(o mine) bool { return o.id == r.id })
		is := r.permit != nil && r.permit.state == inFlight
		if w := r.waiter; w != nil {
			select {
			case <-w.decided:
				is = w.entry.permit != nil && w.entry.permit.state == inFlight
			default:
			}
		}
		if is != running {
			t.Fatalf("step %d: request %d of class %s runs: %v, want %v", step, r.id, r.class.name, is, running)
		}
	}
}

func TestTheLimiterIsItsModel(t *testing.T) {
	seed := testrun.Seed(t)
	for round := range uint64(300) {
		random := rand.New(rand.NewPCG(seed, round))
		improvise(t, random.IntN, 200)
		if t.Failed() {
			t.Fatalf("round %d", round)
		}
	}
}

func FuzzTheLimiterIsItsModel(f *testing.F) {
	f.Add([]byte("a request, an end, a sleep and a change of the limit"))
	f.Fuzz(func(t *testing.T, script []byte) {
		i := 0
		improvise(t, func(n int) int {
			if i == len(script) {
				return 0
			}
			i++
			return int(script[i-1]) % n
		}, min(len(script), 300))
	})
}

// A request may have read its class before a Replace that leaves the class out.
func TestARequestOfARemovedClassIsOfTheLeastImportant(t *testing.T) {
	l := &limiter{epoch: time.Now()}
	old := l.configure([]Class{{Name: "old"}}, limits{fixed: 10})[0]
	l.configure([]Class{{Name: "new"}, {Name: "last", Share: 50}}, limits{fixed: 10})
	for range 5 {
		if e, _ := l.enter(old, 0, 0, true); e.permit == nil {
			t.Fatal("shed")
		}
	}
	if e, w := l.enter(old, 0, 0, true); e.permit != nil || w == nil {
		t.Error("it did not keep to the share of the last class")
	}
	if last := l.state().Classes[1]; last.InFlight != 5 || last.Waiting != 1 {
		t.Errorf("%+v", last)
	}
}

// The mode may let a waiter in at the instant at which its client leaves.
func TestAClientThatLeavesAsTheModeLetsItInIsCountedAsLeft(t *testing.T) {
	l := &limiter{epoch: time.Now()}
	c := l.configure([]Class{{Name: "all"}}, limits{fixed: 1})[0]
	l.enter(c, 0, 0, true)
	_, w := l.enter(c, 0, 0, true)
	l.configure([]Class{{Name: "all"}}, limits{fixed: 1, open: true})
	if e := l.giveUp(w, true); !e.left || e.permit != nil || e.shadow {
		t.Errorf("%+v", e)
	}
	if s := l.state(); s.Shadowed != 0 || s.InFlight != 1 || s.Classes[0].Shadowed != 0 || s.Classes[0].Left != 1 {
		t.Errorf("%+v", s)
	}
}
