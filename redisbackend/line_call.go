package redisbackend

import (
	"context"
	"errors"
	"net"
	"slices"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
)

// The jobs that wait are sent in as few calls of scripts as possible: one for each script and
// partition. A call of take.lua decides its requests one after the other, at one instant. The fixed
// cost of a call is then shared.

const (
	// maxWeight is how many keys the jobs of a pipeline are about, at most: scripts must
	// not block the server for more than a millisecond.
	maxWeight = 128

	// numberSize is how many bytes a number of a reply has, at most.
	numberSize = len(" 9007199254740991")

	// unitsWeight is how many units of a concurrency limit count as one more key: each is
	// written.
	unitsWeight = 8
)

// call is jobs that one call of a script does.
type call struct {
	scriptCall
	at    destination
	jobs  []*job
	clock *serverInstants // nil: the instant is given, or not replied
}

// decides reports whether k is of the script that decides.
func (k *call) decides() bool { return k.at.script == &takeScript }

// destination is what the jobs of a call have in common.
type destination struct {
	script    *script
	partition any // that keeps their keys; nil: there is only one
	instant   int64
}

// calls are the calls of one pipeline, and memory for making them that is reused.
type calls struct {
	all   []*call
	spare []*call
	of    map[destination]*call // nil if there is one
	forms map[string]int        // the order of requests that are not alike
	text  []byte
}

// plan makes the calls that do some jobs, one for each destination.
func (cs *calls) plan(jobs []*job, locate *partitioner) {
	for _, j := range jobs {
		at := destination{script: j.script, instant: j.instant}
		if locate != nil {
			at.partition, _, _ = (*locate)(j.keys[0]) // if it is unknown, the call fails
		}
		k := cs.to(at)
		k.jobs = append(k.jobs, j)
	}
	for _, k := range cs.all {
		cs.write(k)
	}
}

// to returns the call for a destination.
func (cs *calls) to(at destination) *call {
	if len(cs.all) > 0 && cs.all[0].at == at {
		return cs.all[0]
	} else if k := cs.of[at]; k != nil {
		return k
	}
	k := cs.add(at)
	if len(cs.all) > 1 {
		if cs.of == nil {
			cs.of = make(map[destination]*call)
		}
		cs.of[at] = k
	}
	return k
}

func (cs *calls) add(at destination) *call {
	var k *call
	if n := len(cs.spare); n > 0 {
		k, cs.spare = cs.spare[n-1], cs.spare[:n-1]
	} else {
		k = new(call)
	}
	k.at = at
	cs.all = append(cs.all, k)
	return k
}

func (cs *calls) reset() {
	for _, k := range cs.all {
		clear(k.jobs)
		clear(k.keys)
		clear(k.args)
		*k = call{scriptCall{keys: k.keys[:0], args: k.args[:0]}, destination{}, k.jobs[:0], nil}
		cs.spare = append(cs.spare, k)
	}
	clear(cs.all)
	cs.all = cs.all[:0]
	clear(cs.of)
}

// write writes the KEYS and ARGV of a call.
func (cs *calls) write(k *call) {
	k.parts = len(k.jobs) > 1
	if !k.decides() {
		for _, j := range k.jobs {
			k.keys, k.args = append(k.keys, j.keys...), append(k.args, j.args...)
		}
		if k.at.instant != 0 {
			k.args = append(k.args, k.at.instant)
		}
		return
	}
	if j := k.jobs[0]; !k.parts && isOrdinary(j) {
		k.keys, k.args = append(k.keys, j.keys...), append(append(k.args, ""), j.args...)
		return
	}
	cs.sortByForm(k.jobs)
	k.args = append(k.args, any("server"))
	if k.at.instant != 0 {
		k.args[0] = k.at.instant
	}
	for rest := k.jobs; len(rest) > 0; {
		first, n := rest[0], 1
		for n < len(rest) && !first.apart && rest[n].form == first.form {
			n++
		}
		for _, j := range rest[:n] {
			k.keys = append(k.keys, j.keys...)
		}
		k.args = append(append(k.args, cs.head(first, n)), first.args...)
		rest = rest[n:]
	}
}

// isOrdinary reports whether take.lua needs no head for a job that is alone.
func isOrdinary(j *job) bool {
	a := j.owner.(*ask)
	return a.mode == (mode{}) && !a.hasLogs
}

// head returns what take.lua is told of n requests that are alike.
func (cs *calls) head(first *job, n int) string {
	cs.text = append(append(cs.text[:0], first.owner.(*ask).mode.name()...), ' ')
	cs.text = append(strconv.AppendInt(cs.text, int64(n), 10), ' ')
	cs.text = strconv.AppendInt(cs.text, int64(len(first.keys)), 10)
	return string(cs.text)
}

// sortByForm groups requests of equal form.
func (cs *calls) sortByForm(jobs []*job) {
	if cs.forms == nil {
		cs.forms = make(map[string]int)
	}
	clear(cs.forms)
	for _, j := range jobs {
		if cs.forms[j.form] == 0 {
			cs.forms[j.form] = len(cs.forms) + 1
		}
	}
	if len(cs.forms) > 1 {
		slices.SortStableFunc(jobs, func(a, b *job) int { return cs.forms[a.form] - cs.forms[b.form] })
	}
}

