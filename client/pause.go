package client

// pause is what Observe is told of the time in which no request of a bucket may go: after a denial, or since an answer
// had nothing left.
type pause struct {
	on             bool
	since          instant
	source, bucket string // as events have them
}

// noteEvents adds what an answer to c has begun or ended to c.events. What begins with a denial is told as Limited.
func (t *Transport) noteEvents(c *call, now instant, a *told, source string) {
	b, at := c.about, c.ticket.at
	if a.limited {
		b.pause.begin(now, source, c.bucket.name)
		return
	}
	if b.account != nil {
		b.account.pause.end(c, at)
	}
	b.pause.end(c, at)
	if b.pause.on {
		return
	}
	until, source, held := b.asTold(t, now)
	if held && b.limited && b.left <= 0 && b.believed(until, now, t) > now {
		b.pause.begin(now, source, c.bucket.name)
		c.events = append(c.events, Event{Kind: Paused, Bucket: c.bucket.name, Wait: until - now, Source: source})
	}
}

func (p *pause) begin(now instant, source, bucket string) {
	if !p.on {
		*p = pause{true, now, source, bucket}
	}
}

// end notes that a request of c that was sent at that instant was not denied.
func (p *pause) end(c *call, at instant) {
	if p.on && at > p.since {
		c.events = append(c.events, Event{Kind: Resumed, Bucket: p.bucket, Wait: at - p.since, Source: p.source})
		*p = pause{}
	}
}
