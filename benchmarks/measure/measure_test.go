package measure_test

import (
	"sync/atomic"
	"testing"

	"github.com/weir-go/weir/benchmarks/measure"
)

func TestTheMedianIsTheMiddleOrBetweenTheTwoMiddleOnes(t *testing.T) {
	for _, step := range []struct {
		of   []float64
		want float64
	}{
		{nil, 0},
		{[]float64{3}, 3},
		{[]float64{9, 1, 2}, 2},
		{[]float64{9, 1, 2, 4}, 3},
	} {
		if got := measure.Median(step.of); got != step.want {
			t.Errorf("median of %v: got %v, want %v", step.of, got, step.want)
		}
	}
}

func TestTheSpreadIsAShareOfTheMedian(t *testing.T) {
	if got := measure.Spread([]float64{90, 100, 120}); got != 0.1 {
		t.Errorf("got %v, want 0.1", got)
	}
}

func TestWrongOperationsAndAllocationsAreCountedPerOperation(t *testing.T) {
	var sink atomic.Pointer[[64]byte]
	s := measure.NewMeter(func(_, n int) (right int) {
		for i := range n {
			sink.Store(new([64]byte))
			right += i % 2
		}
		return right
	}).Read()
	if s.Allocs < 0.99 || s.Allocs > 1.1 {
		t.Errorf("allocations: got %v, want 1", s.Allocs)
	}
	if s.Wrong == 0 {
		t.Error("wrong: got none, want half of the operations")
	}
}

func TestParallelLoopsShareOutTheOperations(t *testing.T) {
	var done, calls atomic.Int64
	loop := func(_, n int) int {
		done.Add(int64(n))
		calls.Add(1)
		return n
	}
	s := measure.NewParallelMeter([]measure.Loop{loop, loop}, 10).Read()
	if s.Wrong != 0 {
		t.Errorf("got %d operations too few or too many", s.Wrong)
	}
	if done.Load() < int64(s.Ops) || calls.Load() < int64(s.Ops)/1024 {
		t.Errorf("got %d operations in %d calls, want at least %d in lots of 1,024", done.Load(), calls.Load(), s.Ops)
	}
}

func TestAPairMeasuresWhatOneLoopTakesBeyondTheOther(t *testing.T) {
	var sink atomic.Pointer[[64]byte]
	loop := func(allocations int) measure.Loop {
		return func(_, n int) int {
			for range n * allocations {
				sink.Store(new([64]byte))
			}
			return n
		}
	}
	s := measure.NewPair(loop(2), loop(5)).Read()
	if s.Allocs != 3 || s.Wrong != 0 || s.Without <= 0 {
		t.Errorf("got %+v, want 3 allocations", s)
	}
}
