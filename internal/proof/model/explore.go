// Package model has the transition functions of the models in docs/proof, written in Go, so that
// what programs did can be compared with what the models allow. [Explore] visits every state, as
// spin does, and tests compare the number of states.
package model

import "fmt"

// System is a model in one state.
type System interface {
	// Key identifies the state.
	Key() string

	// Next calls visit with each state that one transition leads to.
	Next(visit func(transition string, next System))

	// Check returns an error if the state breaks a promise.
	Check() error
}

// Explore visits all states that can be reached from start, and returns how many there are. It
// stops at the first state that breaks a promise, and names the transitions that lead there.
func Explore(start System) (states int, err error) {
	type step struct {
		from       int
		transition string
	}
	all, steps := []System{start}, []step{{from: -1}}
	seen := map[string]bool{start.Key(): true}
	path := func(at int) (text string) {
		for ; at > 0; at = steps[at].from {
			text = " " + steps[at].transition + text
		}
		return text
	}
	for at := 0; at < len(all); at++ {
		if err := all[at].Check(); err != nil {
			return len(all), fmt.Errorf("%w, after%s", err, path(at))
		}
		all[at].Next(func(transition string, next System) {
			if key := next.Key(); !seen[key] {
				seen[key] = true
				all, steps = append(all, next), append(steps, step{at, transition})
			}
		})
		all[at] = nil // its key is enough
	}
	return len(all), nil
}
