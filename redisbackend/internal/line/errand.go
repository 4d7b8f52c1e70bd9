package line

import (
	"context"
	"sync/atomic"
	"time"
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

// Send sends e to the server of its key.
func (ls *Lines) Send(e *Errand) (err error) {
	if e.Line, err = ls.LineOf(EndedContext, e.Keys[0]); err == nil {
		err = e.Line.Submit(time.Now(), &e.Job)
	}
	return err
}

// SendAll sends errands and waits for the answers until ctx ends. It returns an error or nil for
// each.
func (ls *Lines) SendAll(ctx context.Context, errands []*Errand) []error {
	errs := make([]error, len(errands))
	byLine := make(map[*Line][]*Job)
	var unanswered atomic.Int64
	unanswered.Store(1)
	done := make(chan struct{})
	count := func() {
		if unanswered.Add(-1) == 0 {
			close(done)
		}
	}
	for i, e := range errands {
		e.Done = count
		if e.Line, errs[i] = ls.LineOf(ctx, e.Keys[0]); errs[i] == nil {
			byLine[e.Line] = append(byLine[e.Line], &e.Job)
			unanswered.Add(1)
		}
	}
	refused := make(map[*Line]error)
	for l, jobs := range byLine {
		if err := l.Submit(time.Now(), jobs...); err != nil {
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
		case refused[e.Line] != nil:
			errs[i] = refused[e.Line]
		case e.fate.Load() == answered:
			errs[i] = e.Err
		case e.Line.Withdraw(&e.Job) || e.abandon():
			errs[i] = ctx.Err()
		default:
			errs[i] = e.Err
		}
	}
	return errs
}
