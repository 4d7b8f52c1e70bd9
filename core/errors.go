package core

import "errors"

// ErrAbsent is what a key function returns when the request has no such key,
// for example because a header is missing. The rule then counts all such
// requests together under one reserved key, so that leaving a header out
// neither escapes the limit nor fails the request. An empty key means the same.
var ErrAbsent = errors.New("core: the request has no such key")

// ErrDoesNotApply is what the key function of [When] returns for a request to
// which the rule does not apply: the rule is left out of the outcome. A function
// that treats the errors of another key function hands this one on as it is.
var ErrDoesNotApply = errors.New("core: the rule does not apply to this request")
