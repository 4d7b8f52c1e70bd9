package memory

// slidingLog is the sliding log: a list of takings, oldest first. The latest is in the state itself,
// so that a key with one taking needs no node. The others are in nodes of the shard.
type slidingLog struct{ sharedByFamilies }

func (*slidingLog) compile(l *compiledLimit) {
	l.form, l.lists = [2]int64{l.period}, true
}

// logView is a log as of some instant.
type logView struct {
	head     uint32 // oldest node that still counts; 0: none
	sum      int64  // units that still count, the latest taking included
	latest   int64  // units of the latest taking if it still counts
	latestAt int64
	taken    int64 // units added since, at view.asOf
}

// forgetNodes makes v a log without nodes. It is for a key that was found, but was
// then displaced by another key of its group and lost its nodes. Its earlier takings
// count as the latest, for longer than they should.
func (v *logView) forgetNodes() {
	if v.head != 0 {
		v.head, v.latest = 0, v.sum
	}
}

const logListShift = 32

func (s *state) logHead() uint32     { return uint32(s.a >> logListShift) }
func (s *state) logTail() uint32     { return uint32(s.a) }
func (s *state) logSum() int64       { return int64(s.b >> 16) }
func (s *state) logLatest() int64    { return int64(s.b & 0xffff) }
func packLog(sum, cost int64) uint32 { return uint32(sum)<<16 | uint32(cost) }
func packList(head, tail uint32) int64 {
	return int64(head)<<logListShift | int64(tail)
}

// advance sets s.log to the takings that still count at s.asOf.
func (*slidingLog) advance(l *compiledLimit, s *view, sh *shard) {
	nodes := &sh.nodes
	if s.b == 0 || s.asOf >= s.at+l.period {
		*s = view{state: state{at: s.asOf, serial: s.serial}, asOf: s.asOf}
		return
	}
	log := logView{head: s.logHead(), sum: s.logSum(), latest: s.logLatest(), latestAt: s.at}
	if log.head != 0 {
		l.dropExpired(&log, s.asOf, nodes)
	}
	s.log = log
}

// dropExpired removes from v the nodes that no longer count at the instant asOf.
func (l *compiledLimit) dropExpired(v *logView, asOf int64, nodes *logNodes) {
	for v.head != 0 {
		node := nodes.at(v.head)
		if asOf < node.at+l.period {
			return
		}
		v.sum -= int64(node.cost)
		v.head = node.next
	}
}

func (*slidingLog) inUse(_ *compiledLimit, s *view) int64 { return s.log.sum + s.log.taken }

func (*slidingLog) take(_ *compiledLimit, s *view, n int64) {
	s.log.taken += n
	s.at = s.asOf
}

func (*slidingLog) units(s *state) int64 { return s.logSum() }

func (*slidingLog) freshAt(l *compiledLimit, s *state) int64 { return s.at + l.period }

// untilFits looks at each of the oldest takings that have to expire.
func (*slidingLog) untilFits(l *compiledLimit, s *view, n int64, sh *shard) int64 {
	nodes := &sh.nodes
	excess := l.inUse(s) + n - l.max
	for i := s.log.head; i != 0; {
		node := nodes.at(i)
		excess -= int64(node.cost)
		if excess <= 0 {
			return node.at + l.period - s.asOf
		}
		i = node.next
	}
	if excess -= s.log.latest; excess <= 0 {
		return s.log.latestAt + l.period - s.asOf
	}
	return l.period
}

// storeLogLocked is storeLocked for a log. e is the entry of hash, or an empty one.
func (sh *shard) storeLogLocked(e *entry, hash uint64, limit *scopedLimit, s *view) {
	l, v := &sh.nodes, &s.log
	listed := e.hash == hash && v.head != 0
	switch {
	case listed:
		l.expire(&e.state, limit, s.asOf)
	case e.hash == hash:
		sh.releaseLocked(&e.state)
		e.a = 0
	}
	node := uint32(0)
	if v.latest > 0 && v.latestAt != s.asOf { // the taking before needs a node
		if node = l.get(limit.share); node == 0 {
			node = sh.findNodeLocked(e, limit)
		}
	}
	if listed { // takings may have been merged since v was read
		v.head, v.sum, v.latest = e.logHead(), e.logSum(), e.logLatest()
	}
	head, tail, cost := v.head, uint32(0), v.taken
	if head != 0 {
		tail = e.logTail()
	}
	if node != 0 {
		*l.at(node) = logNode{at: v.latestAt, cost: uint32(v.latest)}
		if tail == 0 {
			head = node
		} else {
			l.at(tail).next = node
		}
		tail = node
	} else {
		// Either both were taken at the same instant, or there is no node. Then the
		// taking before counts as taken now, for longer than it should.
		cost += v.latest
	}
	e.hash = hash
	e.state = state{at: s.asOf, limitID: limit.id, serial: s.serial, a: packList(head, tail), b: packLog(v.sum+v.taken, cost)}
}

// refundLocked takes units off the taking, if it is still
// remembered by itself. It looks at the takings before that one.
func (*slidingLog) refundLocked(sh *shard, l *scopedLimit, e *entry, of refund, now int64) int64 {
	s, n, at, share := &e.state, of.taken-of.final, of.at, l.share
	if now-at >= l.period {
		return 0 // it has expired
	}
	sum, latest := s.logSum(), s.logLatest()
	if at == s.at {
		n = min(n, latest)
		s.b = packLog(sum-n, latest-n)
		if latest == n && sum > n {
			sh.nodes.popLatest(s, share)
		}
		return n
	}
	if s.a == 0 {
		return 0
	}
	nodes := &sh.nodes
	for i := s.logHead(); i != 0; i = nodes.at(i).next {
		switch node := nodes.at(i); {
		case node.at > at:
			return 0
		case node.at == at:
			n = min(n, int64(node.cost))
			node.cost -= uint32(n)
			s.b = packLog(sum-n, latest)
			return n
		}
	}
	return 0
}

// popLatest makes the latest taking in the list of s that has units left the latest of
// all, and frees its node and those after it.
func (l *logNodes) popLatest(s *state, share uint8) {
	before, latest, tail := uint32(0), uint32(0), uint32(0)
	for i, last := s.logHead(), uint32(0); i != 0; i, last = l.at(i).next, i {
		if l.at(i).cost > 0 {
			before, latest = last, i
		}
		tail = i
	}
	s.at = l.at(latest).at
	s.b = packLog(s.logSum(), int64(l.at(latest).cost))
	head := s.logHead()
	s.a = 0
	if before != 0 {
		s.a = packList(head, before)
		l.at(before).next = 0
	}
	for i := latest; ; {
		next := l.at(i).next
		l.put(i, share)
		if i == tail {
			return
		}
		i = next
	}
}
