package core

import (
	"errors"
	"fmt"
)

// ErrAbsent is the error of a key function for a request without the key, such as one without a
// header. The rule counts all such requests together under one reserved key. So a client that
// leaves a header out neither escapes the limit nor fails. An empty key means the same.
var ErrAbsent = errors.New("core: the request has no such key")

// ErrDoesNotApply is the error of a key function for a request to which the rule does not apply, as
// [When] returns it. The outcome then has no decision of the rule. A key function that handles the
// errors of another one must return this error unchanged.
var ErrDoesNotApply = errors.New("core: the rule does not apply to this request")

// prefixEach puts prefix before each of the errors joined in err, so that each line is complete.
func prefixEach(prefix string, err error) error {
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return fmt.Errorf("%s%w", prefix, err)
	}
	var errs []error
	for _, e := range joined.Unwrap() {
		errs = append(errs, prefixEach(prefix, e))
	}
	return errors.Join(errs...)
}
