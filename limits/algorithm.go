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
		return algorithmNames[a]
	}
	return fmt.Sprintf("Algorithm(%d)", uint8(a))
}

var algorithmNames = [algorithmEnd]string{
	AlgorithmTokenBucket:    "token-bucket",
	AlgorithmLeakyBucket:    "leaky-bucket",
	AlgorithmLeakyQueue:     "leaky-queue",
	AlgorithmFixedWindow:    "fixed-window",
	AlgorithmSlidingWindow:  "sliding-window",
	AlgorithmSlidingLog:     "sliding-log",
	AlgorithmAnchoredWindow: "anchored-window",
	AlgorithmConcurrent:     "concurrent",
	AlgorithmBan:            "ban",
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
func (a Algorithm) isBucket() bool {
	return a == AlgorithmTokenBucket || a == AlgorithmLeakyBucket || a == AlgorithmLeakyQueue
}
