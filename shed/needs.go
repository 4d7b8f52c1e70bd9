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
	tolerable = 0.05 // refused part from which beyond holds
	knocks    = 4.0  // requests in needLife that go on whatever they refuse
	mostUsual = 0.75 // part that may be usual
	unchanged = 0.8  // times need.worst: as large a part of few is refused as of many
	worstLife = time.Minute
	usualLife = 5 * time.Minute // while fewer than all go on, or none is refused
)

// needs sheds ahead what services behind would refuse. Of each name it sheds so many requests that
// these services refuse about a tenth of the others. The most important classes go on first, and of
// a class the tenants that use no more than others. A service that would have done its part of a
// request in vain has room for another one.
//
// It is the client's side of "Handling Overload" (Beyer and others, Site Reliability Engineering,
// 2016), by class and tenant. It is safe for concurrent use.
type needs struct {
	mu     sync.Mutex
	names  map[string]*need
	others need    // of names for which there is no room
	looked instant // when idle names were last looked for
}

// need counts the requests of a name. Each needLife halves the counts.
type need struct {
	of      *needs
	at      instant
	asked   [2 * maxClasses]float64 // ended or shed ahead, by turn
	got     float64                 // not refused by services behind
	refused float64                 // refused by them

	usual float64 // part that they refuse at any load; 0: not known
	worst float64 // most that they have refused of late
	whole bool    // all requests go on, and some are refused
}

// turnOf returns how many groups of requests go on before those of a class: the more important
// classes, and of its own class the tenants that use no more than others.
func turnOf(rank int, over bool) int {
	if over {
		return 2*rank + 1
	}
	return 2 * rank
}

// admit returns the counts of a name, and whether a request with that turn may go on.
func (n *needs) admit(name string, turn int, lot uint32, now instant) (*need, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	x := n.ofLocked(name, now)
	x.ageLocked(now)
	room := x.roomLocked()
	for _, asked := range x.asked[:turn] {
		room -= asked
	}
	if float64(lot)/lots*x.asked[turn] < room {
		return x, true
	}
	x.asked[turn]++
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

// roomLocked returns how many of the requests that were asked should have gone on: a tenth more
// than succeeded, and at least a quarter of those that would succeed if as large a part did.
//
// Services that refuse a part p at any load would get fewer and fewer: of 100 requests with p =
// 0.3 70 succeed, so 77 go on, of which 54 succeed, so 59 go on, down to the quarter: 17. It is a
// trial. Under a real overload that few are hardly refused. If the part is still what it was, it
// is usual: 1.1·(17·0.7)/(1-0.3) = 19 go on, then 21, until all do. A real overload beside it is
// seen, as the part rises above the usual one.
func (x *need) roomLocked() float64 {
	part := x.refused / max(1, x.got+x.refused)
	more := beyond + (doubling-beyond)*max(0, 1-part/tolerable)
	total := 0.0
	for _, asked := range x.asked {
		total += asked
	}
	room, least := (1+more)*x.got/(1-x.usual), total*(1-part)/4
	x.worst = max(x.worst, part)
	if room < least && part <= mostUsual && part > unchanged*x.worst {
		x.usual = part
	}
	x.whole = room >= total && part > tolerable
	return knocks + max(room, least)
}

func (x *need) ageLocked(now instant) {
	if now <= x.at {
		return
	}
	left := half(now-x.at, needLife)
	x.worst *= half(now-x.at, worstLife)
	if !x.whole {
		x.usual *= half(now-x.at, usualLife)
	}
	x.at = now
	x.got *= left
	x.refused *= left
	for i := range x.asked {
		x.asked[i] *= left
	}
}

// end counts a request that went on, when it has ended or has become a stream.
func (x *need) end(turn int, result *Result, now instant) {
	if x == nil || result.Left && result.Refused {
		return
	}
	x.of.mu.Lock()
	defer x.of.mu.Unlock()
	x.ageLocked(now)
	x.asked[turn]++
	if result.Refused {
		x.refused++
	} else {
		x.got++
	}
}
