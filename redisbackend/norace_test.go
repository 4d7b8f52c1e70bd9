//go:build !race

package redisbackend_test

const underRace = 1
