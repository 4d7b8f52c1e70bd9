package backends

// LeaseCounts says what a lease cache holds now, and what it did since it was made. Each unit of a
// block taken is held, spent, returned, void, or on its way back.
type LeaseCounts struct {
	Keys int   // keys with units held now
	Held int64 // units that can be spent now

	// BlocksTaken is how many blocks the inner backend has charged. BlocksDenied is how many it
	// denied, because too few units remained. BlocksFailed is how many it did not answer in time:
	// their units may be charged, and are never spent.
	BlocksTaken, BlocksDenied, BlocksFailed int64

	// UnitsTaken are the units of all blocks taken. UnitsReturned went back to the inner backend,
	// for all processes. UnitsVoid were neither spent nor returned: when the lease ended they had
	// drained, or their window had ended; or the key was reset; or the inner backend failed, or is
	// no [Settler].
	UnitsTaken, UnitsReturned, UnitsVoid int64
}
