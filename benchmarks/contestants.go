package main

import "github.com/weir-go/weir/benchmarks/store"

const (
	// million is the number of keys in the columns "many keys".
	million = 1_000_000

	// fewKeys is a number of keys that fits into the processor's caches. Others publish figures for
	// this number.
	fewKeys = 2_000
)

// contestant returns the contestant of the given name. It panics for an unknown name: names come from
// this program.
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
