package adaptive

// MostIdle is the largest limit of an idle service.
const MostIdle = mostIdle

// Limits returns the limit and what is lent, to the last bit.
func (a *Algorithm) Limits() (limit, lent float64) { return a.limit, a.loan.lent }

// States returns the names of the state and of the one that follows a decrease.
func (a *Algorithm) States() (now, after string) { return a.state.String(), a.after.String() }

// ForgetTrial has no trial judged.
func (a *Algorithm) ForgetTrial() {
	a.after = steady
	if a.state == trying || a.state == probing {
		a.state = steady
	}
}
