package shed

import "time"

// comeback says how far apart the clients of shed requests are told to come back. Those of one class
// count. The more of its requests are shed for each one that begins, the wider they are spread:
// clients that obey make room for those that repeat at once.
type comeback struct {
	since          instant // the counts are of then
	admitted, shed int64
	within         time.Duration // 0: leastSpread
}

const (
	leastSpread    = 4 * time.Second
	mostSpread     = 16 * time.Second
	comebackPeriod = 4 * time.Second
)

// note looks at the counts of the class once in comebackPeriod. They are of requests since New.
func (r *comeback) note(admitted, shed int64, now instant) {
	if now-r.since < comebackPeriod {
		return
	}
	forEach := (shed - r.shed) / max(1, admitted-r.admitted)
	spread := time.Duration(min(forEach, int64(mostSpread/leastSpread))) * leastSpread
	*r = comeback{since: now, admitted: admitted, shed: shed, within: max(leastSpread, spread)}
}

// spread returns the longest wait that a client is told.
func (r *comeback) spread() time.Duration { return max(leastSpread, r.within) }
