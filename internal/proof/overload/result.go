package overload

import (
	"slices"
	"time"
)

// Result has the figures of a run.
type Result struct {
	Offered, Tries, Good, Failed, Shed int
	OfferedOf, GoodOf, ShedOf          [3]int // by class
	// FalseSheds are the sheds outside of Scenario.Trouble, Calm the tries there.
	FalseSheds, Calm int
	// Latencies are those of all answers that were neither shed nor failed, sorted.
	Latencies []time.Duration
	// FirstShed is the time from Scenario.Step to the first shed, LastShed that from Scenario.End
	// to the last one. -1: never.
	FirstShed, LastShed time.Duration
	// AfterEnd is how many requests were shed after Scenario.End.
	AfterEnd int
	Seconds  float64
	// Of counts the requests of each route from Scenario.From on, with those that need no slot and
	// those of a siege.
	Of map[string]*Count

	sawShed bool
}

// Count counts the requests of a route by how they ended.
type Count struct {
	Tries, Shed, Ended, Good int

	named int // of all tenants
}

// Refused returns the part of the tries that was shed.
func (c *Count) Refused() float64 { return float64(c.Shed) / float64(max(1, c.Tries)) }

func (x *Result) shed(s *Scenario, q *request, now time.Duration) {
	if now >= s.Step && !x.sawShed {
		x.sawShed = true
		x.FirstShed = now - s.Step + 1
	}
	if s.End > 0 && now >= s.End {
		x.LastShed = now - s.End + 1
		x.AfterEnd++
	}
	if !q.counted {
		return
	}
	x.Shed++
	x.ShedOf[q.Class]++
	if !s.Trouble.has(now) {
		x.FalseSheds++
	}
}

func (x *Result) answered(q *request, latency time.Duration, good, failed bool) {
	switch {
	case failed:
		x.Failed++
		return
	case good:
		x.Good++
		x.GoodOf[q.Class]++
	}
	x.Latencies = append(x.Latencies, latency)
}

func (x *Result) close(s *Scenario) {
	slices.Sort(x.Latencies)
	x.Seconds = (s.Length - s.From).Seconds()
	if x.FirstShed--; !x.sawShed {
		x.FirstShed = -1
	}
	x.LastShed--
}

// Goodput returns the answers within the SLO, a second.
func (x *Result) Goodput() float64 { return float64(x.Good) / x.Seconds }

// Quantile returns the latency within which the part q of the answers came.
func (x *Result) Quantile(q float64) time.Duration {
	if len(x.Latencies) == 0 {
		return 0
	}
	return x.Latencies[min(len(x.Latencies)-1, int(q*float64(len(x.Latencies))))]
}

// Available returns the part of the requests of a class that got a good answer.
func (x *Result) Available(class int) float64 {
	if x.OfferedOf[class] == 0 {
		return 1
	}
	return float64(x.GoodOf[class]) / float64(x.OfferedOf[class])
}
