//go:build !linux

package core

func inHugePages([]tableBucket) {}
