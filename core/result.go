package core

// Result is how a request ended. The zero Result says nothing: it is that of a request
// whose handler cannot tell.
type Result struct {
	Status   int   // of the answer; 0: not known
	Bytes    int64 // of the answer's body
	Panicked bool  // the handler panicked
	Left     bool  // the client left before the answer was complete

	// Cost and Spent are filled in for [Rule].FinalCost, rule by rule, and ignored by
	// [Outcome.End]. Cost is what the request was charged at its start. Spent is the sum
	// of what [Outcome.Spend] said; −1: it was not called.
	Cost, Spent int64
}

// SpentCost is a [Rule].FinalCost: what [Outcome.Spend] said, the estimate if it said
// nothing. After a panic it is no less than the estimate.
func SpentCost(result Result) int64 {
	switch {
	case result.Spent < 0:
		return result.Cost
	case result.Panicked:
		return max(result.Spent, result.Cost)
	}
	return result.Spent
}

// OnStatus returns a [Rule].FinalCost that charges a request by the status of its
// answer. A request for whose status charge is true costs what [SpentCost] says, and 1 if that is
// an estimate of 0; any other costs nothing. So a rule counts failed log-ins only:
//
//	FinalCost: core.OnStatus(func(status int) bool { return status == 401 }),
//
// The cost is charged at the start and comes back at the end, so parallel guesses do not
// pass the limit. A request costs at least its estimate if it has no status, its handler
// panicked, or its client left: leaving early must not make a guess free. OnStatus
// returns nil if charge is nil; [New] takes that for a rule without a FinalCost.
func OnStatus(charge func(status int) bool) func(Result) int64 {
	if charge == nil {
		return nil
	}
	return func(result Result) int64 {
		switch {
		case result.Status == 0 || result.Panicked || result.Left:
			return max(result.Cost, atLeastOne(result))
		case charge(result.Status):
			return atLeastOne(result)
		}
		return 0
	}
}

// atLeastOne is SpentCost for what counts even if the estimate is 0.
func atLeastOne(result Result) int64 {
	if result.Spent < 0 {
		return max(1, result.Cost)
	}
	return SpentCost(result)
}
