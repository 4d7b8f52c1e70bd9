// Package shedlimit lets tests and benchmarks of this repository give a shedder another strategy
// than those of package shed, which exports none.
package shedlimit

import "time"

// New returns a *shed.Shedder[R] whose limit a finds, or an error that reports every mistake.
// options is a shed.Options[R]. Replace leaves a in force. Package shed sets New.
var New func(options any, a Algorithm) (shedder any, err error)

// Algorithm decides how many requests may be in flight. It serves one shedder.
type Algorithm interface {
	// Update returns the limit from now on, given what was seen since the last call. The
	// first call, before any request, has Elapsed 0 and returns the limit to start with. A
	// limit below Sample.MinLimit or above Sample.MaxLimit counts as that one.
	//
	// Update is called under a lock, never concurrently, and must be quick. It must not call the
	// shedder. The slices of the Sample are valid during the call only. A panic in Update leaves
	// the limit as it is.
	Update(Sample) (limit int)
}

// Windower is an Algorithm that chooses how long the windows of its Samples are. Without it a
// window ends after 250 milliseconds and 20 completions, at the latest after a second.
type Windower interface {
	// Window returns the bounds of the next window. It ends after least if that many requests
	// have completed, otherwise after most: with the next request that begins or ends.
	// It is called after every Update.
	Window() (least, most time.Duration, completed int)
}

// Sample is what a shedder saw in a window: from the last Update to this one. Exempt requests and
// streams are not in flight, so it has nothing of them.
type Sample struct {
	Now      time.Time
	Elapsed  time.Duration // since the last Update; long, if there were no requests
	Limit    int           // in force
	MinLimit int           // 2 if classes differ in their shares, otherwise 1
	MaxLimit int           // Options.MaxInFlight
	Bounded  bool          // Options.MaxInFlight is set
	SLO      time.Duration // Options.SLO; 0: none

	InFlight     int     // now
	PeakInFlight int     // the most at any instant of the window
	MeanInFlight float64 // over the time of the window

	// AtClients and MeanAtClients are those in flight that wait for their clients: for content
	// that the handler reads, or until an answer has left. That time is in no latency and in no
	// age. With Acquire alone it is not known.
	AtClients     int     // now
	MeanAtClients float64 // over the time of the window

	Admitted  int // that began
	Shed      int // that were shed, or would have been in shadow
	Completed int // that ended with success
	Failed    int // that ended with a status from 400 on, or panicked
	Left      int // whose context ended before they did: clients left, or deadlines were over

	// Routes are the routes with requests that ended in the window, in the order of their first
	// one.
	Routes []RouteSample

	// Ages are the times since the start of requests in flight that do not wait for their clients,
	// longest first. Of more than 1,024 requests it has every second one, every third, and so on,
	// the first that began included.
	Ages []time.Duration

	// A request overtakes others that began before it and are in flight when it completes. Very
	// fast requests do not count. Requests with an age above Overtaken were overtaken; 0: none was.
	// Quiet is the time since a request last completed that could overtake others, or since the
	// shedder was made.
	Overtaken, Quiet time.Duration
}

// RouteSample is the part of a [Sample] that belongs to one route.
type RouteSample struct {
	Route     string
	Completed int // with success
	Failed    int // or left

	// Total is the sum of the times of all that completed.
	Total time.Duration

	// UntilOvertaken is the sum of the times until they were first overtaken, or completed if that
	// was earlier. 0: not known.
	UntilOvertaken time.Duration

	// Latencies are the times of requests that completed, in rising order: of up to 256 drawn at
	// random, up to 16 if there are many routes.
	Latencies []time.Duration

	// Ends are the same of requests that failed or left. A request that left after a second would
	// have taken longer.
	Ends []time.Duration
}
