package remote

import "github.com/weir-go/weir/limits/backends"

// Hear has a denial cache hear an announcement.
func Hear(c *DenialCache, a backends.Announcement) { c.hear(a) }
