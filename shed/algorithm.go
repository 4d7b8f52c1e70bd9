package shed

import "time"

// Algorithm decides how many requests may be in flight. [Options].Algorithm chooses it.
type Algorithm interface {
	// Update returns the limit from now on, given what was seen since the last call. The
	// first call, before any request, has Elapsed 0 and returns the limit to start with. A
	// limit below Sample.MinLimit counts as that, and so does one above Sample.MaxLimit.
	//
	// Update is called under a lock, never concurrently, and must be quick. It must not call the Shedder. The
	// slices of the Sample are valid during the call only. A panic or runtime.Goexit in Update
	// leaves the limit as it is; see [State].Panics.
	Update(Sample) (limit int)
}

// Windower is an Algorithm that says how long the windows of its Samples are. Without it a
// window ends after 250 milliseconds and 20 completions, at the latest after a second.
type Windower interface {
	// Window returns for the window that begins: it ends after least if so many requests
	// have completed, and otherwise after most, always with the next request that begins
	// or ends. It is called after every Update.
	Window() (least, most time.Duration, completed int)
}

// Sample is what a [Shedder] has seen in a window: from the last Update to this one. It is about
// requests that count as in flight: no exempt ones, no streams.
type Sample struct {
	Now      time.Time
	Elapsed  time.Duration // since the last Update; long, if there were no requests
	Limit    int           // in force
	MinLimit int           // 2 if classes differ in their shares, otherwise 1
	MaxLimit int           // Options.MaxInFlight
	SLO      time.Duration // Options.SLO; 0: none

	InFlight     int     // now
	PeakInFlight int     // the most at any instant of the window
	MeanInFlight float64 // over the time of the window

	// AtClients and MeanAtClients are those of them that wait for their clients: for content that the handler reads,
	// or until what it writes has left. What clients take says nothing of the service, so no
	// latency and no age has it in it. A [Gate] measures that time; with Acquire alone it is not known.
	AtClients     int     // now
	MeanAtClients float64 // over the time of the window

	Admitted  int // that began
	Shed      int // that were shed, or would have been in shadow
	Completed int // that ended with success
	Failed    int // that ended with a status from 400 on, or panicked
	Left      int // whose context ended before they did: clients left, or deadlines were over

	// Routes are the routes with requests that ended in the window, in the order of their
	// first one.
	Routes []RouteSample

	// Ages says for how long the requests in flight have been running that do not wait for their clients, longest
	// first. If more than 1,024 are in flight, it has every second one, every third, and so on, the
	// oldest included.
	Ages []time.Duration

	// Requests whose age is above overtaken were overtaken: one that began later has completed. 0: none was. The last
	// one that could overtake others has completed quiet ago.
	overtaken, quiet time.Duration
	bounded          bool // Options.MaxInFlight is set
}

// RouteSample is the part of a [Sample] that belongs to one route.
type RouteSample struct {
	Route     string
	Completed int // with success
	Failed    int // or left

	// Total is how long all that completed took together.
	Total time.Duration

	// Latencies are how long requests that completed took, in rising order: those of up
	// to 256 that were drawn at random, up to 16 if there are many routes.
	Latencies []time.Duration

	// Ends is the same for requests that failed or left. That one left after a
	// second says that it would have taken longer.
	Ends []time.Duration

	// first is how long all that completed took together until another request, which began later, had completed; or
	// until they themselves had. 0: not known.
	first time.Duration
}

// Fixed returns an Algorithm that never changes its limit. With classes that differ in their shares, Fixed(1) means 2:
// see [Class].
func Fixed(limit int) Algorithm { return fixed(limit) }

type fixed int

func (f fixed) Update(Sample) int { return int(f) }
