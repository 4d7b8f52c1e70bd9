// Package memory keeps what keys have used in this process: a [backends.Backend] in bounded memory,
// which the garbage collector does not scan.
//
// A limiter of package core uses one by itself. For keys without rules, [Memory.Bind] is all there
// is:
//
//	logins, err := memory.MustNew(memory.Options{}).Bind("logins", limits.SlidingWindow(limits.PerMinute(5)))
//	...
//	d, err := logins.Take(user, 1)
//
// Time is counted in whole microseconds, and no float decides anything.
package memory
