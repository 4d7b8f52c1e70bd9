package nethttp

// Preflights returns how many requests that look like CORS preflights have passed without
// a decision, because of SkipPreflight.
func (g *Gate[R]) Preflights() int64 { return g.preflights.Load() }

// Queue returns how many requests wait for their turn in a leaky queue, how many were
// answered with 503 because no more could wait, and how many ended while they waited:
// their clients left, or their deadline passed. Observe has seen all of them allowed.
func (g *Gate[R]) Queue() (waiting int, full, left int64) {
	return int(g.room.waiting.Load()), g.room.full.Load(), g.room.left.Load()
}
