//go:build race

package redisbackend_test

// underRace divides the work of the random tests: the race detector makes each several times
// slower, and looks for races, not for differences.
const underRace = 4
