package limits

// Settlement says what the backend did at the end of a charge. If a charge took 5 units and cost 2
// in the end, 3 should return. If it cost 9, 4 more should be charged.
type Settlement struct {
	Rule  string // the name of the rule; the limiter sets it
	Scope string // the limiter sets it

	Taken, Final int64 // units, as in backends.Ending

	// Returned is how many units fewer the key has in use now, at most Taken − Final. It is less if
	// returning all would admit more than the limit: units of a window that has ended do not return
	// to the next one, and units that drained, faded or expired came back by themselves. A
	// concurrency limit returns all.
	Returned int64

	// Charged is how many of the Final − Taken units were charged. A key owes at most the maximum
	// of its limit; units above that are Forgiven. A concurrency limit forgives none.
	Charged, Forgiven int64

	// Err says why the ending was lost. After a lost return, the units count as taken for as long
	// as the limit counts them. A lost charge is never made. nil: the ending was carried out.
	Err error
}
