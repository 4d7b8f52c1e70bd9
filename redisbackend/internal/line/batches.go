package line

import (
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
)

// A call sends its jobs in few batches. A batch is one run of a script: its jobs have the script,
// the partition and the instant in common, and share the fixed cost of a run.

// numberSize is the longest text of a number in a reply.
const numberSize = len(" 9007199254740991")

// batch is the jobs of one run of a script.
type batch struct {
	ScriptCall
	at    destination
	jobs  []*Job
	clock *serverClock // checks the instant in the reply; nil: no check
}

// destination is what all jobs of a batch have in common.
type destination struct {
	script    *Script
	partition any   // keeps their keys; nil: one script can decide all keys
	instant   int64 // as in job
}

// batches holds the batches of one call. A worker reuses their memory.
type batches struct {
	list          []*batch
	spare         []*batch
	byDestination map[destination]*batch // all but the first; nil until there is another
	forms         map[string]int         // of a batch, in order of their first jobs: from 1
	sources       *sources               // of the server
	text          []byte
}

// plan puts jobs into batches, one for each destination, and writes their arguments.
func (bs *batches) plan(jobs []*Job, locate Partitioner) {
	for _, j := range jobs {
		at := destination{script: j.Script, instant: j.Instant}
		if locate != nil {
			at.partition, _, _ = locate(j.Keys[0]) // if it fails, so will the run
		}
		b := bs.to(at)
		b.jobs = append(b.jobs, j)
	}
	for _, b := range bs.list {
		bs.write(b)
	}
}

// to returns the batch for a destination.
func (bs *batches) to(at destination) *batch {
	if len(bs.list) > 0 && bs.list[0].at == at {
		return bs.list[0]
	} else if b := bs.byDestination[at]; b != nil {
		return b
	}
	b := bs.add(at)
	if len(bs.list) > 1 {
		if bs.byDestination == nil {
			bs.byDestination = make(map[destination]*batch)
		}
		bs.byDestination[at] = b
	}
	return b
}

func (bs *batches) add(at destination) *batch {
	var b *batch
	if n := len(bs.spare); n > 0 {
		b, bs.spare = bs.spare[n-1], bs.spare[:n-1]
	} else {
		b = new(batch)
	}
	b.at, b.sources = at, bs.sources
	bs.list = append(bs.list, b)
	return b
}

func (bs *batches) reset() {
	for _, b := range bs.list {
		clear(b.jobs)
		clear(b.Keys)
		clear(b.args)
		*b = batch{ScriptCall{Keys: b.Keys[:0], args: b.args[:0]}, destination{}, b.jobs[:0], nil}
		bs.spare = append(bs.spare, b)
	}
	clear(bs.list)
	bs.list = bs.list[:0]
	clear(bs.byDestination)
}

// write writes the KEYS and ARGV of a batch: see the headers of the scripts.
func (bs *batches) write(b *batch) {
	b.Divisible = len(b.jobs) > 1
	if !b.at.script.grouped {
		for _, j := range b.jobs {
			b.Keys, b.args = append(b.Keys, j.Keys...), append(b.args, j.Args...)
		}
		if b.at.instant != 0 {
			b.args = append(b.args, b.at.instant)
		}
		return
	}
	if j := b.jobs[0]; !b.Divisible && j.IsPlain {
		b.Keys = append(b.Keys, j.Keys...)
		b.args = append(append(b.args, ""), j.Args...) // in place of "server" and a head
		return
	}
	bs.sortByForm(b.jobs)
	b.args = append(b.args, any("server"))
	if b.at.instant != 0 {
		b.args[0] = b.at.instant
	}
	for rest := b.jobs; len(rest) > 0; { // a head and arguments once for jobs that share them
		first, n := rest[0], 1
		for n < len(rest) && !first.HasOwnArgs && rest[n].Form == first.Form {
			n++
		}
		for _, j := range rest[:n] {
			b.Keys = append(b.Keys, j.Keys...)
		}
		b.args = append(append(b.args, bs.head(first, n)), first.Args...)
		rest = rest[n:]
	}
}

// head returns the argument of take.lua that precedes those of n requests of one form, such as
// "take 3 2" for 3 requests of 2 keys each.
func (bs *batches) head(first *Job, n int) string {
	bs.text = append(append(bs.text[:0], first.Verb...), ' ')
	bs.text = append(strconv.AppendInt(bs.text, int64(n), 10), ' ')
	bs.text = strconv.AppendInt(bs.text, int64(len(first.Keys)), 10)
	return string(bs.text)
}

// sortByForm groups requests of equal form.
func (bs *batches) sortByForm(jobs []*Job) {
	if bs.forms == nil {
		bs.forms = make(map[string]int)
	}
	clear(bs.forms)
	for _, j := range jobs {
		if bs.forms[j.Form] == 0 {
			bs.forms[j.Form] = len(bs.forms) + 1
		}
	}
	if len(bs.forms) > 1 {
		slices.SortStableFunc(jobs, func(i, j *Job) int {
			return bs.forms[i.Form] - bs.forms[j.Form]
		})
	}
}

