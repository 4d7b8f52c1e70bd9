package shed

import (
	"maps"
	"strings"
	"sync"
	"time"

	"github.com/weir-go/weir/shed/internal/adaptive"
)

const (
	maxNeeds = 256              // names with counts of their own
	needIdle = 30 * time.Second // a name without a request for so long may be forgotten

	needLife  = time.Second     // halves the counts of a need
	worstLife = time.Minute     // halves need.worst
	usualLife = 5 * time.Minute // halves need.usual, unless need.whole

	// How many more requests go on than succeeded: 1.0 is twice as many. As the refused part rises
	// from 0 to tolerable, the number falls evenly from doubling to beyond.
	doubling  = 1.0
	beyond    = 0.1  // also if more than tolerable is refused
	tolerable = 0.05 // part of the requests

	knocks    = 4.0  // requests that go on in addition, whatever is refused
	mostUsual = 0.75 // need.usual is at most this
	unchanged = 0.8  // times need.worst: a trial of which more is refused shows what is usual
)

// needs sheds requests ahead that services behind would refuse, for each name that Options.Needs
// returns. So many go on that these services refuse about a tenth of them. The most important
// classes go on first, and of a class the tenants that use no more than others. Other services then
// do not work in vain for requests that one of them refuses.
//
// It is the client's side of "Handling Overload" (Beyer and others, Site Reliability Engineering,
// 2016), by class and tenant. It is safe for concurrent use.
type needs struct {
	mu     sync.Mutex
	names  map[string]*need
	others need    // of names for which there is no room
	looked instant // when idle names were last looked for
}

// need counts the requests of a name that have ended or were shed ahead. Each needLife halves the
// counts.
type need struct {
	of      *needs
	at      instant                 // of the counts
	asked   [2 * maxClasses]float64 // all, by turn: see turnOf
	got     float64                 // of those that went on, not refused by services behind
	refused float64                 // of those that went on, refused by them

	usual float64 // part that they refuse at any load; 0: not known
	worst float64 // largest part that they have refused of late
	whole bool    // all requests go on, and some are refused
}

// turnOf returns the turn of a request: how many groups go on before its group. The requests of a
// class are two groups. Those of tenants that use more than others (over) are the second one.
func turnOf(rank int, over bool) int {
	if over {
		return 2*rank + 1
	}
	return 2 * rank
}

// admit decides whether a request with that turn may go on. If so, it returns the counts of the
// name, for end. In the group for which there is room in part, lot decides: a random number below
// lots.
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

// ofLocked returns the counts of a name. If there are too many names, it forgets idle ones, or
// returns those that all further names share.
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

// roomLocked returns how many of the requests in asked should have gone on: a tenth more than
// succeeded, or up to twice as many if hardly any are refused. It divides this by 1-usual: so many
// must go on if the usual part of them is refused. The result is at least a quarter of those that
// would succeed if all went on and the same part were refused. knocks come in addition. roomLocked
// also updates worst, usual and whole.
//
// Some services refuse a part p at any load. They would get fewer and fewer requests: of 100 with
// p = 0.3, 70 succeed, so 77 go on. Of these 54 succeed, so 59 go on, and so forth down to the
// quarter: 17. The quarter is a trial: under a real overload, hardly any of so few are refused. If
// the part is still what it was, it is usual: 1.1·(17·0.7)/(1-0.3) = 19 go on, then 21, until all
// do. If a real overload follows, the part rises above the usual one, and fewer go on again.
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
	left := adaptive.Half(now-x.at, needLife)
	x.worst *= adaptive.Half(now-x.at, worstLife)
	if !x.whole {
		x.usual *= adaptive.Half(now-x.at, usualLife)
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
	// A 503 may have the reason that the context had ended. What a limiter of weir answers says
	// nothing of services behind, and a client can cause it.
	if x == nil || result.Left && result.Refused || result.own {
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
