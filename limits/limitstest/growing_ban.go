package limitstest

import (
	"github.com/weir-go/weir/limits"
)

// row is the bans of a key that are in a row: each began less than the longest ban after the one
// before had ended.
type row struct {
	bans int64 // 0: no ban is remembered
	end  int64 // of the last one; it may be over
}

// isGrowing reports whether bans of l grow.
func isGrowing(l limits.Limit) bool { return l.Algorithm() == limits.AlgorithmGrowingBan }

// isBan reports whether l bans.
func isBan(l limits.Limit) bool {
	return l.Algorithm() == limits.AlgorithmBan || isGrowing(l)
}

// isOver reports whether a ban that begins at instant x begins a new row under l.
func (r row) isOver(x int64, l limits.Limit) bool {
	return r.bans == 0 || x >= r.end+l.Longest().Microseconds()
}

// lasts returns how long the last ban of r lasts under l.
func (r row) lasts(l limits.Limit) int64 {
	lasts, longest := l.Lasting().Microseconds(), l.Longest().Microseconds()
	for n := int64(1); n < r.bans; n++ {
		lasts = min(2*lasts, longest)
	}
	return lasts
}

// bannedAt returns u, whose ban begins at instant x.
func bannedAt(u usage, x int64) usage {
	if u.row.isOver(x, u.limit) {
		u.row = row{}
	}
	u.row.bans = min(u.row.bans+1, 63) // a backend counts no further
	u.row.end = x + u.row.lasts(u.limit)
	u.until = u.row.end
	return u
}

// grown returns u, under a ban that grows, at instant x: without the units, the ban and the row that
// are over.
func grown(u usage, x int64) usage {
	if u.isOver(x) {
		u.curr, u.until, u.at = 0, 0, x
	}
	if u.until == 0 && u.row.isOver(x, u.limit) {
		u.row = row{}
	}
	return u
}

// bannedUnder returns u, a usage of a ban, under another limit of its kind at instant x. A ban that
// does not grow forgets the row. One that grows begins a row with the ban that has begun.
func bannedUnder(u usage, l limits.Limit, x int64) usage {
	switch {
	case isGrowing(u.limit) == isGrowing(l):
	case isGrowing(u.limit):
		u = grown(u, x)
		u.row = row{}
	case u.until != 0:
		u.row = row{1, u.until}
	}
	u.limit = l
	return u
}

// returning returns u, under a ban that grows, after n units of a taking at the instant at came
// back. If that lifts the ban, the one before counts as having ended when the period began.
func returning(u usage, at, n, now int64) usage {
	if at < u.at || at >= u.at+micros(u.limit) || u.isOver(now) {
		return u
	}
	u.curr -= n
	if u.until != 0 && u.curr < u.limit.Burst() {
		u.until = 0
		if u.row = (row{u.row.bans - 1, u.at}); u.row.bans == 0 {
			u.row = row{}
		}
	}
	return u
}

// growsFreshAt is freshAt for a ban that grows.
func growsFreshAt(u usage) int64 {
	at := u.at
	if u.curr > 0 && u.until == 0 {
		at += micros(u.limit)
	}
	if u.row.bans > 0 {
		at = max(at, u.row.end+u.limit.Longest().Microseconds())
	}
	return at
}
