package keyfuncs

import (
	"errors"

	"github.com/weir-go/weir/core"
)

// OrTogether returns key for the requests that it can identify, and
// core.ErrAbsent for those of which it returns an error, so that they count
// together instead of being answered as unavailable. [core.ErrDoesNotApply] is
// handed on, and a panic stays one. If key is nil, so is the result.
//
// Put it around the whole key. Inside [First] a request that cannot be identified
// is counted by the next key.
//
// To have another key costs a client what key says, or a request that makes key
// fail. All requests that fail, or have no such key, share one budget: one client
// can use it up for the others, and may have it besides its own. A rule that fails
// open counts them too. Nothing reports any more that key fails: the outcome has
// no error, and the decision's key is empty.
func OrTogether[R any](key func(R) (string, error)) func(R) (string, error) {
	if key == nil {
		return nil
	}
	return func(r R) (string, error) {
		k, err := key(r)
		if err == nil || errors.Is(err, core.ErrDoesNotApply) {
			return k, err
		}
		return "", core.ErrAbsent
	}
}
