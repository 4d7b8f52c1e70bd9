// Package workload makes the keys that every contestant decides, and their order. They are the same
// for all contestants, and made before any clock starts.
package workload

import "strconv"

// AppendKey appends the i-th key to b: an IPv4 address in dotted form, as for a limiter by client
// address. Different i below 2³² yield different keys, and neighbours have no common pattern.
func AppendKey(b []byte, i int) []byte {
	a := uint32(i) * 0x9E3779B1 // odd, so one-to-one
	for shift := 24; shift >= 0; shift -= 8 {
		b = strconv.AppendUint(b, uint64(a>>shift&0xff), 10)
		if shift > 0 {
			b = append(b, '.')
		}
	}
	return b
}

// NewKey returns the i-th key as a new string, as a server makes it from a request: a store that
// keeps the key keeps its bytes.
func NewKey(i int) string {
	var b [len("255.255.255.255")]byte
	return string(AppendKey(b[:0], i))
}
