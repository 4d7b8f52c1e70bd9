package world

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/weir-go/weir/internal/proof/model"
)

// Trace compares the units that a world holds for one key with the model of docs/proof/holds.pml.
// It looks at the server before each command, translates what has changed into transitions of the
// model, and breaks a law if the model does not allow one. For example a unit that is gone must be
// one whose request has ended, and a new one must have found room.
type Trace struct {
	world *World
	key   string // its name in Redis

	mu      sync.Mutex
	model   *model.Holds
	at      time.Time          // of the latest look, by the server's clock
	members map[string]float64 // as of then: when each unit ends
	ids     map[string]int     // the indexes of units in the model, by their members
	owners  map[string]int     // the numbers of processes, by the first bytes of their members
	numbers map[*Process]int
	sure    map[int]bool // units whose request is known to run
	steps   int
}

// traceFlight is how long a message may be under way. The faults of a traced world are so short.
const traceFlight = 9 * time.Second / 8

// Follow compares the units of a key of a concurrency limit with the model, from now on. The world
// has one server.
func (w *World) Follow(key string, limit int) *Trace {
	tr := &Trace{
		world: w, key: key, at: w.servers[0].now(), members: make(map[string]float64),
		ids: make(map[string]int), owners: make(map[string]int), numbers: make(map[*Process]int),
		sure: make(map[int]bool),
		model: &model.Holds{
			Limit: limit, Hold: HoldTime.Microseconds(), Flight: traceFlight.Microseconds(),
		},
	}
	w.trace = tr
	return tr
}

// Steps returns how many transitions have been compared.
func (tr *Trace) Steps() int {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	return tr.steps
}

func (tr *Trace) breaksLocked(id string, format string, args ...any) {
	tr.world.breaks(fmt.Sprintf("after %v: the model of holds: unit %x: ", tr.world.age(), id) +
		fmt.Sprintf(format, args...))
}

// look translates what has changed since the latest look.
func (tr *Trace) look() {
	if tr == nil {
		return
	}
	tr.mu.Lock()
	defer tr.mu.Unlock()
	tr.lookLocked()
}

func (tr *Trace) lookLocked() {
	s := tr.world.servers[0]
	now, members := s.now(), make(map[string]float64)
	if s.listener() != nil {
		members = s.membersOf(tr.key)
	}
	for _, id := range slices.Sorted(maps.Keys(tr.members)) {
		_, is := members[id]
		expires := int64(tr.members[id]) <= now.UnixMicro()
		if !is && (!expires || tr.model.Units[tr.ids[id]].Release > 0) {
			tr.releasedLocked(id)
		}
	}
	// A taking or renewal was HoldTime before the end that it has set. A unit that is put back may
	// exceed the limit, so a taking comes first where both are at one instant.
	changed := make([]string, 0, len(members))
	for id, ends := range members {
		if ends != tr.members[id] {
			changed = append(changed, id)
		}
	}
	slices.SortFunc(changed, func(a, b string) int {
		_, aKnown := tr.ids[a]
		_, bKnown := tr.ids[b]
		if aKnown == bKnown || members[a] != members[b] {
			return cmp.Or(cmp.Compare(members[a], members[b]), cmp.Compare(a, b))
		} else if bKnown {
			return -1
		}
		return 1
	})
	for _, id := range changed {
		if at := time.UnixMicro(int64(members[id])).Add(-HoldTime); at.Before(now) {
			tr.passLocked(at)
		}
		if i, known := tr.ids[id]; known {
			tr.renewedLocked(id, &tr.model.Units[i])
		} else {
			tr.takenLocked(id)
		}
	}
	tr.passLocked(now)
	tr.members = members
	tr.agreeLocked()
}

// passLocked lets the model's time pass until an instant.
func (tr *Trace) passLocked(at time.Time) {
	if passed := at.UnixMicro() - tr.at.UnixMicro(); passed > 0 {
		tr.model.Pass(passed)
		tr.at = at
	}
}

// agreeLocked compares the server with the model.
func (tr *Trace) agreeLocked() {
	if err := tr.model.Check(); err != nil {
		tr.world.breaks(fmt.Sprintf("after %v: the model of holds: %v", tr.world.age(), err))
	}
	for id, i := range tr.ids {
		held := max(0, int64(tr.members[id])-tr.at.UnixMicro())
		if off := held - tr.model.Units[i].Held; off != 0 {
			tr.breaksLocked(id, "is held for %d µs, and for %d in the model", held,
				tr.model.Units[i].Held)
			tr.model.Units[i].Held = held
		}
	}
}

