package world

import (
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"syscall"
	"time"
)

// Fault begins at an instant and heals later.
type Fault struct {
	At      time.Duration // since the world began; strike ignores it
	For     time.Duration // until it heals; for Promoted, how far the replica is behind
	Kind    Kind
	Server  int
	Process int
	By      time.Duration // the size of a step
}

// Kind is a kind of fault. The kinds before Stopped affect one process and one server, the kinds
// before ProcessKilled one server and all processes, the others one process. A new kind needs a
// name, a case in strike, a call of laws.loses if a server loses data, and a test of its own.
type Kind int

const (
	Slow        Kind = iota // a round trip between a process and a server takes 200 ms
	Bursts                  // one chunk of a hundred takes 100 ms longer
	Lossy                   // a tenth of all chunks is resent after 200 ms
	Narrow                  // 20,000 bytes a second
	Reset                   // all connections between a process and a server break, every 50 ms
	Mute                    // no byte of a process arrives at a server
	Deaf                    // no answer of a server arrives at a process
	Lost                    // every 100 ms the answers of 20 ms are lost, and their connections break
	HalfOpen                // connections die without notice to either side
	CutOff                  // a process reaches no server
	Refused                 // a server refuses a process, whose connections break
	Stopped                 // a server stands still, as by SIGSTOP
	Killed                  // a server is killed and starts again without data
	Promoted                // a replica takes over, without the latest writes
	StepForward             // a server's clock steps
	StepBack
	Drift         // a server's clock gains a hundredth
	ProcessKilled // a process is killed, and another starts in its place
	Restarted     // a process stops cleanly, and another starts in its place
	kinds
)

var kindNames = [kinds]string{
	"slow", "bursts", "lossy", "narrow", "reset", "mute", "deaf", "answers lost", "half-open",
	"cut off", "refused", "stopped", "killed", "promoted",
	"step forward", "step back", "drift", "process killed", "restarted",
}

func (k Kind) String() string { return kindNames[k] }

func (f Fault) String() string {
	text := fmt.Sprintf("%v to %v: %v, server %d, process %d", f.At, f.At+f.For, f.Kind, f.Server,
		f.Process)
	if f.By != 0 {
		text += fmt.Sprintf(", by %v", f.By)
	}
	return text
}

// Schedule is the faults of a world.
type Schedule []Fault

func (s Schedule) String() string {
	var lines []string
	for _, f := range s {
		lines = append(lines, "\t"+f.String())
	}
	return strings.Join(lines, "\n")
}

// drawSchedule draws the faults of a time.
func drawSchedule(random *rand.Rand, within time.Duration, servers, processes int) (s Schedule) {
	for range 1 + random.IntN(5) {
		f := Fault{
			At:   time.Duration(random.Int64N(int64(within * 3 / 4))).Truncate(time.Millisecond),
			For:  time.Duration(100+random.Int64N(5000)) * time.Millisecond,
			Kind: Kind(random.IntN(int(kinds))), Server: random.IntN(servers),
			Process: random.IntN(processes),
		}
		if f.Kind == StepForward || f.Kind == StepBack {
			f.By = time.Duration(1+random.Int64N(90_000)) * time.Millisecond
		}
		s = append(s, f)
	}
	return s
}

// How long a fault may affect requests after it has healed: the breaker probes each second, and
// holds that were not renewed are made again or expire.
const (
	ratesRecovery = 2 * time.Second // for requests without an end
	Recovery      = ratesRecovery + 2*HoldTime
)

// play plays the faults, and returns when the last has healed.
func (w *World) play(s Schedule) {
	for _, f := range s {
		time.AfterFunc(f.At-w.age(), func() { w.strike(f) })
	}
	var last time.Duration
	for _, f := range s {
		last = max(last, f.At+f.For)
	}
	time.Sleep(last - w.age())
}

