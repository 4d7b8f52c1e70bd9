package shed

// lots is how many there are. The first is shed last.
const lots = 1 << 20

// lastLot is how much of the places of the last class requests with the last lot may fill, in
// percent. Those of another class may fill as many as the class that follows.
const lastLot = 20

// lotOf returns the lot of a name, which is the same in all processes and releases. It is FNV-1a,
// mixed by the last steps of splitmix64.
func lotOf(name string) uint32 {
	h := uint64(0xcbf29ce484222325)
	for i := range len(name) {
		h = (h ^ uint64(name[i])) * 0x100000001b3
	}
	return uint32(mix(h) % lots)
}

// fullFor returns below how many requests in flight a request of c with that lot enters.
func (c *class) fullFor(lot uint32) int {
	above := int64(max(0, c.full-c.low)) * int64(lot) / lots
	return max(1, c.full-int(above))
}
