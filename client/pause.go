package client

// pause is what Observe is told of the time in which no request of a bucket may go: after a denial, or since an answer
// had nothing left.
type pause struct {
	on             bool
	since          instant
	source, bucket string // as events have them
}

// pauses returns the events of pauses that an answer to c has begun or ended. What begins with a
// denial is told as Limited.
func (p *pacer) pauses(c *call, about *bucket, a *answer, now instant, source string) (events []Event) {
	b, at := about, c.ticket.at
	if a.limited {
		b.pause.begin(now, source, c.bucket.name)
		return nil
	}
	if b.account != nil {
		events = b.account.pause.end(events, at)
	}
	if events = b.pause.end(events, at); b.pause.on {
		return events
	}
	if until := b.told.next(); b.believed(until, now, p) > now {
		source := b.told.source
		b.pause.begin(now, source, c.bucket.name)
		events = append(events, Event{Kind: Paused, Bucket: c.bucket.name, Wait: until - now, Source: source})
	}
	return events
}

func (p *pause) begin(now instant, source, bucket string) {
	if !p.on {
		*p = pause{true, now, source, bucket}
	}
}

// end adds that a request which was sent at that instant was not denied.
func (p *pause) end(events []Event, at instant) []Event {
	if p.on && at > p.since {
		events = append(events, Event{Kind: Resumed, Bucket: p.bucket, Wait: at - p.since, Source: p.source})
		*p = pause{}
	}
	return events
}
