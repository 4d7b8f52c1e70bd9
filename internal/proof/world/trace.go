package world

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"maps"
	"reflect"
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
	at      time.Time           // of the latest look, by the server's clock
	members map[string]float64  // as of then: when each unit ends
	ids     map[string]int      // the indexes of units in the model, by their members
	nonces  map[*Process]string // the first bytes of all members of a process
	numbers map[string]int      // of processes in the model, by their nonces
	notes   []note              // of the units in the model, by their indexes
	faults  []period
	counts  []heldSince // how many units were held, oldest first
	steps   int
	late    int // renewals that arrived after the end of the request
}

// note is what a trace knows of a unit, by the clock of the world.
type note struct {
	sure    bool      // its request is known to run, or to have run
	arrived time.Time // when its latest taking or renewal arrived
	ended   time.Time // zero: no end of its request is known
}

// heldSince is a number of units that are held from an instant on.
type heldSince struct {
	at    time.Time
	units int
}

const (
	// traceFlight is how long a message may be under way. The faults of a traced world are so short.
	traceFlight = 9 * time.Second / 8

	// calmAfter is how long a fault may affect renewals and releases after it has healed: a call that
	// it has stopped fails within traceFlight, and is repeated soon.
	calmAfter = traceFlight + HoldTime/10

	// leastHeld is for how long a unit of a running request is held at least in calm: it is renewed
	// each third of HoldTime.
	leastHeld = HoldTime / 2

	// mostHeld is for how long a unit may be held after the end of its request, or a later renewal, in
	// calm: a second release follows after traceFlight.
	mostHeld = traceFlight + HoldTime/10
)

// Follow compares the units of a key of a concurrency limit with the model, from now on. The world
// has one server.
func (w *World) Follow(key string, limit int) *Trace {
	tr := &Trace{
		world: w, key: key, at: w.servers[0].now(), members: make(map[string]float64),
		ids: make(map[string]int), nonces: make(map[*Process]string), numbers: make(map[string]int),
		model: &model.Holds{
			Limit: limit, Hold: HoldTime.Microseconds(), Flight: traceFlight.Microseconds(),
		},
	}
	w.trace = tr
	return tr
}

// Steps returns how many transitions have been compared, and how many of them were renewals that
// arrived after the unit's release was sent.
func (tr *Trace) Steps() (all, late int) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	return tr.steps, tr.late
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
			tr.renewedLocked(id, i)
		} else {
			tr.takenLocked(id)
		}
	}
	tr.passLocked(now)
	tr.members = members
	tr.agreeLocked()
	if s.listener() != nil {
		tr.checkCalmLocked()
	}
	n := tr.model.HeldUnits()
	if last := len(tr.counts) - 1; last < 0 || tr.counts[last].units != n {
		tr.counts = append(tr.counts, heldSince{time.Now(), n})
	}
}

// checkCalmLocked checks that living processes without a fault renew the units of their running
// requests, and release all others.
func (tr *Trace) checkCalmLocked() {
	now := time.Now()
	for p, nonce := range tr.nonces {
		if !tr.isCalmLocked(p, now) {
			continue
		}
		for id, i := range tr.ids {
			u, n := &tr.model.Units[i], &tr.notes[i]
			if id[:nonceSize] != nonce {
				continue
			}
			since := n.arrived
			if n.ended.After(since) {
				since = n.ended
			}
			runs := u.State == model.Running
			switch {
			case runs && n.sure && u.Held < leastHeld.Microseconds():
				tr.breaksLocked(id, "is held for %d µs, and its request runs: it was not renewed", u.Held)
			case (!runs || !n.sure) && u.Held > 0 && now.Sub(since) > mostHeld:
				tr.breaksLocked(id, "is still held, %v after the end or a later renewal", now.Sub(since))
			}
		}
	}
}

// isCalmLocked reports whether a process accepts requests, and no fault affects it.
func (tr *Trace) isCalmLocked(p *Process, now time.Time) bool {
	if !p.enter() {
		return false
	}
	p.leave()
	return !slices.ContainsFunc(tr.faults, func(f period) bool {
		return f.concerns(p) && f.dead == nil && now.Before(f.to.Add(calmAfter))
	}) && !slices.ContainsFunc(tr.world.pathsOf(p), func(path *path) bool {
		return path.isStale(now)
	})
}