// strike begins a fault, and heals it after its time.
func (w *World) strike(f Fault) {
	w.mu.Lock()
	server, process := w.servers[f.Server], w.processes[f.Process]
	w.mu.Unlock()
	restart := func() {
		again := w.Start(process.name, process.program)
		w.mu.Lock()
		w.processes[f.Process] = again
		w.mu.Unlock()
	}
	if f.Kind >= ProcessKilled {
		if !process.enter() { // the process has not started or has ended
			return
		}
		process.leave()
	}
	path := w.path(process, server)
	now := time.Now()
	touched := period{from: now, to: now.Add(f.For)}
	if f.Kind < Stopped {
		touched.process = process
	}
	if f.Kind != CutOff && f.Kind != ProcessKilled {
		touched.server = server
	}
	if f.Kind == ProcessKilled { // the units that it held stay held for HoldTime
		touched.dead, touched.to = process, now.Add(HoldTime)
	}
	if f.Kind != Restarted { // no request may notice a clean restart
		w.laws.fault(touched)
		w.trace.fault(touched)
	}
	heal := func() {}
	both := func(change, back func(r *route)) {
		path.there.set(change)
		path.back.set(change)
		heal = func() { path.there.set(back); path.back.set(back) }
	}
	switch f.Kind {
	case Slow:
		both(func(r *route) { r.latency.Least = 100 * time.Millisecond },
			func(r *route) { r.latency = near })
	case Bursts:
		both(func(r *route) { r.latency.Burst = 100 * time.Millisecond },
			func(r *route) { r.latency = near })
	case Lossy:
		both(func(r *route) { r.lossy = 0.1 }, func(r *route) { r.lossy = 0 })
	case Narrow:
		both(func(r *route) { r.latency.Bytes = 20_000 }, func(r *route) { r.latency = near })
	case Reset:
		for at := time.Duration(0); at < f.For; at += 50 * time.Millisecond {
			time.AfterFunc(at, func() { path.cut(syscall.ECONNRESET) })
		}
	case Mute:
		path.there.set(func(r *route) { r.silent = true })
		heal = func() { path.there.set(func(r *route) { r.silent = false }) }
	case Deaf:
		path.back.set(func(r *route) { r.silent = true })
		heal = func() { path.back.set(func(r *route) { r.silent = false }) }
	case Lost:
		silent := func(silent bool) { path.back.set(func(r *route) { r.silent = silent }) }
		for at := time.Duration(0); at < f.For; at += 100 * time.Millisecond {
			time.AfterFunc(at, func() { silent(true) })
			time.AfterFunc(at+20*time.Millisecond, func() { path.cut(io.EOF); silent(false) })
		}
	case HalfOpen:
		path.forget()
	case CutOff:
		for _, s := range w.servers {
			p := w.path(process, s)
			p.there.set(func(r *route) { r.silent = true })
			p.back.set(func(r *route) { r.silent = true })
		}
		heal = func() {
			for _, s := range w.servers {
				p := w.path(process, s)
				p.there.set(func(r *route) { r.silent = false })
				p.back.set(func(r *route) { r.silent = false })
			}
		}
	case Refused:
		path.refuse(true)
		path.cut(io.EOF)
		heal = func() { path.refuse(false) }
	case Stopped:
		server.Stop()
		heal = server.Continue
	case Killed:
		w.laws.loses(server, now, true)
		server.Kill()
		heal = server.Start
	case Promoted:
		server.Replicate()
		heal = func() {
			server.Promote()
			w.laws.loses(server, now, false)
		}
	case StepForward:
		server.Step(f.By)
	case StepBack:
		server.Step(-f.By)
		w.laws.loses(server, now, true)
	case Drift:
		server.Drift(0.01)
		heal = func() { server.Drift(0) }
	case ProcessKilled:
		process.Kill()
		heal = restart
	case Restarted:
		w.laws.restarts()
		go process.Stop()
		heal = restart
	}
	time.AfterFunc(f.For, heal)
}
