package simulate

// moves counts the requests that two policies decide differently.
type moves struct {
	denied, allowed [readings]int64 // by this policy and not by the other
	clients         chunked[[readings]int32]
}

// add compares the decisions of the replays: those of the policy come first, then those of the
// other.
func (m *moves) add(r *run, b *batch) {
	ways := 1 // number of readings
	if r.whole {
		ways = int(readings)
	}
	for way := range ways {
		ours, others := b.allowed[way], b.allowed[ways+way]
		for i, it := range b.items {
			switch {
			case ours[i] == others[i]:
			case ours[i]:
				m.allowed[way]++
				m.clients.at(it.client)[way]++
			default:
				m.denied[way]++
				m.clients.at(it.client)[way]--
			}
		}
	}
}
