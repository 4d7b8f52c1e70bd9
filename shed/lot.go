package shed

// lots is the number of lots. Lot 0 is shed last.
const lots = 1 << 20

// lastLot is the part of the places of the last class, in percent, that requests with the last lot
// may fill. In another class they may fill as many as the class that follows.
const lastLot = 20

// lotOf returns the lot of a name. It is the same in all processes and releases: FNV-1a, mixed by
// the last steps of splitmix64.
func lotOf(name string) uint32 {
	h := uint64(0xcbf29ce484222325)
	for i := range len(name) {
		h = (h ^ uint64(name[i])) * 0x100000001b3
	}
	return uint32(mix(h) % lots)
}
