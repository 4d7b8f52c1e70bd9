//go:build !unix

package policy

const nonBlocking = 0 // there are no named pipes among the files