// fault records the time of a fault.
func (tr *Trace) fault(f period) {
	if tr == nil {
		return
	}
	tr.mu.Lock()
	defer tr.mu.Unlock()
	tr.faults = append(tr.faults, f)
}

// denied is a denial by the server of a request for n units that began at an instant. There must
// have been no room for them since.
func (tr *Trace) denied(begun time.Time, n int64) {
	if tr == nil {
		return
	}
	tr.mu.Lock()
	defer tr.mu.Unlock()
	tr.lookLocked()
	tr.steps++
	most := 0
	for i, c := range tr.counts {
		if last := i == len(tr.counts)-1; last || tr.counts[i+1].at.After(begun) {
			most = max(most, c.units)
		}
	}
	if most+int(n) <= tr.model.Limit {
		tr.breaksLocked("", "%d units are denied, and %d of %d are held", n, most, tr.model.Limit)
	}
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
	tr.ids[id] = i
	tr.model.Units = append(tr.model.Units,
		model.Unit{Process: tr.numbers[id[:nonceSize]], State: model.Asked})
	tr.notes = append(tr.notes, note{arrived: time.Now()})
	u := &tr.model.Units[i]
	fits := tr.model.ArriveTaking(u)
	if !fits {
		tr.breaksLocked(id, "was taken, and there was no room")
		u.Held = tr.model.Hold
	}
	tr.model.Answer(u, true)
}

func (tr *Trace) renewedLocked(id string, i int) {
	u := &tr.model.Units[i]
	tr.steps++
	if tr.notes[i].arrived = time.Now(); u.State != model.Running {
		tr.late++
	}
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
	if u.State == model.Running && !tr.notes[i].sure {
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

// nonceSize is the size of a nonce.
const nonceSize = 6

// started is a new process. Its nonce is private to package wire.
func (tr *Trace) started(p *Process) {
	if tr == nil {
		return
	}
	tr.mu.Lock()
	defer tr.mu.Unlock()
	servers := reflect.ValueOf(p.bare).Elem().FieldByName("servers").Elem()
	field := servers.FieldByName("encoder").Elem().FieldByName("IDs").FieldByName("nonce")
	nonce := make([]byte, nonceSize)
	for i := range nonce {
		nonce[i] = byte(field.Index(i).Uint())
	}
	tr.nonces[p] = string(nonce)
	tr.numbers[string(nonce)] = len(tr.numbers)
}

// unitLocked returns the unit of a ticket of a process. It returns false if no server has held it.
func (tr *Trace) unitLocked(p *Process, ticket int64) (i int, known bool) {
	id := binary.BigEndian.AppendUint64([]byte(tr.nonces[p]), uint64(ticket))
	i, known = tr.ids[string(slices.Delete(id, nonceSize, nonceSize+2))]
	return i, known
}

// running is an answer that allows a request of n units.
func (tr *Trace) running(p *Process, ticket, n int64) {
	if tr == nil {
		return
	}
	tr.mu.Lock()
	defer tr.mu.Unlock()
	tr.lookLocked()
	for id := ticket; id < ticket+n; id++ {
		i, known := tr.unitLocked(p, id)
		if !known { // the server died between taking and this look
			return
		}
		tr.notes[i].sure = true
		if tr.model.Units[i].State != model.Running {
			tr.breaksLocked("", "a request runs whose unit was released")
		}
	}
}

// ended is the end of a request of n units.
func (tr *Trace) ended(p *Process, ticket, n int64) {
	if tr == nil {
		return
	}
	tr.mu.Lock()
	defer tr.mu.Unlock()
	tr.lookLocked()
	for id := ticket; id < ticket+n; id++ {
		i, known := tr.unitLocked(p, id)
		if !known || tr.model.Units[i].State != model.Running {
			continue
		}
		tr.steps++
		tr.notes[i].ended = time.Now()
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
	tr.steps++
	tr.model.Crash(tr.numbers[tr.nonces[p]])
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
	before := slices.Clone(tr.model.Units)
	tr.model.Failover()
	for i, u := range tr.model.Units {
		if before[i].Held == 0 && u.Held > 0 { // perhaps released since: then it ends by itself
			tr.notes[i].arrived = time.Now().Add(time.Duration(u.Held) * time.Microsecond)
		}
	}
	tr.members = tr.world.servers[0].membersOf(tr.key)
	tr.agreeLocked()
}
