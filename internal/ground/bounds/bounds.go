// Package bounds has the bounds that limits and all backends share.
package bounds

const (
	// BucketFill is the longest time in which a full bucket drains: 100 years in microseconds.
	BucketFill = 36_525 * 24 * 3600 * 1_000_000

	// HeldCost is the highest cost of one charge under a concurrency limit.
	HeldCost = 64
)
