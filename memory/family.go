package memory

import "github.com/weir-go/weir/limits"

// family is the algorithms that keep one form of state. Their arithmetic is in one
// file: bucket.go, window.go, anchored_window.go, sliding_log.go, concurrent.go or
// ban.go.
type family uint8

const (
	familyBucket family = iota + 1
	familyWindow
	familyAnchoredWindow
	familyLog
	familyConcurrent
	familyBan
)

// familyOf returns the family of a, or 0 if there is no such algorithm.
func familyOf(a limits.Algorithm) family {
	switch a {
	case limits.AlgorithmTokenBucket, limits.AlgorithmLeakyBucket, limits.AlgorithmLeakyQueue:
		return familyBucket
	case limits.AlgorithmFixedWindow, limits.AlgorithmSlidingWindow:
		return familyWindow
	case limits.AlgorithmAnchoredWindow:
		return familyAnchoredWindow
	case limits.AlgorithmSlidingLog:
		return familyLog
	case limits.AlgorithmConcurrent:
		return familyConcurrent
	case limits.AlgorithmBan:
		return familyBan
	}
	return 0
}
