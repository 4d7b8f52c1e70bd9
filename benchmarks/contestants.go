package main

import "github.com/weir-go/weir/benchmarks/store"

const (
	// million is how many keys "many keys" are.
	million = 1_000_000

	// fewKeys is how many keys the processor's caches hold. Others publish figures for as many.
	fewKeys = 2_000
)

// contestant returns the contestant of the given name. It panics if there is
// none: names come from this program.
func contestant(name string) store.Contestant {
	for _, c := range store.Contestants() {
		if c.Name == name {
			return c
		}
	}
	panic("no contestant " + name)
}

// namesOf returns the names of the contestants of the given kinds, in order.
func namesOf(kinds ...store.Kind) []string {
	var names []string
	for _, c := range store.Contestants() {
		for _, kind := range kinds {
			if c.Kind == kind {
				names = append(names, c.Name)
			}
		}
	}
	return names
}
