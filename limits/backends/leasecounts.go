package backends

// LeaseCounts is what a lease cache holds, and what it has done since it was made. Units
// of blocks that were taken are held, spent, returned, void, or on their way back.
type LeaseCounts struct {
	Keys int   // keys of which units are held now
	Held int64 // units that may be spent now

	// BlocksTaken is how many blocks the inner backend has charged; BlocksDenied is how
	// many it has denied, because as much did not remain. BlocksFailed is how many it has
	// not answered in time: their units may have been charged and are not spent.
	BlocksTaken, BlocksDenied, BlocksFailed int64

	// UnitsTaken are those of the blocks taken. UnitsReturned are those that went back to
	// the inner backend, for all processes. UnitsVoid were neither spent nor returned:
	// they had drained, or their window was over, when the lease ended; the key was reset;
	// or the inner backend failed, or cannot end what it has taken.
	UnitsTaken, UnitsReturned, UnitsVoid int64
}
