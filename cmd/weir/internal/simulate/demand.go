package simulate

import (
	"time"

	"github.com/weir-go/weir/limits"
)

// demand is the demand of all keys of one rule, independent of denials: for each key, the maximal
// number of units in a period of its limit. Periods are calendar periods, or begin at whole
// multiples since the epoch, like fixed windows.
type demand struct {
	keys  chunked[keyDemand]
	count int64 // keys
	asked int64 // requests
	units int64
	had   map[uint64]int64 // by key and value, if values are counted: latest period with it
	most  map[int64]int64  // number of keys by the units of their busiest period
	all   map[int64]int64  // number of periods of keys by their units
}

type keyDemand struct {
	period int64 // current period
	units  int64 // units in the current period
	peak   int64
	asked  uint32
}

// unitsOf returns the units of a request in a period. If values are counted, it is 0 if the key
// has had its value in the period, else 1.
func (d *demand) unitsOf(c *charge, period int64, countsValues bool) int64 {
	if !countsValues {
		return c.cost
	}
	if d.had == nil {
		d.had = make(map[uint64]int64)
	}
	id := uint64(c.id)<<32 | uint64(c.value)
	if last, ok := d.had[id]; ok && last == period {
		return 0
	}
	d.had[id] = period
	return 1
}

// add adds a request of so many units in a period. It reports whether the key is new.
func (d *demand) add(c *charge, period, units int64) (isNew bool) {
	k := d.keys.at(c.id)
	if k.asked == 0 {
		d.count++
		isNew = true
	}
	k.asked++
	d.asked++
	d.units += units
	if period != k.period {
		d.close(k)
		k.period = period
	}
	k.units += units
	return isNew
}

// close ends the current period of a key.
func (d *demand) close(k *keyDemand) {
	if k.units > 0 {
		if d.all == nil {
			d.all = make(map[int64]int64)
		}
		d.all[k.units]++
		k.peak = max(k.peak, k.units)
		k.units = 0
	}
}

// finish ends all periods.
func (d *demand) finish() {
	d.most = make(map[int64]int64)
	for _, k := range d.keys.all(func(k *keyDemand) bool { return k.asked == 0 }) {
		d.close(k)
		d.most[k.peak]++
	}
}

// total is the demand of a replay, by rule and by client.
type total struct {
	requests int64
	refused  int64 // answered 429 according to the log
	full     int64 // answered 503
	first    int64
	last     int64
	rules    []demand
	limits   []limits.Limit
	periods  []int64 // of the rules, in microseconds
	clients  chunked[uint32]
	count    int64 // clients
	series   series
	pairs    int64 // pairs of rule and key
}

// add adds a request.
func (t *total) add(it *item) {
	if t.requests == 0 {
		t.first, t.last = it.at, it.at
	}
	t.requests++
	t.first, t.last = min(t.first, it.at), max(t.last, it.at)
	switch it.status {
	case 429:
		t.refused++
	case 503:
		t.full++
	}
	t.series.add(it.at, 1)
	n := t.clients.at(it.client)
	if *n == 0 {
		t.count++
	}
	*n++
	it.each(func(c *charge) {
		if c.err != nil {
			return
		}
		rule, period := &t.rules[c.rule], t.periodAt(c, it.at)
		countsValues := t.limits[c.rule].Algorithm().CountsValues()
		if rule.add(c, period, rule.unitsOf(c, period, countsValues)) {
			t.pairs++
		}
	})
}

// periodAt returns the number of the period of a charge's limit at a time.
func (t *total) periodAt(c *charge, at int64) int64 {
	period := t.period(c)
	if limit := t.limits[c.rule]; limit.Period() != "" {
		start, _, _ := limit.Window(time.UnixMicro(at))
		return start.UnixMicro()
	}
	return at / period
}

// period returns the length of the period of a charge's limit.
func (t *total) period(c *charge) int64 {
	if period := t.periods[c.rule]; period != 0 {
		return period
	}
	limit := t.limits[c.rule]
	if limit == (limits.Limit{}) { // limit by key: use the limit of the first request
		limit = c.limit
	}
	period := max(1, limit.Rate().Period.Microseconds())
	if limit.Algorithm().Holds() {
		period = second
	}
	t.periods[c.rule], t.limits[c.rule] = period, limit
	return period
}
