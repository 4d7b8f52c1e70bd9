package core

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Mode says whether a rule may deny requests. The zero Mode is [Enforce].
type Mode int16

const (
	// Enforce: the rule denies what exceeds its limit.
	Enforce Mode = 0
	// Shadow: the rule is decided and counted like any other, but never denies a request. Outcomes
	// say what it would have done.
	Shadow Mode = -1
	// Disabled: the rule is ignored.
	Disabled Mode = -2
)

// EnforceFor returns the mode of a rule that is enforced for a percentage of its keys, and is a
// [Shadow] for the others. A hash of rule and key chooses the keys. So every instance enforces for
// the same keys, and a higher percentage only adds keys. 0 is Shadow and 100 Enforce. [New] refuses
// numbers below 0 or above 100.
func EnforceFor(percent int) Mode {
	switch {
	case percent == 0:
		return Shadow
	case percent == 100:
		return Enforce
	case percent < 0 || percent > 100:
		return invalidMode
	}
	return Mode(percent)
}

const invalidMode Mode = -3

// Percent returns the percentage of keys for which m enforces, 0 to 100.
func (m Mode) Percent() int {
	switch {
	case m == Enforce:
		return 100
	case m < Enforce || m > 100:
		return 0
	}
	return int(m)
}

// ParseMode reads "enforce", "shadow", "disabled", or a percentage of keys such as "enforce 25%".
func ParseMode(s string) (Mode, error) {
	words := strings.Fields(strings.ToLower(s))
	switch {
	case len(words) == 1 && words[0] == "enforce":
		return Enforce, nil
	case len(words) == 1 && words[0] == "shadow":
		return Shadow, nil
	case len(words) == 1 && words[0] == "disabled":
		return Disabled, nil
	case len(words) == 2 && words[0] == "enforce" && strings.HasSuffix(words[1], "%"):
		number := strings.TrimSuffix(words[1], "%")
		percent, err := strconv.Atoi(number)
		if err != nil || percent < 0 || percent > 100 || number != strconv.Itoa(percent) { // "+5", "05"
			return 0, fmt.Errorf("core: mode %.30q: must be a whole number of percent, 0 to 100", s)
		}
		return EnforceFor(percent), nil
	}
	return 0, fmt.Errorf(
		"core: mode %.30q: want enforce, shadow, disabled or a share of the keys such as enforce 25%%", s)
}

// String returns the text that [ParseMode] reads.
func (m Mode) String() string {
	switch {
	case m == Enforce:
		return "enforce"
	case m == Shadow:
		return "shadow"
	case m == Disabled:
		return "disabled"
	case m > 0 && m < 100:
		return fmt.Sprintf("enforce %d%%", int(m))
	}
	return fmt.Sprintf("Mode(%d)", int(m))
}

// MarshalText implements [encoding.TextMarshaler] by [Mode.String]. It fails if m is not legal.
func (m Mode) MarshalText() ([]byte, error) {
	if err := m.validate(); err != nil {
		return nil, fmt.Errorf("core: mode: %w", err)
	}
	return []byte(m.String()), nil
}

// UnmarshalText implements [encoding.TextUnmarshaler] by [ParseMode].
func (m *Mode) UnmarshalText(text []byte) error {
	parsed, err := ParseMode(string(text))
	if err != nil {
		return err
	}
	*m = parsed
	return nil
}

var errMode = errors.New("must be Enforce, Shadow, Disabled or EnforceFor 0 to 100 percent")

func (m Mode) validate() error {
	if m < Disabled || m >= 100 {
		return fmt.Errorf("%w (got %d)", errMode, int(m))
	}
	return nil
}

// enforces reports whether m enforces a rule for a key with this hash.
func (m Mode) enforces(hash uint64) bool {
	switch {
	case m == Enforce:
		return true
	case m < Enforce:
		return false
	}
	return hash%100 < uint64(m)
}

// shareHash returns the hash by which [EnforceFor] chooses the keys of a rule: FNV-1a with a final
// mix. It is the same in every process.
func shareHash(rule, key string) uint64 {
	h := uint64(14695981039346656037)
	for _, s := range [...]string{rule, "\x00", key} {
		for i := range len(s) {
			h = (h ^ uint64(s[i])) * 1099511628211
		}
	}
	h ^= h >> 33
	h *= 0xff51afd7ed558ccd
	h ^= h >> 33
	return h
}
