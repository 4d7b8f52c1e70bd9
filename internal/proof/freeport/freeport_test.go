package freeport

import (
	"net"
	"testing"
)

func TestAddressesAreFreeAndDifferent(t *testing.T) {
	seen := make(map[string]bool)
	for range 50 {
		address, err := Address()
		if err != nil {
			t.Fatal(err)
		}
		if seen[address] {
			t.Fatalf("%s was given twice", address)
		}
		seen[address] = true
		l, err := net.Listen("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
	}
}
