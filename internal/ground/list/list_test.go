package list_test

import (
	"container/list"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/weir-go/weir/internal/proof/testrun"

	own "github.com/weir-go/weir/internal/ground/list"
)

// It does what the list of the standard library does.
func TestListsLikeTheStandardLibrary(t *testing.T) {
	random := rand.New(rand.NewPCG(testrun.Seed(t), 0))
	var l own.List[int]
	var in, out []*own.Node[int]
	for i := range 20 {
		out = append(out, &own.Node[int]{Of: i})
	}
	want := list.New()
	at := make(map[int]*list.Element)
	for range 10_000 {
		move := func(from, to *[]*own.Node[int]) *own.Node[int] {
			i := random.IntN(len(*from))
			n := (*from)[i]
			*from, *to = slices.Delete(*from, i, i+1), append(*to, n)
			return n
		}
		switch op := random.IntN(3); {
		case op == 0 && len(in) > 0:
			n := move(&in, &out)
			l.Remove(n)
			want.Remove(at[n.Of])
		case op == 1 && len(out) > 0:
			n := move(&out, &in)
			l.Add(n)
			at[n.Of] = want.PushBack(n.Of)
		case op == 2 && len(out) > 0:
			n := move(&out, &in)
			l.AddFirst(n)
			at[n.Of] = want.PushFront(n.Of)
		}
		var forth, back, wanted []int
		for n := l.First; n != nil; n = n.Next {
			forth = append(forth, n.Of)
		}
		for n := l.Last; n != nil; n = n.Prev {
			back = append(back, n.Of)
		}
		for e := want.Front(); e != nil; e = e.Next() {
			wanted = append(wanted, e.Value.(int))
		}
		slices.Reverse(back)
		if !slices.Equal(forth, wanted) || !slices.Equal(back, wanted) || l.Size != len(wanted) {
			t.Fatalf("%v, from the end %v, size %d, want %v", forth, back, l.Size, wanted)
		}
	}
}
