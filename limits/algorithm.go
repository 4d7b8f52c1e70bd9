package limits

import (
	"fmt"
	"strings"
)

// Algorithm names the way in which a [Limit] counts.
type Algorithm uint8

// The algorithms, each made by the constructor of the same name.
const (
	AlgorithmTokenBucket Algorithm = iota + 1
	AlgorithmLeakyBucket
	AlgorithmLeakyQueue
	AlgorithmFixedWindow
	AlgorithmSlidingWindow
	AlgorithmSlidingLog
	AlgorithmAnchoredWindow
	AlgorithmConcurrent
	AlgorithmBan
	AlgorithmCalendar

	algorithmEnd // after the last
)

// Algorithms returns all algorithms, in the order of their constants.
func Algorithms() []Algorithm {
	var all []Algorithm
	for a := AlgorithmTokenBucket; a < algorithmEnd; a++ {
		all = append(all, a)
	}
	return all
}

// String returns the name that [Parse] reads, such as "token-bucket".
func (a Algorithm) String() string {
	if a != 0 && a < algorithmEnd {
		return algorithms[a].name
	}
	return fmt.Sprintf("Algorithm(%d)", uint8(a))
}

// algorithms says what there is to know of each algorithm, besides its arithmetic.
var algorithms = [algorithmEnd]struct {
	name  string // in text
	burst bool   // it drains continuously, and has a burst of its own
	most  int64  // units that a limit may have
}{
	AlgorithmTokenBucket:    {"token-bucket", true, maxUnits},
	AlgorithmLeakyBucket:    {"leaky-bucket", true, maxUnits},
	AlgorithmLeakyQueue:     {"leaky-queue", true, maxUnits},
	AlgorithmFixedWindow:    {"fixed-window", false, maxUnits},
	AlgorithmSlidingWindow:  {"sliding-window", false, maxUnits},
	AlgorithmSlidingLog:     {"sliding-log", false, 10_000},
	AlgorithmAnchoredWindow: {"anchored-window", false, maxUnits},
	AlgorithmConcurrent:     {"concurrent", false, 100_000},
	AlgorithmBan:            {"ban", false, maxUnits},
	AlgorithmCalendar:       {"calendar", false, maxUnits},
}

// algorithmNames returns the names of all algorithms, in the order of their constants.
func algorithmNames() (names []string) {
	for _, a := range Algorithms() {
		names = append(names, a.String())
	}
	return names
}

// one returns a's name with its article.
func (a Algorithm) one() string {
	name := a.String()
	if a == AlgorithmConcurrent {
		name = "concurrency limit"
	}
	if strings.ContainsRune("aeiou", rune(name[0])) {
		return "an " + name
	}
	return "a " + name
}

// isBucket reports whether a drains continuously and has a burst of its own.
func (a Algorithm) isBucket() bool { return a < algorithmEnd && algorithms[a].burst }
