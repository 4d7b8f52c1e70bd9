package plans

import "time"

// SetClock replaces the clock of c.
func (c *Cache[P]) SetClock(now func() time.Duration) { c.now = now }
