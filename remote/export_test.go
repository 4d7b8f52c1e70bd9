package remote

import "github.com/weir-go/weir/limits"

// Hear has a denial cache hear an announcement.
func Hear(c *DenialCache, a limits.Announcement) { c.hear(a) }
