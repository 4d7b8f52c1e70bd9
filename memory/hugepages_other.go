//go:build !linux

package memory

func inHugePages([]tableBucket) {}
