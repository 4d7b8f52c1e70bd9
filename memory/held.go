package memory

// heldTable counts the held units of each hash. It is a hash table with open addressing, because
// most keys come and go with one request: a map makes BenchmarkStartToEnd a quarter slower. A slot
// without units is empty.
type heldTable struct {
	slots []heldSlot // a power of two of them
	used  int        // at most half of them
	loans loans      // of the units that end by themselves
}

type heldSlot struct {
	hash  uint64
	units int64
}

// leastHeldSlots is the size of the smallest table.
const leastHeldSlots = 8

// of returns the units held under a hash.
func (t *heldTable) of(hash uint64) int64 {
	if t == nil {
		return 0
	}
	return t.slots[t.find(hash)].units
}

// len returns how many keys hold units.
func (t *heldTable) len() int {
	if t == nil {
		return 0
	}
	return t.used
}

// set sets the number of units that are held under a hash.
func (t *heldTable) set(hash uint64, units int64) {
	i := t.find(hash)
	switch {
	case units <= 0:
		if t.slots[i].units != 0 {
			t.remove(i)
		}
		return
	case t.slots[i].units != 0:
		t.slots[i].units = units
		return
	case 2*t.used >= len(t.slots):
		t.grow()
		i = t.find(hash)
	}
	t.used++
	t.slots[i] = heldSlot{hash, units}
}

// find returns the slot of a hash, or the empty slot to store it in.
func (t *heldTable) find(hash uint64) uint64 {
	mask := uint64(len(t.slots) - 1)
	i := hash & mask
	for t.slots[i].units != 0 && t.slots[i].hash != hash {
		i = (i + 1) & mask
	}
	return i
}

// remove empties a slot. Then it moves back the entries behind it that find would miss because of
// the gap.
func (t *heldTable) remove(gap uint64) {
	mask := uint64(len(t.slots) - 1)
	for i := (gap + 1) & mask; t.slots[i].units != 0; i = (i + 1) & mask {
		if home := t.slots[i].hash & mask; (i-home)&mask >= (i-gap)&mask {
			t.slots[gap] = t.slots[i]
			gap = i
		}
	}
	t.slots[gap] = heldSlot{}
	t.used--
}

// grow doubles the table. The table never shrinks: what was in flight once may be in flight again.
func (t *heldTable) grow() {
	old := t.slots
	t.slots = make([]heldSlot, 2*len(old))
	for _, slot := range old {
		if slot.units != 0 {
			t.slots[t.find(slot.hash)] = slot
		}
	}
}
