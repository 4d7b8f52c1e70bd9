package redisbackend

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/weir-go/weir/internal/ground/algorithm"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
	"github.com/weir-go/weir/redisbackend/internal/line"
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
	ctx, cancel := context.WithTimeout(ctx, max(settleBudget, b.lines.Patience))
	defer cancel()
	tasks := b.settleTasksOf(endings, out)
	releases := b.holds.releasesOf(endings, out)
	var errands []*line.Errand
	for _, s := range tasks {
		errands = append(errands, s.errand(ctx))
	}
	for _, e := range releases {
		errands = append(errands, b.holds.errandFor(ctx, e.hold))
	}
	errs := b.lines.SendAll(ctx, errands)
	for i, s := range tasks {
		s.record(errands[i], errs[i])
	}
	b.holds.recordReleases(releases, errs[len(tasks):])
	tasks, errands = b.withRightPeriods(tasks), nil
	for _, s := range tasks {
		errands = append(errands, s.errand(ctx))
	}
	for i, err := range b.lines.SendAll(ctx, errands) {
		tasks[i].record(errands[i], err)
	}
	return nil
}

// newErrand returns an errand. Its weight is in keys.
func (b *Bare) newErrand(
	ctx context.Context, s *line.Script, key string, weight int, most int64, args ...any,
) *line.Errand {
	e := line.NewErrand(ctx, s, key, most, args)
	e.Instant, e.Weight, e.MayWait = b.instant(), weight, s == &settleScript
	return e
}

// ServerOf implements [backends.Divided].
func (b *Bare) ServerOf(scope, key string, limit limits.Limit) any {
	name := b.name(algorithm.Of(limit.Algorithm()).Kind, scope, key)
	if server := b.lines.ServerNow(name); server != nil {
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
func (s *settleTask) errand(ctx context.Context) *line.Errand {
	kind := cmp.Or(s.kind, "r ")
	if s.ending.Final > s.ending.Taken {
		kind = "c "
	}
	most := max(s.ending.Taken-s.ending.Final, s.ending.Final-s.ending.Taken)
	args := settleArguments(kind, s.limit, s.ending)
	return s.backend.newErrand(ctx, &settleScript, s.name, s.limit.ends, most, args...)
}

// record sets the result of s from the answer to its errand.
func (s *settleTask) record(e *line.Errand, err error) {
	ending := s.ending
	switch {
	case err != nil:
		s.out.Err = fmt.Errorf("redisbackend: settle: %w", err)
	case ending.Final < ending.Taken:
		s.out.Returned = e.Numbers[0]
	default:
		s.out.Charged, s.out.Forgiven = e.Numbers[0], ending.Final-ending.Taken-e.Numbers[0]
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
