package memory

import (
	"syscall"
	"unsafe"
)

// inHugePages asks the system to keep a table in large pages, of which the
// processor finds many more without a walk through memory than of small ones. It
// makes no difference but speed, and may well be refused.
func inHugePages(table []tableBucket) {
	if pages := wholePages(table, uintptr(syscall.Getpagesize())); len(pages) > 0 {
		_ = syscall.Madvise(pages, syscall.MADV_HUGEPAGE)
	}
}

// wholePages returns the part of a table that is made of whole pages.
func wholePages(table []tableBucket, page uintptr) []byte {
	start := unsafe.SliceData(table)
	size := uintptr(len(table)) * unsafe.Sizeof(*start)
	ahead := -uintptr(unsafe.Pointer(start)) % page
	if ahead >= size {
		return nil
	}
	return unsafe.Slice((*byte)(unsafe.Pointer(start)), size)[ahead : size-(size-ahead)%page]
}
