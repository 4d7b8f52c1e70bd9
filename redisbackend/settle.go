package redisbackend

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/weir-go/weir/internal/ground/algorithm"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
	"github.com/weir-go/weir/redisbackend/internal/line"
	"github.com/weir-go/weir/redisbackend/internal/wire"
)

// settleBudget is how long Settle may take.
const settleBudget = time.Second

var errSettleLengths = errors.New("redisbackend: endings and settlements differ in length")

// settlements ends takings: units that they did not cost are returned, and those that they cost in
// addition are charged. Units of concurrency limits are released.
type settlements struct {
	servers *servers
	holds   *holds
}

// settle settles endings: see [Bare.Settle].
func (st *settlements) settle(
	ctx context.Context, endings []backends.Ending, out []limits.Settlement,
) error {
	if len(endings) != len(out) {
		return errSettleLengths
	}
	clear(out)
	lines := st.servers.lines
	ctx, cancel := context.WithTimeout(ctx, max(settleBudget, lines.Patience))
	defer cancel()
	tasks := st.tasksOf(endings, out)
	releases := st.holds.releasesOf(endings, out)
	var errands []*line.Errand
	for _, s := range tasks {
		errands = append(errands, st.servers.settling(ctx, &s.ending))
	}
	for _, e := range releases {
		errands = append(errands, st.holds.errandFor(ctx, e.hold))
	}
	errs := lines.SendAll(ctx, errands)
	for i, s := range tasks {
		s.record(errands[i], errs[i])
	}
	st.holds.recordReleases(releases, errands[len(tasks):], errs[len(tasks):])
	tasks, errands = st.withRightPeriods(tasks), nil
	for _, s := range tasks {
		errands = append(errands, st.servers.settling(ctx, &s.ending))
	}
	for i, err := range lines.SendAll(ctx, errands) {
		tasks[i].record(errands[i], err)
	}
	return nil
}

// tasksOf returns the tasks of endings that return or charge units, apart from those of concurrency
// limits. A request has no more values at its end, and costs one or none: the rest is forgiven.
func (st *settlements) tasksOf(
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
		ending, err := st.servers.encoder.Ending(e, st.servers.instant())
		if err != nil {
			out[i].Err = err
			continue
		}
		tasks = append(tasks, &settleTask{ending, &out[i]})
	}
	return tasks
}

// withRightPeriods returns the tasks that failed because the server's clock is in none of the
// calendar periods that were sent. It gives them the right ones. They have returned and charged
// nothing so far.
func (st *settlements) withRightPeriods(tasks []*settleTask) (again []*settleTask) {
	encoder := st.servers.encoder
	for _, s := range tasks {
		if s.out.Err == nil || !encoder.Learn(s.out.Err) {
			continue
		}
		if encoded, err := encoder.Encode(s.ending.Limit, st.servers.instant()); err == nil {
			s.ending.Encoded, s.out.Err = encoded, nil
			again = append(again, s)
		}
	}
	return again
}

// settleTask is an ending for settle.lua, and where its result goes.
type settleTask struct {
	ending wire.Ending
	out    *limits.Settlement
}

// record sets the result of s from the answer to its errand.
func (s *settleTask) record(e *line.Errand, err error) {
	ending := &s.ending
	switch {
	case err != nil:
		s.out.Err = fmt.Errorf("redisbackend: settle: %w", err)
	case ending.Final < ending.Taken:
		s.out.Returned = e.Numbers[0]
	default:
		s.out.Charged, s.out.Forgiven = e.Numbers[0], ending.Final-ending.Taken-e.Numbers[0]
	}
}
