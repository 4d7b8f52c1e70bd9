package keyfuncs

import (
	"errors"
	"strconv"

	"github.com/weir-go/weir/core"
)

// First returns the key function of the first of keys that the request has. It skips a key that is
// core.ErrAbsent or empty, and returns core.ErrAbsent if the request has none of keys. It returns
// any other error at once, because trying the next key would be a guess. Without arguments, or with
// a nil function among them, the result is nil.
//
// Each result begins with the position of its key function among keys, as in "0:alice", so that a
// user named 203.0.113.7 does not count with that address. Changing the order of keys therefore
// resets the counts. [FirstNamed] writes names instead of positions. Describe the keys in the field
// KeyName of the rule: "user or address".
//
// Another key costs a client as much as the cheapest of keys. Put nothing that is free before an
// address: see [Known].
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

// choice is a key function of [First] with the prefix of its keys.
type choice[R any] struct {
	prefix string
	key    func(R) (string, error)
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
			return choices[i].prefix + key, nil
		}
		return "", core.ErrAbsent
	}
}
