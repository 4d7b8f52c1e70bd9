package simulate

import "testing"

// SetFewKeys changes for how many keys there is room at first.
func SetFewKeys(t testing.TB, n int) {
	before := fewKeys
	fewKeys = n
	t.Cleanup(func() { fewKeys = before })
}
