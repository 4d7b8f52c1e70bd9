//go:build !unix

package follow

const nonBlocking = 0 // files are never named pipes here
