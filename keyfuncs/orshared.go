package keyfuncs

import (
	"errors"

	"github.com/weir-go/weir/core"
)

// OrShared returns key, with core.ErrAbsent in place of any error: requests that key cannot
// identify count together instead of being answered as unavailable. It passes on
// [core.ErrDoesNotApply], and does not recover panics. If key is nil, the result is nil.
//
// Put it around the whole key. Inside [First], a request that cannot be identified counts by the
// next key.
//
// Another key costs a client as much as with key alone, or a request that makes key fail. All
// requests that fail or have no key share one limit. One client can use it up for the others, and
// may use it beside its own. A rule that fails open counts these requests too. OrShared hides that
// key fails: the outcome has no error, and the decision's key is empty.
func OrShared[R any](key func(R) (string, error)) func(R) (string, error) {
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
