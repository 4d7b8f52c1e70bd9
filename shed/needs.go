package shed

import (
	"maps"
	"strings"
	"sync"
	"time"
)

const (
	maxNeeds  = 256              // names with counts of their own
	needIdle  = 30 * time.Second // a name without a request for so long is forgotten
	needLife  = time.Second
	beyond    = 0.1  // more than succeeded go on while services behind refuse some
	doubling  = 1.0  // the same while they refuse none
	tolerable = 0.05 // part that they refuse from which beyond holds
	knocks    = 4.0  // requests in needLife that go on whatever they refuse
)

// needs sheds ahead what services behind would refuse: of each name as many requests that, of those
// that go on, these refuse about a tenth. The most important classes go on first. So the services
// that would have done their part of such a request in vain have room for others.
//
// It is the client's side of "Handling Overload" (Beyer and others, Site Reliability Engineering,
// 2016), by class. It is safe for concurrent use.
type needs struct {
	mu     sync.Mutex
	names  map[string]*need
	others need    // of names for which there is no room
	looked instant // when idle names were last looked for
}

// need has the requests of a name, of which each needLife halves the count.
type need struct {
	of      *needs
	at      instant
	asked   [maxClasses]float64 // that have ended or were shed ahead, by class
	got     float64             // that services behind did not refuse
	refused float64             // that they did
}

// admit returns what a request of a class needs, and whether it may go on.
func (n *needs) admit(name string, rank int, lot uint32, now instant) (*need, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	x := n.ofLocked(name, now)
	x.ageLocked(now)
	room := x.roomLocked()
	for _, asked := range x.asked[:rank] {
		room -= asked
	}
	if float64(lot)/lots*x.asked[rank] < room {
		return x, true
	}
	x.asked[rank]++
	return nil, false
}

// ofLocked returns the counts of a name.
func (n *needs) ofLocked(name string, now instant) *need {
	if x := n.names[name]; x != nil {
		return x
	}
	if len(n.names) >= maxNeeds && now-n.looked >= needLife {
		n.looked = now
		maps.DeleteFunc(n.names, func(_ string, x *need) bool { return now-x.at > needIdle })
	}
	if len(n.names) >= maxNeeds {
		return &n.others
	}
	x := &need{of: n}
	n.names[strings.Clone(name)] = x
	return x
}

// roomLocked returns how many of the requests that were asked should have gone on. A quarter of what
// services behind would not have refused goes on in any case: where they refuse more than a tenth at
// any load, a tenth more than succeed would be fewer each second.
func (x *need) roomLocked() float64 {
	part := x.refused / max(1, x.got+x.refused)
	more := beyond + (doubling-beyond)*max(0, 1-part/tolerable)
	total := 0.0
	for _, asked := range x.asked {
		total += asked
	}
	return knocks + max((1+more)*x.got, total*(1-part)/4)
}

func (x *need) ageLocked(now instant) {
	if now <= x.at {
		return
	}
	left := half(now-x.at, needLife)
	x.at = now
	x.got *= left
	x.refused *= left
	for i := range x.asked {
		x.asked[i] *= left
	}
}

// end notes how a request of a class that went on has ended, or that it has become a stream.
func (x *need) end(rank int, result *Result, now instant) {
	if x == nil || result.Left && result.Refused {
		return
	}
	x.of.mu.Lock()
	defer x.of.mu.Unlock()
	x.ageLocked(now)
	x.asked[rank]++
	if result.Refused {
		x.refused++
	} else {
		x.got++
	}
}
