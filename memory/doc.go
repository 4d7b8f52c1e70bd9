// Package memory is a [backends.Backend] in this process. Its memory is bounded, and the garbage
// collector does not scan it.
//
// A limiter of package core makes a Memory by itself. To limit keys without rules, call
// [Memory.Bind]:
//
//	store := memory.MustNew(memory.Options{})
//	logins, err := store.Bind("logins", limits.SlidingWindow(limits.PerMinute(5)))
//	...
//	d, err := logins.Take(user, 1)
//
// Time is counted in whole microseconds, and no float decides anything.
package memory
