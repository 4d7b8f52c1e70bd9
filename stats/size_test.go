package stats

import (
	"testing"
	"unsafe"
)

func TestTheListsOfALimiterAreBounded(t *testing.T) {
	for name, size := range map[string][2]uintptr{
		"top keys":     {unsafe.Sizeof(topKeys{}), 64 << 10},
		"last denials": {unsafe.Sizeof(recentDenials{}), 64 << 10},
		"a rule":       {unsafe.Sizeof(rule{}), 8 << 10},
	} {
		if size[0] > size[1] {
			t.Errorf("%s: %d bytes: want at most %d", name, size[0], size[1])
		}
	}
}
