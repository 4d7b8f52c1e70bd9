package limits

// Settlement is what became of the end of a charge. A taking of 5 units that cost 2 in the end is to return 3, one
// that cost 9 is to be charged 4 more.
type Settlement struct {
	Rule  string // the name of the rule; the limiter sets it
	Scope string // the limiter sets it

	Taken, Final int64 // units, as in the backends.Ending

	// Returned is how many units fewer the key has in use now, at most Taken − Final. It is less if
	// returning all would admit more than the limit: units of a window that is over do not return to the
	// next window, and units that have drained, faded or expired meanwhile have come back by themselves.
	// A concurrency limit returns all.
	Returned int64

	// Charged is how many of the Final − Taken units were charged. A key owes at most the maximum of its
	// limit; the units above that are Forgiven. A concurrency limit forgives none.
	Charged, Forgiven int64

	// Err is why the ending is lost; nil: it was carried out. A lost return counts as taken for as long
	// as the limit counts the units. A lost charge is never made.
	Err error
}
