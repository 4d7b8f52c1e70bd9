package stats

import (
	"log/slog"
	"maps"
	"slices"
	"time"
)

const (
	lookEvery     = 5 * time.Second // at shedders, for the log
	shedLineEvery = time.Minute     // while a class is shed
)

// shedder is a shedder that is watched.
type shedder struct {
	state func() ShedderState
	logs  map[string]*shedLog // by class; belongs to whoever looks
}

// shedLog is what the log lines of one class need.
type shedLog struct {
	shedding              bool
	since, last, loggedAt time.Time
	before, logged        int64 // shed before these, and at the latest line
	seen                  int64 // shed at the latest look
}

func newShedder(state func() ShedderState) *shedder {
	sh := &shedder{state, make(map[string]*shedLog)}
	for _, c := range shedderSnapshot("", state()).Classes {
		sh.logs[c.Name] = &shedLog{seen: c.Shed}
	}
	return sh
}

// logSheddersLocked has s look at its shedders from now on. Shedders tell nobody what they
// shed, so that a request that is shed costs nothing more, and do not know s. Its timer
// alone keeps s, and the log goes on.
func (s *Stats) logSheddersLocked() {
	if s.looks {
		return
	}
	s.looks = true
	var timer *time.Timer
	timer = time.AfterFunc(lookEvery, func() {
		s.lookAtShedders(time.Now())
		timer.Reset(lookEvery)
	})
}

func (s *Stats) lookAtShedders(now time.Time) {
	s.mu.Lock()
	shedders := maps.Clone(s.shedders)
	s.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(shedders)) {
		sh := shedders[name]
		state := shedderSnapshot(name, sh.state())
		shed := make(map[string]int64, len(state.Classes))
		for _, c := range state.Classes {
			shed[c.Name] = c.Shed
			if sh.logs[c.Name] == nil {
				sh.logs[c.Name] = new(shedLog)
			}
		}
		for _, class := range slices.Sorted(maps.Keys(sh.logs)) { // those that a Replace has left out, too
			log := sh.logs[class]
			if l, ok := log.look(max(log.seen, shed[class]), now); ok {
				l.shedder, l.class, l.inFlightLimit, l.ofShedder = name, class, state.Limit, true
				s.lines.add(l)
			}
		}
	}
}

// look returns the line that is due, if one is, when n requests have been shed in all.
func (log *shedLog) look(n int64, now time.Time) (line, bool) {
	rose := n > log.seen
	before := log.seen
	log.seen = n
	switch {
	case rose && !log.shedding:
		*log = shedLog{shedding: true, since: now, last: now, loggedAt: now, before: before, logged: n, seen: n}
		return line{level: slog.LevelWarn, message: "weir: a shedder sheds", shed: n - before}, true
	case rose:
		log.last = now
		if now.Sub(log.loggedAt) < shedLineEvery {
			return line{}, false
		}
		shed := n - log.logged
		log.loggedAt, log.logged = now, n
		return line{level: slog.LevelInfo, message: "weir: shed", shed: shed}, true
	case log.shedding && now.Sub(log.last) >= quietAfter:
		log.shedding = false
		return line{level: slog.LevelInfo, message: "weir: a shedder sheds no more", over: true, shed: n - log.before, lasted: log.last.Sub(log.since)}, true
	}
	return line{}, false
}

// shedAttrs are the attributes of a line of a shedder.
func (what *line) shedAttrs() []slog.Attr {
	attrs := append(make([]slog.Attr, 0, 5), slog.String("shedder", what.shedder), slog.String("class", what.class),
		slog.Int64("shed", what.shed), slog.Int("limit", what.inFlightLimit))
	if what.over {
		attrs = append(attrs, slog.Duration("after", what.lasted))
	}
	return attrs
}
