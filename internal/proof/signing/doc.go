// Package signing has tests of package keyfuncs/agents with the adapters for all frameworks. It is a
// module of its own, since no other one requires all of these.
package signing
