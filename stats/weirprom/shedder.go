package weirprom

import "github.com/weir-go/weir/stats"

var (
	shedRequests = family("shed_requests_total",
		"Requests that a shedder decided, by class: admitted, shed (answered 503), shadowed (would have been shed) or left (the request's context ended in the queue: its client left, or the server was over its deadline or shut down). No exempt ones.", "shedder", "class", "verdict")
	shedExempt = family("shed_exempt_total",
		"Requests that a shedder never sheds.", "shedder")
	shedLimit = family("shed_limit_requests",
		"How many requests may be in flight at once: what the shedder has learned.", "shedder")
	shedMaxLimit = family("shed_max_limit_requests",
		"What the limit of a shedder never exceeds.", "shedder")
	shedInFlight = family("shed_in_flight_requests",
		"Requests in flight, by class. Streams and exempt requests are not in flight.", "shedder", "class")
	shedWaiting = family("shed_waiting_requests",
		"Requests that wait in the queue of a shedder now.", "shedder", "class")
	shedShare = family("shed_class_share_ratio",
		"How much of the limit a class and all that are more important may fill.", "shedder", "class")
	shedStreams = family("shed_streams",
		"Answers that have become streams, so that they are no longer in flight.", "shedder")
	shedOldest = family("shed_oldest_seconds",
		"For how long the oldest request in flight has been running; 0 if there is none.", "shedder")
	shedMode = family("shed_mode",
		"1 for the mode of the shedder, 0 for the others.", "shedder", "mode")
	shedPanics = family("shed_algorithm_panics_total",
		"Panics of the algorithm that finds the limit, which left the limit as it was.", "shedder")
)

func (w writer) shedder(s *stats.ShedderSnapshot) {
	for i := range s.Classes {
		c := &s.Classes[i]
		w.counter(shedRequests, c.Admitted, s.Name, c.Name, "admitted")
		w.counter(shedRequests, c.Shed, s.Name, c.Name, "shed")
		w.counter(shedRequests, c.Shadowed, s.Name, c.Name, "shadowed")
		w.counter(shedRequests, c.Left, s.Name, c.Name, "left")
		w.gauge(shedInFlight, float64(c.InFlight), s.Name, c.Name)
		w.gauge(shedWaiting, float64(c.Waiting), s.Name, c.Name)
		w.gauge(shedShare, float64(c.Share)/100, s.Name, c.Name)
	}
	w.counter(shedExempt, s.ExemptTotal, s.Name)
	w.gauge(shedLimit, float64(s.Limit), s.Name)
	w.gauge(shedMaxLimit, float64(s.MaxInFlight), s.Name)
	w.gauge(shedStreams, float64(s.Streams), s.Name)
	w.gauge(shedOldest, s.Oldest.Seconds(), s.Name)
	for _, m := range [...]string{"enforce", "shadow", "disabled"} {
		w.gauge(shedMode, oneIf(m == s.Mode.String()), s.Name, m)
	}
	w.counter(shedPanics, s.Panics, s.Name)
}
