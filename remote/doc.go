// Package remote is what stands before a backend across a network, such as Redis. A
// [DenialCache] answers those who go on after a denial. A [LeaseCache] lets busy keys be decided in
// this process, by units that it has taken for a while.
package remote
