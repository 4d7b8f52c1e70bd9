package client

// pause is the time in which no request of a bucket may start, as Options.Observe is told of it.
type pause struct {
	on             bool
	since          instant
	source, bucket string // as in events
}

// begin begins the pause, unless it has begun.
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