// send makes the calls that do some jobs. Each reply has an error of its own.
func (l *line) send(ctx context.Context, cs *calls, jobs []*job) {
	cs.plan(jobs, l.all.partitioner.Load())
	l.run(ctx, cs.all)
	// A Cluster rejects a call for keys of several slots, or of a slot that is just being
	// moved. Such a call has done nothing, so each of its jobs is sent apart. The others keep
	// their replies.
	var apart []*job
	failed := false
	for _, k := range cs.all {
		err := k.err
		if err == nil { // HasErrorPrefix allocates
			continue
		}
		failed = true
		crosses := redis.HasErrorPrefix(err, "CROSSSLOT")
		if k.parts && crosses {
			l.all.learnSlots()
		}
		if k.parts && (crosses || redis.HasErrorPrefix(err, "TRYAGAIN")) {
			apart = append(apart, k.jobs...)
			k.jobs = k.jobs[:0]
		}
	}
	if sent := len(cs.all); len(apart) > 0 {
		for _, j := range apart {
			k := cs.add(destination{script: j.script, instant: j.instant})
			k.jobs = append(k.jobs, j)
			cs.write(k)
		}
		l.run(ctx, cs.all[sent:])
	}
	for wait := firstWait; failed && wait <= lastWait && l.sendAgain(ctx, cs, wait); wait *= 2 {
	}
}

// A request that charges several keys of a slot that is half moved is sent again after firstWait, after
// twice as long, and so on up to lastWait.
const (
	firstWait = 8 * time.Millisecond
	lastWait  = 4 * firstWait
)

// sendAgain makes the calls of such requests again after a wait, and reports whether there are any.
func (l *line) sendAgain(ctx context.Context, cs *calls, wait time.Duration) bool {
	var again []*call
	for _, k := range cs.all {
		if len(k.jobs) > 0 && redis.HasErrorPrefix(k.err, "TRYAGAIN") {
			again = append(again, k)
		}
	}
	if len(again) == 0 {
		return false
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
	}
	for _, k := range again {
		k.command, k.err = nil, nil
	}
	l.run(ctx, again)
	return true
}

func (l *line) run(ctx context.Context, all []*call) {
	calls := make([]*scriptCall, len(all))
	for i, k := range all {
		k.expect(&l.instants)
		k.once = k.once || l.all.once
		calls[i] = &k.scriptCall
	}
	run(ctx, l.all.client, calls...)
}

// expect sets what the reply to k may be. The clock is that of the server.
func (k *call) expect(clock *serverInstants) {
	k.script, k.receiver, k.most = k.at.script, k, maxText
	if k.decides() && k.at.instant == 0 {
		k.clock = clock
	}
	for _, j := range k.jobs {
		k.most += numberSize * j.width
		k.once = k.once || j.once
	}
}

// outcome says whether the server answered a call, whether one decided, and the latest error. A call that
// failed fails all of its jobs. The jobs of any other have numbers, or errors of their own.
func (cs *calls) outcome() (reached, decided bool, latest error) {
	for _, k := range cs.all {
		switch {
		case len(k.jobs) == 0: // they were sent apart
		case k.err == nil:
			reached, decided = true, true
		default:
			reached, latest = reached || answers(k.err), k.err
			for _, j := range k.jobs {
				j.err = k.err
			}
		}
	}
	return reached, decided, latest
}

// receive implements [receiver]: it sets the numbers or the error of every job.
func (k *call) receive(r *reply) (err error) {
	var now int64
	if k.decides() {
		var ok bool
		now, ok = r.number()
		switch {
		case !ok || k.at.instant != 0 && k.at.instant != now:
			return errForeign
		case k.clock != nil && !k.clock.believe(now):
			return errClock
		}
	}
	for _, j := range k.jobs {
		j.now = now
		if !j.receive(r) {
			return errForeign
		}
	}
	if !r.hasEnded() {
		return errForeign
	}
	for i, j := range k.jobs {
		if j.err == nil && (!j.owner.read(j.numbers) || j.isLeft && i == 0) {
			j.err = errImpossible
			err = errImpossible
		}
	}
	return err
}

// receive reads the numbers of j, or its error, which is about the value of a key. It reports
// whether there are as many numbers as there have to be.
func (j *job) receive(r *reply) bool {
	j.numbers = j.numbers[:0]
	if j.err = r.error(); j.err != nil {
		return true
	}
	for len(j.numbers) < j.width {
		n, ok := r.number()
		if !ok {
			return false
		}
		j.numbers = append(j.numbers, n)
	}
	return true
}

// A ClusterClient sends a command up to MaxRedirects times again, to find the server that
// keeps its keys. It does so even if the connection breaks before the reply, whatever
// MaxRetries is. A Ring sends it up to MaxRetries times again. The server may have run the
// command already, and would take its units twice.

// unrepeatedCommand is a command that the client does not send again, whatever its error. It still follows
// redirections, and looks for a connection again.
type unrepeatedCommand struct{ redis.Cmder }

// NoRetry implements [redis.Cmder].
func (unrepeatedCommand) NoRetry() bool { return true }

// mayHaveRun reports whether a server may have run a script although the call failed with err. A
// ClusterClient repeats the commands of a pipeline that were redirected or had no connection. If one
// of them then gets no reply, those behind it keep the error of the first attempt.
func (ls *lines) mayHaveRun(err error) bool {
	var network *net.OpError
	switch {
	case err == nil || errors.Is(err, errDown):
		return false
	case answers(err):
		return redis.HasErrorPrefix(err, "MOVED") || redis.HasErrorPrefix(err, "ASK")
	case errors.Is(err, redis.ErrPoolTimeout) || errors.As(err, &network) && network.Op == "dial":
		return ls.redirects
	}
	return true
}
