package memory

import "math/bits"

// How far one decision looks for nodes at most. Such a search seldom fails: where
// logs are rare, each has many nodes.
const (
	reclaimBuckets      = 256
	reclaimBucketsThere = 64  // in another shard
	reclaimLogs         = 12  // whose takings may be merged
	vainPause           = 256 // a part of the period: the pause after a search failed, for logs that have nodes
)

// fewNodes is how many nodes a log needs before it yields some to other logs of its
// scope, unless those have none. A log with fewer does better to wait until one of its
// own nodes expires, and to merge its takings until then.
const fewNodes = 4

// findNodeLocked returns a node for the log in e, a state under limit, when none is
// free; 0 if it finds none. It looks for expired nodes first, then borrows a segment
// from the common ones. When those are used up, it also looks for expired nodes in
// another shard, and the scope that has most nodes in this shard yields: neighbouring
// takings in one of its logs are merged.
func (sh *shard) findNodeLocked(e *entry, limit *scopedLimit, now int64) uint32 {
	l := &sh.nodes
	var wanting *scopedLimit
	least := fewNodes
	if l.common.left.Load() <= 0 {
		if wanting = limit; e.empty() || e.logHead() == 0 {
			least = 2
		} else if limit.share == l.vainShare && uint64(now-l.vainAt) < uint64(limit.period/vainPause) {
			return 0
		}
		if l.common.reclaim(now); l.common.left.Load() > 0 {
			wanting = nil
		}
	}
	switch {
	case sh.reclaimLocked(reclaimBuckets, wanting, least, now):
	case l.borrow():
	case !e.empty() && sh.coarsenLocked(e, limit, fewNodes, now):
	default:
		l.vainAt, l.vainShare = now, limit.share
		return 0
	}
	return l.get(limit.share)
}

// reclaim frees expired nodes of one shard after the other, a few for each call, so
// that each returns the segments that it does not need. It skips a shard that is in
// use: the caller has the locks of other shards and must not wait.
func (c *commonSegments) reclaim(now int64) {
	for range min(4, len(c.shards)) {
		sh := &c.shards[int(c.hand.Add(1)%uint32(len(c.shards)))]
		if !sh.mu.TryLock() {
			continue
		}
		borrowed := sh.nodes.drawn > sh.nodes.own
		if borrowed {
			sh.reclaimLocked(reclaimBucketsThere, nil, 0, now)
		}
		sh.mu.Unlock()
		if borrowed {
			return
		}
	}
}

// reclaimLocked frees nodes, and reports whether it did. It looks through buckets,
// from where it stopped last time, until it finds an expired node. If it finds none
// and wanting is set, it merges takings in the longest log that it has seen of the
// share number with most nodes. If that is wanting's own number, the log must have at
// least least nodes.
func (sh *shard) reclaimLocked(buckets int, wanting *scopedLimit, least int, now int64) bool {
	l := &sh.nodes
	var share uint8
	if wanting != nil {
		if share = l.largestShare(); share != wanting.share {
			least = 1
		}
	}
	var longest *entry
	most, logs := 0, 0
	for range min(buckets, len(sh.buckets)) {
		if l.hand++; l.hand >= uint32(len(sh.buckets)) {
			l.hand = 0
		}
		slots, freed := &sh.buckets[l.hand], false
		for i := range slots {
			e := &slots[i]
			if e.empty() || e.a == 0 {
				continue
			}
			limit := sh.limits.get(e.limitID)
			if !limit.lists {
				continue
			}
			if sh.expireLocked(e, limit, now) {
				freed = true
			}
			if wanting != nil && limit.share == share && e.logHead() != 0 {
				logs++
				if n := l.length(e.logHead()); n > most {
					longest, most = e, n
				}
			}
		}
		if freed {
			return true
		}
		if logs >= reclaimLogs {
			break
		}
	}
	if longest == nil {
		return false
	}
	return sh.coarsenLocked(longest, sh.limits.get(longest.limitID), least, now)
}

// expireLocked frees nodes of e, a log under limit, that have expired at now, and
// reports whether there were any. A caller that read the clock before now may still
// have to decide, so no units are dropped: the expired takings are merged into the
// last of them, until units are taken.
func (sh *shard) expireLocked(e *entry, limit *scopedLimit, now int64) bool {
	l, asOf := &sh.nodes, max(now, e.at)
	head := e.logHead()
	if asOf >= e.at+limit.period {
		l.release(&e.state, 0, limit.share)
		e.state = e.logWithoutList()
		return head != 0
	}
	freed := false
	for head != 0 && asOf >= l.at(head).at+limit.period {
		node := l.at(head)
		next := node.next
		if next == 0 || asOf < l.at(next).at+limit.period {
			break
		}
		l.at(next).cost += node.cost
		l.put(head, limit.share)
		head, freed = next, true
	}
	if freed {
		e.a = packList(head, e.logTail())
	}
	return freed
}

// coarsenLocked frees some nodes of e, a log under limit, and reports whether it did.
// It does nothing if the log has fewer nodes than least. Takings in one interval of
// time are merged into the last of them, so they count too long, by less than the
// interval. Intervals are a power of two of microseconds, as fine as frees a quarter
// of the nodes. They nest: however often a log is coarsened, no taking counts too long
// by more than the longest interval.
func (sh *shard) coarsenLocked(e *entry, limit *scopedLimit, least int, now int64) bool {
	l, asOf := &sh.nodes, max(now, e.at)
	before, first := uint32(0), e.logHead() // expired nodes are not merged with live ones
	for first != 0 && asOf >= l.at(first).at+limit.period {
		before, first = first, l.at(first).next
	}
	n := l.length(first)
	if n < least {
		return false
	}
	shift := 63 // into the latest taking
	if keep := int64(n - max(1, n/4)); keep > 0 {
		shift = bits.Len64(uint64((e.at - l.at(first).at) / keep)) // at most keep intervals, and that of the latest
	}
	head, tail, sum, latest := e.logHead(), before, e.logSum(), e.logLatest()
	if before == 0 {
		head = 0
	}
	for i := first; i != 0; {
		node := *l.at(i)
		switch {
		case node.next != 0 && node.at>>shift == l.at(node.next).at>>shift:
			l.at(node.next).cost += node.cost
			l.put(i, limit.share)
		case node.next == 0 && node.at>>shift == e.at>>shift:
			latest += int64(node.cost)
			l.put(i, limit.share)
		case tail == 0:
			head, tail = i, i
		default:
			l.at(tail).next = i
			tail = i
		}
		i = node.next
	}
	if tail != 0 {
		l.at(tail).next = 0
	}
	e.a, e.b = packList(head, tail), packLog(sum, latest)
	l.merges++
	return true
}

// length returns how many nodes there are from i on.
func (l *logNodes) length(i uint32) (n int) {
	for ; i != 0; i = l.at(i).next {
		n++
	}
	return n
}
