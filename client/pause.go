package client

// pause is the time in which no request of a bucket may start, as Options.Observe is told of it.
type pause struct {
	on             bool
	since          instant
	source, bucket string // as in events
}

// pauses returns the events of pauses that an allowed answer to c has begun or ended. A pause that
// begins with a denial has the event Limited.
func (p *pacer) pauses(c *call, about *bucket, now instant) (events []Event) {
	b, at := about, c.ticket.at
	if b.account != nil {
		events = b.account.pause.end(events, at)
	}
	if events = b.pause.end(events, at); b.pause.on {
		return events
	}
	if until := b.told.next(); b.believed(until, now, &p.o) > now {
		source := b.told.source
		b.pause.begin(now, source, c.bucket.name)
		events = append(events, Event{
			Kind: Paused, Bucket: c.bucket.name, Wait: until - now, Source: source,
		})
	}
	return events
}

func (p *pause) begin(now instant, source, bucket string) {
	if !p.on {
		*p = pause{true, now, source, bucket}
	}
}

// end ends the pause if a request that was sent during it was allowed.
func (p *pause) end(events []Event, at instant) []Event {
	if p.on && at > p.since {
		events = append(events, Event{
			Kind: Resumed, Bucket: p.bucket, Wait: at - p.since, Source: p.source,
		})
		*p = pause{}
	}
	return events
}
