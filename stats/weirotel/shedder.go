package weirotel

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/weir-go/weir/shed"
	"github.com/weir-go/weir/stats"
)

const (
	shedderName = attribute.Key("weir.shedder.name")
	shedClass   = attribute.Key("weir.shed.class")
	shedVerdict = attribute.Key("weir.shed.verdict") // admitted, shed, shadowed, left
)

var (
	shedRequests = &instrument{"weir.shed.requests", "{request}", "Requests that a shedder decided, by class: admitted, shed (answered 503), shadowed (would have been shed) or left (the request's context ended in the queue: its client left, or the server was over its deadline or shut down). No exempt ones."}
	shedExempt   = &instrument{"weir.shed.exempt", "{request}", "Requests that a shedder never sheds."}
	shedLimit    = &instrument{"weir.shed.limit", "{request}", "How many requests may be in flight at once: what the shedder has learned."}
	shedMaxLimit = &instrument{"weir.shed.max_limit", "{request}", "What the limit of a shedder never exceeds."}
	shedInFlight = &instrument{"weir.shed.in_flight", "{request}", "Requests in flight, by class. Streams and exempt requests are not in flight."}
	shedWaiting  = &instrument{"weir.shed.waiting", "{request}", "Requests that wait in the queue of a shedder now."}
	shedShare    = &instrument{"weir.shed.class.share", "1", "How much of the limit a class and all that are more important may fill."}
	shedStreams  = &instrument{"weir.shed.streams", "{request}", "Answers that have become streams, so that they are no longer in flight."}
	shedOldest   = &instrument{"weir.shed.oldest", "s", "For how long the oldest request in flight has been running; 0 if there is none."}
	shedMode     = &instrument{"weir.shed.mode", "1", "1 for the mode of the shedder, 0 for the others."}
	shedPanics   = &instrument{"weir.shed.algorithm.panics", "{panic}", "Panics of the algorithm that finds the limit, which left the limit as it was."}
)

func (b *batch) shedder(s *stats.ShedderSnapshot) {
	of := shedderName.String(s.Name)
	for i := range s.Classes {
		c := &s.Classes[i]
		class := shedClass.String(c.Name)
		b.counter(shedRequests, c.Admitted, of, class, shedVerdict.String("admitted"))
		b.counter(shedRequests, c.Shed, of, class, shedVerdict.String("shed"))
		b.counter(shedRequests, c.Shadowed, of, class, shedVerdict.String("shadowed"))
		b.counter(shedRequests, c.Left, of, class, shedVerdict.String("left"))
		b.gauge(shedInFlight, float64(c.InFlight), of, class)
		b.gauge(shedWaiting, float64(c.Waiting), of, class)
		b.gauge(shedShare, float64(c.Share)/100, of, class)
	}
	b.counter(shedExempt, s.ExemptTotal, of)
	b.gauge(shedLimit, float64(s.Limit), of)
	b.gauge(shedMaxLimit, float64(s.MaxInFlight), of)
	b.gauge(shedStreams, float64(s.Streams), of)
	b.gauge(shedOldest, s.Oldest.Seconds(), of)
	for _, m := range [...]string{"enforce", "shadow", "disabled"} {
		b.gauge(shedMode, oneIf(m == s.Mode.String()), of, mode.String(m))
	}
	b.counter(shedPanics, s.Panics, of)
}

// ObserveShedSpan writes on the span of ctx that a request was shed, would have been, or
// that its context ended in the queue, and of which class it was. A 503 without these attributes is of a limiter or
// of the service itself. Like [ObserveSpan] it leaves the status of the span alone, and
// does nothing for other requests and without a span that records. It is to be the Observe
// of the options of a shedder. R is the framework's request.
func ObserveShedSpan[R any](ctx context.Context, _ R, e shed.Event) {
	verdict := e.Verdict.String()
	switch {
	case e.Shadow:
		verdict = "shadowed"
	case e.Verdict == shed.Admitted:
		return
	}
	if span := trace.SpanFromContext(ctx); span.IsRecording() {
		span.SetAttributes(shedVerdict.String(verdict), shedClass.String(e.Class))
	}
}
