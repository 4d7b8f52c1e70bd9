package memory

import (
	"syscall"
	"testing"
	"unsafe"
)

// The system refuses anything but whole pages.
func TestATableIsAdvisedByWholePages(t *testing.T) {
	const page = 4096
	slots := make([]tableBucket, 4*page/unsafe.Sizeof(tableBucket{}))
	for from := range len(slots) {
		for to := from + 1; to <= len(slots); to++ {
			table := slots[from:to]
			size := uintptr(len(table)) * unsafe.Sizeof(table[0])
			pages := wholePages(table, page)
			if left := size - uintptr(len(pages)); left >= 2*page {
				t.Fatalf("%d bytes of %d left out", left, size)
			}
			if len(pages) == 0 {
				continue
			}
			ahead := uintptr(unsafe.Pointer(&pages[0])) - uintptr(unsafe.Pointer(&table[0]))
			if uintptr(unsafe.Pointer(&pages[0]))%page != 0 || len(pages)%page != 0 || ahead >= page || ahead+uintptr(len(pages)) > size {
				t.Fatalf("%d bytes from %p for a table of %d bytes at %p", len(pages), &pages[0], size, &table[0])
			}
		}
	}
	pages := wholePages(make([]tableBucket, 1<<16), uintptr(syscall.Getpagesize()))
	if err := syscall.Madvise(pages, syscall.MADV_HUGEPAGE); err != nil && err != syscall.EINVAL { // EINVAL: built without large pages
		t.Error(err)
	}
}
