package stats

import (
	"log/slog"
	"maps"
	"slices"
	"time"
)

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

// logSheddersLocked starts reading the counters of shedders for the log. Shedders do not report to
// s, so that shedding a request costs nothing more. The timer keeps a reference to s, so logging
// continues if the program drops it.
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

// shedAttrs returns the attributes of a line about a shedder.
func (l *line) shedAttrs() []slog.Attr {
	attrs := append(make([]slog.Attr, 0, 5), slog.String("shedder", l.shedder),
		slog.String("class", l.class),
		slog.Int64("shed", l.shed), slog.Int("limit", l.inFlightLimit))
	if l.over {
		attrs = append(attrs, slog.Duration("after", l.lasted))
	}
	return attrs
}
