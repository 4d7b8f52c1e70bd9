package core

import "math/bits"

// How far one decision looks for nodes at most. It seldom has to look so far in
// vain: where logs are few and far between, the one that is found has many nodes.
const (
	reclaimBuckets      = 256
	reclaimBucketsThere = 64  // in another shard
	reclaimLogs         = 12  // whose takings may be merged
	vainPause           = 256 // of a period, after one was in vain, for logs that have nodes
)

// fewNodes is how many a log has to have to give some to its own scope's others,
// unless those have none. With so few, a log does as well to wait until one of its
// own expires, and to remember what is taken until then together.
const fewNodes = 4

// findNodeLocked returns a node for the log of k in e when no free one is at
// hand, or 0. It looks for dead ones before it draws on what the shards have in
// common. When that is spent, it looks for dead ones in another shard, too, and
// the scope that has most nodes in this one yields: neighbouring takings of one
// of its logs are remembered together.
func (sh *shard) findNodeLocked(e *entry, k *class, now int64) uint32 {
	l := &sh.nodes
	var wanting *class
	least := fewNodes
	if l.common.left.Load() <= 0 {
		if wanting = k; e.empty() || e.logHead() == 0 {
			least = 2
		} else if k.share == l.vainShare && uint64(now-l.vainAt) < uint64(k.period/vainPause) {
			return 0
		}
		if l.common.reclaim(now); l.common.left.Load() > 0 {
			wanting = nil
		}
	}
	switch {
	case sh.reclaimLocked(reclaimBuckets, wanting, least, now):
	case l.borrow():
	case !e.empty() && sh.coarsenLocked(e, k, fewNodes, now):
	default:
		l.vainAt, l.vainShare = now, k.share
		return 0
	}
	return l.get(k.share)
}

// reclaim frees dead nodes of one shard after the other, a few for each call, so
// that each returns segments that it does not need. It passes over a shard that is
// in use: the caller holds locks of others, and must not wait.
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
// from where it ended last time, until it has come by a dead node. If there is
// none and a class is given that wants one, takings are merged in the longest
// log that it has come by of the share that has most nodes: if that is the share
// of the class, in one of at least so many nodes.
func (sh *shard) reclaimLocked(buckets int, wanting *class, least int, now int64) bool {
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
		places, freed := &sh.buckets[l.hand], false
		for i := range places {
			e := &places[i]
			if e.empty() || e.a == 0 {
				continue
			}
			k := sh.classes.get(e.class)
			if k.algorithm != AlgorithmSlidingLog {
				continue
			}
			if sh.expireLocked(e, k, now) {
				freed = true
			}
			if wanting != nil && k.share == share && e.logHead() != 0 {
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
	return sh.coarsenLocked(longest, sh.classes.get(longest.class), least, now)
}

// expireLocked frees nodes of e, a log of k, that do not count at the instant now,
// and reports whether there were any. Somebody who read the clock before now may
// have yet to decide. So nothing is forgotten: what has expired is remembered
// together, as of the last of it, until something is taken. So is all of a log that
// is further ahead of the clock than is held, which is what a rebase leaves of it,
// but not as of now: it may be the caller who is late.
func (sh *shard) expireLocked(e *entry, k *class, now int64) bool {
	l, held := &sh.nodes, max(now, e.at)
	head := e.logHead()
	if held >= e.at+k.period || e.at-now > k.hold {
		l.release(&e.state, 0, k.share)
		e.a, e.b = 0, packLog(e.logSum(), e.logSum())
		return head != 0
	}
	freed := false
	for head != 0 && held >= l.at(head).at+k.period {
		node := l.at(head)
		next := node.next
		if next == 0 || held < l.at(next).at+k.period {
			break
		}
		l.at(next).cost += node.cost
		l.put(head, k.share)
		head, freed = next, true
	}
	if freed {
		e.a = packList(head, e.logTail())
	}
	return freed
}

// coarsenLocked frees some of the nodes of e, a log of k, if it has least of them
// at least, and reports whether it did. Takings in one slot of time are remembered
// together, as of the last of them, for longer than they should be by less than
// the slot. Slots are a power of two long, and so fine that a quarter of the nodes
// is freed or a little more. They nest: however often a log is coarsened, no
// taking is put off by more than the longest slot.
func (sh *shard) coarsenLocked(e *entry, k *class, least int, now int64) bool {
	l, held := &sh.nodes, max(now, e.at)
	before, first := uint32(0), e.logHead() // expired nodes are not merged with live ones
	for first != 0 && held >= l.at(first).at+k.period {
		before, first = first, l.at(first).next
	}
	n := l.length(first)
	if n < least {
		return false
	}
	shift := 63 // into the latest taking
	if keep := int64(n - max(1, n/4)); keep > 0 {
		shift = bits.Len64(uint64((e.at - l.at(first).at) / keep)) // keep slots, and that of the latest, or fewer
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
			l.put(i, k.share)
		case node.next == 0 && node.at>>shift == e.at>>shift:
			latest += int64(node.cost)
			l.put(i, k.share)
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
