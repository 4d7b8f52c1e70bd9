package keyfuncs

import (
	"slices"
	"strconv"
	"strings"
)

// Join returns the key function of all keys together: requests count together
// if they agree in every one. An error of one of them is the error of the
// whole, core.ErrAbsent and that of core.When included; an empty key is a part
// like others. Without arguments, or with a nil function among them, the result
// is nil.
//
// Each part is preceded by its length, as in "5:alice3:GET", so that no two
// different lists of parts have the same key.
//
// To have another key costs a client as much as the cheapest of keys: joined
// with something that is free to change without end, such as [Path], a limit by
// address is none.
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

// complete reports whether there are keys and none is nil.
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
