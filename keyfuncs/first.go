package keyfuncs

import (
	"errors"
	"strconv"

	"github.com/weir-go/weir/core"
)

// First returns the key function of the first of keys that the request has: a
// key that is core.ErrAbsent or empty makes way for the next. It returns
// core.ErrAbsent if the request has none of them, and any other error at once,
// because to go on would be a guess. Without arguments, or with a nil function
// among them, the result is nil.
//
// A key is preceded by its place among keys, as in "0:alice", so that a user
// who calls herself 203.0.113.7 does not count with that address. To change
// their order is therefore to start counting anew. [FirstNamed] writes names in
// the place of numbers.
//
// To have another key costs a client as much as the cheapest of keys: put
// nothing free before an address; see [Known].
func First[R any](keys ...func(R) (string, error)) func(R) (string, error) {
	if !complete(keys) {
		return nil
	}
	choices := make([]choice[R], len(keys))
	for i, key := range keys {
		choices[i] = choice[R]{strconv.Itoa(i) + ":", key}
	}
	return firstOf(choices)
}

// choice is a key function of [First] and what its keys begin with.
type choice[R any] struct {
	tag string
	key func(R) (string, error)
}

func firstOf[R any](choices []choice[R]) func(R) (string, error) {
	return func(r R) (string, error) {
		for i := range choices {
			key, err := choices[i].key(r)
			if errors.Is(err, core.ErrAbsent) || err == nil && key == "" {
				continue
			}
			if err != nil {
				return "", err
			}
			return choices[i].tag + key, nil
		}
		return "", core.ErrAbsent
	}
}
