package redisbackend

import (
	"slices"
	"testing"
)

func TestTheNumberRisesAtOnceAndFallsLate(t *testing.T) {
	const missed = -1
	for _, tt := range []struct {
		name         string
		counts, want []int64
	}{
		{"nothing is known", []int64{missed, missed, 5}, []int64{0, 0, 5}},
		{"a fleet grows", []int64{1, 2, 8, 8, 9}, []int64{1, 2, 8, 8, 9}},
		{"a fleet shrinks", []int64{8, 8, 8, 8, 2, 2, 2, 2, 2}, []int64{8, 8, 8, 8, 8, 8, 8, 2, 2}},
		{"it shrinks in steps", []int64{8, 8, 8, 8, 6, 4, 4, 4, 4, 4}, []int64{8, 8, 8, 8, 8, 8, 8, 6, 4, 4}},
		{"Redis comes back empty", []int64{8, 8, 8, 8, missed, 1, 5, 8, 8, 8}, []int64{8, 8, 8, 8, 8, 8, 8, 8, 8, 8}},
		{"it lost all between beats", []int64{8, 8, 8, 8, 1, 8, 8, 8, 8}, []int64{8, 8, 8, 8, 8, 8, 8, 8, 8}},
		{
			"it comes and goes, empty",
			[]int64{8, 8, 8, 8, missed, 1, missed, 1, 1, missed, 1, 1, 1, missed, missed, 1, 1, 1, 1},
			[]int64{8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 1},
		},
		{"a process begins beside an empty Redis", []int64{1, 8, 8, 8}, []int64{1, 8, 8, 8}},
		{"it rises while it falls", []int64{8, 8, 8, 8, 2, 9, 2, 2, 2, 2}, []int64{8, 8, 8, 8, 8, 9, 9, 9, 9, 2}},
	} {
		var c census
		var got []int64
		for _, n := range tt.counts {
			if n == missed {
				c.missed()
			} else {
				c.counted(n)
			}
			got = append(got, c.number)
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("%s: after counts %v the numbers are\n%v, want\n%v", tt.name, tt.counts, got, tt.want)
		}
	}
}
