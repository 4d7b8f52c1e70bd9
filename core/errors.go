package core

import "errors"

// ErrAbsent is what a key function returns when the request has no such key,
// for example because a header is missing. The rule then counts all such
// requests together under one reserved key, so that leaving a header out
// neither escapes the limit nor fails the request. An empty key means the same.
var ErrAbsent = errors.New("core: the request has no such key")