// takenLocked is the arrival of a taking. Its request runs, unless it turns out that the caller
// has left.
func (tr *Trace) takenLocked(id string) {
	tr.steps++
	i := len(tr.model.Units)
	owner, known := tr.owners[id[:6]]
	if !known {
		owner = -1
	}
	tr.ids[id] = i
	tr.model.Units = append(tr.model.Units, model.Unit{Process: owner, State: model.Asked})
	u := &tr.model.Units[i]
	fits := tr.model.ArriveTaking(u)
	if !fits {
		tr.breaksLocked(id, "was taken, and there was no room")
		u.Held = tr.model.Hold
	}
	tr.model.Answer(u, true)
}

func (tr *Trace) renewedLocked(id string, u *model.Unit) {
	tr.steps++
	if u.Renewal == 0 {
		tr.breaksLocked(id, "is renewed, and no renewal can be under way")
	}
	left := u.Renewal
	tr.model.ArriveRenewal(u)
	u.Renewal = left // another may be under way: one without an answer is sent again
}

func (tr *Trace) releasedLocked(id string) {
	tr.steps++
	i := tr.ids[id]
	u := &tr.model.Units[i]
	if u.State == model.Running && !tr.sure[i] {
		tr.model.Leave(u)
	}
	if u.State != model.Running && u.Release == 0 {
		tr.breaksLocked(id, "is released, and no release can be under way")
	}
	if err := tr.model.ArriveRelease(u); err != nil {
		tr.breaksLocked(id, "%v", err)
	}
	tr.model.Confirm(u)
}

// unitLocked returns the unit of a ticket of a process.
func (tr *Trace) unitLocked(p *Process, ticket int64) (int, error) {
	number, known := tr.numbers[p]
	if !known {
		number = len(tr.numbers)
		tr.numbers[p] = number
	}
	suffix := string(binary.BigEndian.AppendUint64(nil, uint64(ticket))[2:])
	found := -1
	for id, i := range tr.ids {
		owner, owned := tr.owners[id[:6]]
		if id[6:] != suffix || owned && owner != number {
			continue
		}
		if found = i; owned {
			return i, nil
		}
		tr.owners[id[:6]] = number // the first unit of this process
		for other, j := range tr.ids {
			if other[:6] == id[:6] {
				tr.model.Units[j].Process = number
			}
		}
	}
	if found < 0 {
		return 0, errors.New("no server has held it")
	}
	return found, nil
}

// running is an answer that allows a request.
func (tr *Trace) running(p *Process, ticket int64) {
	if tr == nil {
		return
	}
	tr.mu.Lock()
	defer tr.mu.Unlock()
	tr.lookLocked()
	i, err := tr.unitLocked(p, ticket)
	if err != nil { // the server died between taking and this look
		return
	}
	tr.sure[i] = true
	if tr.model.Units[i].State != model.Running {
		tr.breaksLocked("", "a request runs whose unit was released")
	}
}

// ended is the end of a request.
func (tr *Trace) ended(p *Process, ticket int64) {
	if tr == nil {
		return
	}
	tr.mu.Lock()
	defer tr.mu.Unlock()
	tr.lookLocked()
	if i, err := tr.unitLocked(p, ticket); err == nil && tr.model.Units[i].State == model.Running {
		tr.steps++
		if err := tr.model.End(&tr.model.Units[i]); err != nil {
			tr.breaksLocked("", "%v", err)
		}
	}
}

// killed is the death of a process.
func (tr *Trace) killed(p *Process) {
	if tr == nil {
		return
	}
	tr.mu.Lock()
	defer tr.mu.Unlock()
	tr.lookLocked()
	if number, known := tr.numbers[p]; known {
		tr.steps++
		tr.model.Crash(number)
	}
}

// flushed is the loss of all data. The replica keeps what it has.
func (tr *Trace) flushed() {
	if tr == nil {
		return
	}
	tr.mu.Lock()
	defer tr.mu.Unlock()
	tr.steps++
	before := slices.Clone(tr.model.Units)
	tr.model.Flush() // what remains in the dead server is not looked at
	for i := range before {
		tr.model.Units[i].Replica = before[i].Replica
	}
	tr.members = make(map[string]float64)
}

// replicated is a copy of all data for the replica, which copies makes. A command may run
// meanwhile, so the model takes over what the copy has.
func (tr *Trace) replicated(copies func()) {
	if tr == nil {
		copies()
		return
	}
	tr.mu.Lock()
	defer tr.mu.Unlock()
	copies()
	tr.lookLocked()
	tr.steps++
	members := tr.world.servers[0].replica[tr.key].members
	for id, i := range tr.ids {
		tr.model.Units[i].Replica = max(0, int64(members[id])-tr.at.UnixMicro())
	}
}

// promoted is a failover, which replace carries out.
func (tr *Trace) promoted(replace func()) {
	if tr == nil {
		replace()
		return
	}
	tr.mu.Lock()
	defer tr.mu.Unlock()
	replace()
	tr.steps++
	tr.passLocked(tr.world.servers[0].now())
	tr.model.Failover()
	tr.members = tr.world.servers[0].membersOf(tr.key)
	tr.agreeLocked()
}