// send makes a call that sends jobs to one of the servers of c. Each batch has an error of its own.
func (bs *batches) send(ctx context.Context, c *caller, clock *serverClock, jobs []*Job) {
	bs.plan(jobs, c.partition())
	run(ctx, c, clock, bs.list)
	// A Cluster rejects a script with keys of several slots, or of a slot that is being moved. The
	// script did not run, so each of its jobs goes in a script of its own. Other batches keep
	// their replies.
	var apart []*Job
	failed := false
	for _, b := range bs.list {
		err := b.Err
		if err == nil { // HasErrorPrefix allocates
			continue
		}
		failed = true
		crosses := redis.HasErrorPrefix(err, "CROSSSLOT")
		if b.Divisible && crosses {
			c.learnSlots()
		}
		if b.Divisible && (crosses || redis.HasErrorPrefix(err, "TRYAGAIN")) {
			apart = append(apart, b.jobs...)
			b.jobs = b.jobs[:0]
		}
	}
	if sent := len(bs.list); len(apart) > 0 {
		for _, j := range apart {
			b := bs.add(destination{script: j.Script, instant: j.Instant})
			b.jobs = append(b.jobs, j)
			bs.write(b)
		}
		run(ctx, c, clock, bs.list[sent:])
	}
	// All work is in the condition: sendAgain waits, then sends, and returns false to stop.
	for wait := firstWait; failed && wait <= lastWait && bs.sendAgain(ctx, c, clock, wait); wait *= 2 {
	}
}

// A request with several keys of a slot that is half moved is sent again after 8, 16 and 32 ms.
const (
	firstWait = 8 * time.Millisecond
	lastWait  = 4 * firstWait
)

// sendAgain waits and then sends batches again that failed for a half moved slot. It returns false
// if there are none or ctx ends.
func (bs *batches) sendAgain(
	ctx context.Context, c *caller, clock *serverClock, wait time.Duration,
) bool {
	var again []*batch
	for _, b := range bs.list {
		if len(b.jobs) > 0 && redis.HasErrorPrefix(b.Err, "TRYAGAIN") {
			again = append(again, b)
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
	for _, b := range again {
		b.command, b.Err = nil, nil
	}
	run(ctx, c, clock, again)
	return true
}

// run sends batches to the server, and is the only way for them. Each gets an error of its own.
func run(ctx context.Context, c *caller, clock *serverClock, list []*batch) {
	calls := make([]*ScriptCall, len(list))
	for i, b := range list {
		b.expect(clock)
		b.Once = b.Once || c.once // see unrepeatedCommand
		calls[i] = &b.ScriptCall
	}
	Run(ctx, c.client, calls...)
}

// expect prepares b for its reply, which bears an instant of clock.
func (b *batch) expect(clock *serverClock) {
	b.Script, b.Receiver, b.Most = b.at.script, b, MaxText
	if b.at.script.grouped && b.at.instant == 0 {
		b.clock = clock
	}
	for _, j := range b.jobs {
		b.Most += numberSize * j.Width
		b.Once = b.Once || j.Once
	}
}

// outcome returns whether the server answered, whether it ran any script without an error, and the
// latest error. An error of a batch is the error of all its jobs.
func (bs *batches) outcome() (reached, decided bool, latest error) {
	for _, b := range bs.list {
		switch {
		case len(b.jobs) == 0: // they were sent in scripts of their own
		case b.Err == nil:
			reached, decided = true, true
		default:
			reached, latest = reached || answers(b.Err), b.Err
			for _, j := range b.jobs {
				j.Err = b.Err
			}
		}
	}
	return reached, decided, latest
}

// Receive implements [Receiver]: it sets the numbers or the error of every job.
func (b *batch) Receive(r *Reply) (err error) {
	var now int64
	if b.at.script.grouped {
		var ok bool
		now, ok = r.Number()
		switch {
		case !ok || b.at.instant != 0 && b.at.instant != now:
			return ErrForeign
		case b.clock != nil && !b.clock.believe(now):
			return errClock
		}
	}
	for _, j := range b.jobs {
		j.Now = now
		if !j.receive(r) {
			return ErrForeign
		}
	}
	if !r.hasEnded() {
		return ErrForeign
	}
	for i, j := range b.jobs {
		// A script may postpone a job, but not its first.
		if j.Err == nil && (!j.Owner.Read(j.Numbers) || j.isPostponed && i == 0) {
			j.Err = errImpossible
			err = errImpossible
		}
	}
	return err
}

// A ClusterClient sends a command up to MaxRedirects times again to find the server of its keys.
// It does so even after the connection broke before the reply, whatever MaxRetries is. A Ring
// sends it up to MaxRetries times again. The server may have run the command already, and would
// take its units twice.

// unrepeatedCommand is a command that the client does not send again after an error. The client
// still follows redirections, and tries again to get a connection.
type unrepeatedCommand struct{ redis.Cmder }

// NoRetry implements [redis.Cmder].
func (unrepeatedCommand) NoRetry() bool { return true }
