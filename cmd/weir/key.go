package main

import (
	"strconv"
	"strings"
)

// noKey is shown for a request without a key. All such requests count together.
const noKey = "(none)"

// showKey returns a readable key of the rule of a: the parts of a list one by one.
func (a *answer) showKey(key string) string {
	if key == "" {
		return noKey
	}
	if parts := joinedParts(key); parts != nil && strings.HasPrefix(a.outline.Key, "[") {
		return listText(parts)
	}
	return key
}

// listText returns the parts of a key in the syntax of policy files.
func listText(parts []string) string { return "[" + strings.Join(parts, ", ") + "]" }

// joinedParts returns the parts of a key of keyfuncs.Join, or nil. Each part follows its length and
// a colon.
func joinedParts(key string) (parts []string) {
	for key != "" {
		digits, rest, ok := strings.Cut(key, ":")
		n, err := strconv.Atoi(digits)
		if !ok || err != nil || n < 0 || n > len(rest) {
			return nil
		}
		parts, key = append(parts, rest[:n]), rest[n:]
	}
	return parts
}
