package redisbackend

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir/internal/ground/algorithm"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
)

// settleBudget is how long Settle may take.
const settleBudget = time.Second

var errSettleLengths = errors.New("redisbackend: endings and settlements differ in length")

// Settle implements [backends.Settler]. It takes a second at most. It returns an error only if
// endings and out differ in length: each [limits.Settlement] has the error of its ending. If a
// reply is lost the ending is not sent again, since the server may have settled it.
func (b *Bare) Settle(
	ctx context.Context, endings []backends.Ending, out []limits.Settlement,
) error {
	if len(endings) != len(out) {
		return errSettleLengths
	}
	clear(out)
	ctx, cancel := context.WithTimeout(ctx, max(settleBudget, b.lines.patience))
	defer cancel()
	tasks := b.settleTasksOf(endings, out)
	releases := b.holds.releasesOf(endings, out)
	var errands []*errand
	for _, s := range tasks {
		errands = append(errands, s.errand(ctx))
	}
	for _, e := range releases {
		errands = append(errands, b.holds.errandFor(ctx, e.hold))
	}
	errs := b.sendAll(ctx, errands)
	for i, s := range tasks {
		s.record(errands[i], errs[i])
	}
	b.holds.recordReleases(releases, errs[len(tasks):])
	tasks, errands = b.withRightPeriods(tasks), nil
	for _, s := range tasks {
		errands = append(errands, s.errand(ctx))
	}
	for i, err := range b.sendAll(ctx, errands) {
		tasks[i].record(errands[i], err)
	}
	return nil
}

// errand is a job about one key whose reply is one number: a settlement, give-back, renewal,
// release or reset.
type errand struct {
	job
	line *line
	most int64  // the largest number that the script may reply
	done func() // called with the answer, unless the caller has left
}

// read implements [owner]. settle.lua replies -1 if it postpones a job to another call.
func (e *errand) read(numbers []int64) bool {
	n := numbers[0]
	e.isPostponed = n == -1 && e.script == &settleScript
	return n >= 0 && n <= e.most || e.isPostponed
}

// answer implements [owner].
func (e *errand) answer() {
	if e.isAwaited() {
		e.done()
	}
}

// newErrand returns an errand. Its weight is in keys.
func (b *Bare) newErrand(
	ctx context.Context, s *script, key string, weight int, most int64, args ...any,
) *errand {
	e := &errand{most: most}
	e.ctx, e.script, e.instant, e.owner = ctx, s, b.instant(), e
	e.keys, e.args, e.weight, e.width = []string{key}, args, weight, 1
	e.priority, e.once = ending, true
	return e
}

// send sends e to the server of its key.
func (b *Bare) send(e *errand) (err error) {
	if e.line, err = b.lines.lineOf(endedContext, e.keys[0]); err == nil {
		err = e.line.submit(time.Now(), &e.job)
	}
	return err
}

// sendAll sends errands and waits for the answers until ctx ends. It returns an error or nil for
// each.
func (b *Bare) sendAll(ctx context.Context, errands []*errand) []error {
	errs := make([]error, len(errands))
	byLine := make(map[*line][]*job)
	var unanswered atomic.Int64
	unanswered.Store(1)
	done := make(chan struct{})
	count := func() {
		if unanswered.Add(-1) == 0 {
			close(done)
		}
	}
	for i, e := range errands {
		e.done = count
		if e.line, errs[i] = b.lines.lineOf(ctx, e.keys[0]); errs[i] == nil {
			byLine[e.line] = append(byLine[e.line], &e.job)
			unanswered.Add(1)
		}
	}
	refused := make(map[*line]error)
	for l, jobs := range byLine {
		if err := l.submit(time.Now(), jobs...); err != nil {
			refused[l] = err
			unanswered.Add(-int64(len(jobs)))
		}
	}
	count()
	select {
	case <-done:
	case <-ctx.Done():
	}
	for i, e := range errands {
		switch {
		case errs[i] != nil: // no line: its server is not known
		case refused[e.line] != nil:
			errs[i] = refused[e.line]
		case e.fate.Load() == answered:
			errs[i] = e.err
		case e.line.withdraw(&e.job) || e.abandon():
			errs[i] = ctx.Err()
		default:
			errs[i] = e.err
		}
	}
	return errs
}

// ServerOf implements [backends.Divided].
func (b *Bare) ServerOf(scope, key string, limit limits.Limit) any {
	if b.lines.only != nil || b.lines.learn != nil && !b.lines.known.Load() {
		return nil
	}
	name := b.name(algorithm.Of(limit.Algorithm()).Kind, scope, key)
	if server, err := b.lines.serverOf(name); err == nil {
		return server
	}
	return nil
}

