package keyfuncs

import (
	"slices"
	"strconv"
	"strings"
)

// Join returns the key function of several keys together: requests count together if they agree in
// every key. If one of keys returns an error, including core.ErrAbsent and core.ErrDoesNotApply, so
// does the joined key function. An empty key is a part like any other. Without arguments, or with a
// nil function among them, the result is nil.
//
// Each part begins with its length, as in "5:alice3:GET", so that different lists of parts never
// have the same key.
//
// Another key costs a client as much as the cheapest of keys. Do not join an address with an
// endless free choice, such as [Path]: each client could evade the limit.
func Join[R any](keys ...func(R) (string, error)) func(R) (string, error) {
	if !complete(keys) {
		return nil
	}
	keys = slices.Clone(keys)
	return func(r R) (string, error) {
		var inline [8]string
		parts := inline[:0]
		size := 0
		for _, key := range keys {
			part, err := key(r)
			if err != nil {
				return "", err
			}
			parts = append(parts, part)
			size += lengthDigits(len(part)) + 1 + len(part)
		}
		var joined strings.Builder
		joined.Grow(size)
		var digits [20]byte
		for _, part := range parts {
			joined.Write(strconv.AppendInt(digits[:0], int64(len(part)), 10))
			joined.WriteByte(':')
			joined.WriteString(part)
		}
		return joined.String(), nil
	}
}

// complete reports whether keys is not empty and has no nil.
func complete[R any](keys []func(R) (string, error)) bool {
	for _, key := range keys {
		if key == nil {
			return false
		}
	}
	return len(keys) > 0
}

func lengthDigits(n int) int {
	digits := 1
	for ; n >= 10; n /= 10 {
		digits++
	}
	return digits
}
