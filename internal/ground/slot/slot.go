// Package slot computes the hash slots of a Redis Cluster.
package slot

import "strings"

// Slots is the number of slots.
const Slots = 16384

// Of returns the hash slot of a name: the CRC-16 of its hash tag or, without one, of the name
// (Redis Cluster specification, "Key distribution model").
func Of(name string) uint16 {
	if _, rest, ok := strings.Cut(name, "{"); ok {
		if tag, _, ok := strings.Cut(rest, "}"); ok && tag != "" {
			name = tag
		}
	}
	var crc uint16
	for i := range len(name) {
		crc ^= uint16(name[i]) << 8
		for range 8 {
			if crc&0x8000 != 0 {
				crc = crc<<1 ^ 0x1021 // XMODEM
			} else {
				crc <<= 1
			}
		}
	}
	return crc % Slots
}
