package simulate

import "github.com/weir-go/weir/core"

// end is the end of a request in flight.
type end struct {
	at      int64
	outcome *core.Outcome
	result  core.Result
}

// ends is a heap ordered by time.
type ends []end

func (e ends) Len() int           { return len(e) }
func (e ends) Less(i, j int) bool { return e[i].at < e[j].at }
func (e ends) Swap(i, j int)      { e[i], e[j] = e[j], e[i] }
func (e *ends) Push(x any)        { *e = append(*e, x.(end)) }
func (e *ends) Pop() any {
	old := *e
	last := old[len(old)-1]
	old[len(old)-1] = end{}
	*e = old[:len(old)-1]
	return last
}
