package stats

import (
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/weir-go/weir/core"
)

// ShedderState is the state of a shedder of package shed, for gauges, counters and pages.
// shed.State is an alias of it. It is defined here so that a program that counts without package
// shed links neither that package nor net/http.
type ShedderState struct {
	Mode        core.Mode
	Limit       int // how many requests may be in flight
	MaxInFlight int // the upper bound of Limit
	InFlight    int
	Streams     int                 // responses that became streams: no longer in flight
	Exempt      int                 // exempt requests running: not in flight
	Shadowed    int                 // running requests that Shadow let pass: not in flight
	Waiting     int                 // in the queue
	Oldest      time.Duration       // age of the oldest request in flight
	Routes      int                 // routes with samples of their own
	Tenants     int                 // tenants known by name
	Updates     int64               // windows after which the limit was decided
	Panics      int64               // Updates that panicked, and left the limit unchanged
	ExemptTotal int64               // exempt requests since the start
	Classes     []ShedderClassState // most important first
}

// ShedderClassState is the state of one class of a [ShedderState]. Counters start when the class is
// first named, and survive Replace.
type ShedderClassState struct {
	Name     string
	Share    int // percent of the limit
	Entry    int // a request enters if fewer than this many are in flight
	InFlight int
	Waiting  int
	Admitted int64 // admitted, without those that Shadow let pass
	Shed     int64
	Shadowed int64 // Shadow let them pass; Enforce would have shed them
	Ahead    int64 // of Shed and Shadowed: services behind would have shed them, see shed.Options.Needs
	Left     int64 // context ended in the queue: client gone, deadline or shutdown
}

// ShedderSnapshot is the state of a shedder, see [Stats.WatchShedder]. Limiters inside the shedder
// never see the requests that it sheds, so their counters do not include them.
type ShedderSnapshot struct {
	Name string
	ShedderState
}

// shedders are the shedders that a Stats watches. A shedder does not report its decisions, so that
// shedding a request costs nothing more: a timer reads its counters for the log.
type shedders struct {
	lines *lines

	mu     sync.Mutex
	byName map[string]*shedder
	looks  bool // the timer runs
}

// watch adds the shedder of a name, or removes it if state is nil.
func (s *shedders) watch(name string, state func() ShedderState) {
	var watched *shedder
	if state != nil {
		watched = newShedder(state)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	watch(s.byName, name, watched, state == nil)
	if state != nil {
		s.logLocked()
	}
}

func (s *shedders) all() map[string]*shedder {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.byName)
}

func (s *shedders) snapshots() (shots []ShedderSnapshot) {
	all := s.all()
	for _, name := range slices.Sorted(maps.Keys(all)) {
		shots = append(shots, shedderSnapshot(name, all[name].state()))
	}
	return shots
}

// logLocked starts the timer. The timer keeps a reference to the Stats, so logging continues if the
// program drops it.
func (s *shedders) logLocked() {
	if s.looks {
		return
	}
	s.looks = true
	var timer *time.Timer
	timer = time.AfterFunc(lookEvery, func() {
		s.look(time.Now())
		timer.Reset(lookEvery)
	})
}

// look logs what has changed since the last look.
func (s *shedders) look(now time.Time) {
	all := s.all()
	for _, name := range slices.Sorted(maps.Keys(all)) {
		sh := all[name]
		state := shedderSnapshot(name, sh.state())
		shed := make(map[string]int64, len(state.Classes))
		for _, c := range state.Classes {
			shed[c.Name] = c.Shed
			if sh.logs[c.Name] == nil {
				sh.logs[c.Name] = new(shedLog)
			}
		}
		// includes classes that a Replace removed
		for _, class := range slices.Sorted(maps.Keys(sh.logs)) {
			log := sh.logs[class]
			if l, ok := log.look(max(log.seen, shed[class]), now); ok {
				l.shedder, l.class, l.inFlightLimit, l.ofShedder = name, class, state.Limit, true
				s.lines.add(l)
			}
		}
	}
}

const (
	lookEvery     = 5 * time.Second // how often counters of shedders are read for the log
	shedLineEvery = time.Minute     // while a class is being shed
)

type shedder struct {
	state func() ShedderState
	logs  map[string]*shedLog // by class; guarded by the goroutine that looks
}

// shedLog is the logging state of one class.
type shedLog struct {
	shedding              bool
	since, last, loggedAt time.Time
	before, logged        int64 // number shed before this episode, and at the latest line
	seen                  int64 // number shed at the latest look
}

func newShedder(state func() ShedderState) *shedder {
	sh := &shedder{state, make(map[string]*shedLog)}
	for _, c := range shedderSnapshot("", state()).Classes {
		sh.logs[c.Name] = &shedLog{seen: c.Shed}
	}
	return sh
}

// look returns the line that is due, if any, when n requests have been shed in total.
func (l *shedLog) look(n int64, now time.Time) (line, bool) {
	rose := n > l.seen
	before := l.seen
	l.seen = n
	switch {
	case rose && !l.shedding:
		*l = shedLog{
			shedding: true, since: now, last: now, loggedAt: now, before: before, logged: n,
			seen: n,
		}
		return line{level: slog.LevelWarn, message: "weir: a shedder sheds", shed: n - before}, true
	case rose:
		l.last = now
		if now.Sub(l.loggedAt) < shedLineEvery {
			return line{}, false
		}
		shed := n - l.logged
		l.loggedAt, l.logged = now, n
		return line{level: slog.LevelInfo, message: "weir: shed", shed: shed}, true
	case l.shedding && now.Sub(l.last) >= quietAfter:
		l.shedding = false
		return line{level: slog.LevelInfo, message: "weir: a shedder sheds no more", over: true,
			shed: n - l.before, lasted: l.last.Sub(l.since)}, true
	}
	return line{}, false
}

func shedderSnapshot(name string, state ShedderState) ShedderSnapshot {
	classes := make([]ShedderClassState, 0, len(state.Classes))
	for _, c := range state.Classes {
		c.Name = label(c.Name)
		i := slices.IndexFunc(classes, func(other ShedderClassState) bool {
			return other.Name == c.Name
		})
		if i < 0 {
			classes = append(classes, c)
			continue
		}
		same := &classes[i] // exporters reject everything if two series have the same name
		same.InFlight += c.InFlight
		same.Waiting += c.Waiting
		same.Admitted += c.Admitted
		same.Shed += c.Shed
		same.Shadowed += c.Shadowed
		same.Ahead += c.Ahead
		same.Left += c.Left
	}
	state.Classes = classes
	return ShedderSnapshot{name, state}
}
