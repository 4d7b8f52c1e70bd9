//go:build !unix

package policy

const nonBlocking = 0 // files are never named pipes here
