package line

import (
	"maps"
	"slices"
	"time"
)

// What tests of a backend set and see. Programs call none of it.

// Waiting returns how many jobs wait, apart from endings.
func Waiting(ls *Lines) (n int) {
	all := []*Line{ls.only}
	if servers := ls.byServer.Load(); servers != nil {
		all = slices.Collect(maps.Values(*servers))
	}
	for _, l := range all {
		if l == nil {
			continue
		}
		l.mu.Lock()
		for i := range l.queue.lists {
			n += l.queue.lists[i].Size
		}
		l.mu.Unlock()
	}
	return n
}

// SetPatience makes ls take a server for silent after a time.
func SetPatience(ls *Lines, patience time.Duration) {
	ls.Patience = patience
	if ls.topology != nil {
		ls.topology.opinion = patience
	}
	if ls.only != nil {
		ls.only.health.patience = patience
	}
}

// SetMaxCalls bounds the calls under way to each server.
func SetMaxCalls(ls *Lines, n int) { ls.maxCalls = n }

// RunLate makes the only line find, for a second, that this process runs late while other replies
// come in.
func RunLate(ls *Lines) {
	l, now := ls.only, time.Now().Add(CallTimeout)
	ls.late.note(now, 40*time.Millisecond)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.health.answeredAt = now
}

// ReadReply makes a call for jobs of one script read a reply in pieces of a size, as go-redis
// passes it on. reply returns the reply to a call by its number. The server has told the instant
// now before.
func ReadReply(jobs []*Job, now int64, size int, reply func(number int64) string) {
	var bs batches
	var clock serverClock
	clock.believe(now)
	bs.plan(jobs, nil)
	sent := bs.list[0]
	sent.expect(&clock)
	sent.command = newScriptCommand(sent.Receiver, sent.Most)
	text := []byte(reply(sent.command.number))
	for piece := range slices.Chunk(text, size) {
		if _, sent.readErr = sent.command.Write(piece); sent.readErr != nil {
			break
		}
	}
	sent.finish()
	bs.outcome()
}