// settleTask is an ending, or a give-back, for settle.lua.
type settleTask struct {
	backend *Bare
	kind    string // argument of settle.lua; "": the ending determines it
	ending  *backends.Ending
	out     *limits.Settlement
	name    string
	limit   *encoded
}

// settleTasksOf returns the tasks of endings that return or charge units, apart from those of
// concurrency limits. A request has no more values at its end, and costs one or none: the rest is
// forgiven.
func (b *Bare) settleTasksOf(
	endings []backends.Ending, out []limits.Settlement,
) (tasks []*settleTask) {
	for i := range endings {
		e := &endings[i]
		traits := &algorithm.Of(e.Limit.Algorithm()).Traits
		if traits.Held || e.Final == e.Taken || e.Final < 0 || e.Taken < 0 {
			continue
		}
		if traits.Values && e.Final > 0 {
			out[i].Forgiven = max(0, e.Final-e.Taken)
			continue
		}
		limit, err := b.encode(e.Limit, b.instant())
		if err != nil {
			out[i].Err = fmt.Errorf("redisbackend: limit of scope %q: %w", e.Scope, err)
			continue
		}
		if limit.Values {
			digested := *e
			digested.Value = b.digest(e.Scope, e.Key, e.Value)
			e = &digested
		}
		tasks = append(tasks, &settleTask{
			backend: b, ending: e, out: &out[i], name: b.name(limit.Kind, e.Scope, e.Key), limit: limit,
		})
	}
	return tasks
}

// withRightPeriods returns the tasks that failed because the server's clock is in none of the
// calendar periods that were sent. It gives them the right ones. They have returned and charged
// nothing so far.
func (b *Bare) withRightPeriods(tasks []*settleTask) (again []*settleTask) {
	for _, s := range tasks {
		if s.out.Err == nil || !b.calendarClock.learn(s.out.Err) {
			continue
		}
		if limit, err := b.encode(s.ending.Limit, b.instant()); err == nil {
			s.limit, s.out.Err = limit, nil
			again = append(again, s)
		}
	}
	return again
}

// errand returns the job of s.
func (s *settleTask) errand(ctx context.Context) *errand {
	kind := cmp.Or(s.kind, "r ")
	if s.ending.Final > s.ending.Taken {
		kind = "c "
	}
	most := max(s.ending.Taken-s.ending.Final, s.ending.Final-s.ending.Taken)
	args := settleArguments(kind, s.limit, s.ending)
	return s.backend.newErrand(ctx, &settleScript, s.name, s.limit.ends, most, args...)
}

// record sets the result of s from the answer to its errand.
func (s *settleTask) record(e *errand, err error) {
	ending := s.ending
	switch {
	case err != nil:
		s.out.Err = fmt.Errorf("redisbackend: settle: %w", err)
	case ending.Final < ending.Taken:
		s.out.Returned = e.numbers[0]
	default:
		s.out.Charged, s.out.Forgiven = e.numbers[0], ending.Final-ending.Taken-e.numbers[0]
	}
}

// A ticket is the serial of the state that a taking left, and below it 46 bits of the taking's
// instant, which wrap after two years. For a sliding window they are the number of its window. A
// state that began, was converted or was rebased since has another serial, and nothing is returned
// to it: the units in use there belong to other takings.
const (
	ticketBits = 46
	ticketMask = 1<<ticketBits - 1
)

func ticketOf(at, serial int64) int64 { return serial<<ticketBits | at&ticketMask }

// settleArguments returns the arguments of settle.lua for an ending: see settle.lua.
func settleArguments(kind string, limit *encoded, e *backends.Ending) []any {
	ticket := max(0, e.Ticket)
	switch kind {
	case "c ":
		lasts := max(0, e.Lasts.Microseconds())
		return []any{limit.text, fmt.Sprintf("c %d %d", e.Final-e.Taken, lasts)}
	case "g ":
		text := fmt.Sprintf("g %d 0 %d", e.Taken, ticket)
		if limit.Values {
			text += " " + e.Value // its digest
		}
		return []any{limit.text, text}
	}
	if limit.Values { // its ticket is the whole instant: the value tells states apart
		return []any{limit.text, fmt.Sprintf("r %d %d %d %s", e.Taken, e.Final, ticket, e.Value)}
	}
	at, serial := ticket&ticketMask, ticket>>ticketBits
	return []any{limit.text, fmt.Sprintf("r %d %d %d %d", e.Taken-e.Final, e.Final, at, serial)}
}
