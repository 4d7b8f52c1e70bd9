package core

// Result says how a request ended. The zero Result says nothing: use it if the handler does not
// know.
type Result struct {
	Status   int   // of the answer; 0: unknown
	Bytes    int64 // length of the answer's body
	Panicked bool  // the handler panicked

	// Left says that the client left before the answer was complete: the context of the request was
	// canceled. A deadline that the server has set is not the client's leaving, unless it ended the
	// request in a queue. The deadline of a remote procedure call is its client's.
	Left bool

	// Cost and Spent are set for [Rule].FinalCost, rule by rule; [Outcome.End] ignores them. Cost
	// is the charge at the start of the request. Spent is the sum of the calls of [Outcome.Spend];
	// −1: there was none.
	Cost, Spent int64
}

// SpentCost is a [Rule].FinalCost: the sum of the calls of [Outcome.Spend], or the estimate if
// there was none. After a panic it is at least the estimate.
func SpentCost(result Result) int64 {
	switch {
	case result.Spent < 0:
		return result.Cost
	case result.Panicked:
		return max(result.Spent, result.Cost)
	}
	return result.Spent
}

// OnStatus returns a [Rule].FinalCost that charges a request by the status of its answer. If charge
// returns true for the status, the request costs its [SpentCost], and 1 if that is an estimate of
// 0. Otherwise it costs nothing. So a rule counts only failed log-ins:
//
//	FinalCost: core.OnStatus(func(status int) bool { return status == 401 }),
//
// The cost is charged at the start and returned at the end, so parallel guesses do not pass the
// limit. A request costs at least its estimate if it has no status, its handler panicked, or its
// client left: a client must not get free guesses by leaving early. OnStatus returns nil if charge
// is nil; [New] then sees a rule without a FinalCost.
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

// atLeastOne is SpentCost, but 1 instead of an estimate of 0.
func atLeastOne(result Result) int64 {
	if result.Spent < 0 {
		return max(1, result.Cost)
	}
	return SpentCost(result)
}
