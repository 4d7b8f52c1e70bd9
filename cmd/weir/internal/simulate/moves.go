package simulate

// moves are the requests that two policies decide otherwise.
type moves struct {
	denied, allowed [readings]int64 // now, and not by the other policy
	clients         chunked[[readings]int32]
}

// add compares what replays have decided: first those of the policy, then those of the other.
func (m *moves) add(r *run, b *batch) {
	ways := 1 // readings
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
