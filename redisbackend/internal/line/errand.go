package line

import (
	"context"
)

// Errand is a job about one key whose reply is one number: a settlement, give-back, renewal,
// release or reset.
type Errand struct {
	Job
	Line    *Line
	most    int64  // the largest number that the script may reply
	MayWait bool   // the script may reply -1 to postpone the job to another call
	Done    func() // called with the answer, unless the caller has left
}

// Read implements [Owner].
func (e *Errand) Read(numbers []int64) bool {
	n := numbers[0]
	e.isPostponed = n == -1 && e.MayWait
	return n >= 0 && n <= e.most || e.isPostponed
}

// NewErrand returns an errand of the weight of a key.
func NewErrand(ctx context.Context, s *Script, key string, most int64, args []any) *Errand {
	e := &Errand{most: most}
	e.Ctx, e.Script, e.Owner = ctx, s, e
	e.Keys, e.Args, e.Weight, e.Width = []string{key}, args, 1, 1
	e.Priority, e.Once = ending, true
	return e
}

// Answer implements [Owner].
func (e *Errand) Answer() {
	if e.IsAwaited() {
		e.Done()
	}
}

// EndedContext is a context that has ended: LineOf then does no I/O.
var EndedContext = func() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}()
