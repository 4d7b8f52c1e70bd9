// Package plans finds the limits of customers in a database, for LimitFor of a rule. It caches
// answers, so a request whose plan is cached costs a fraction of a microsecond.
//
//	customers, err := plans.New(lookUp, free, plans.Options{})
//	...
//	LimitFor: customers.LimitFor(func(p Plan) limits.Limit { return p.Rate }),
//
// A changed plan is in force within the TTL. Busy keys are looked up again in the background before
// their answers expire, so their requests never wait. While the database fails, the last known plan
// stays in force.
//
// # What a flood costs
//
// Keys that have a plan and other keys have bounds of their own, for answers and for look-ups under
// way. So a flood of unknown keys evicts no customer, and delays no look-up of one whose plan is
// cached. Above its bounds a key gets the default plan.
//
// # Why golang-lru
//
// The answers are in two lists of package simplelru of github.com/hashicorp/golang-lru/v2. Its size
// is an exact bound. It starts no goroutine and reads no clock, so a program can be tested in a
// bubble of testing/synctest. It asks for Go 1.18, requires no other module, and adds 20 kB to a
// server. Its licence is MPL 2.0. Its last release is of 2023. It is small enough to read, 400
// lines, and is still maintained.
//
// Otter 2.4 is developed more. It adds 800 kB, which is more than the rest of weir, and requires
// testify. On two processors its hits take longer. Its loader does not bound the loads under way or
// their time, and keeps no last known value, so this package would use it as a list, too.
package plans
