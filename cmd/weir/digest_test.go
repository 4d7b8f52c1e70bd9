package main

import (
	"os"
	"testing"
)

// TestNobodyTypesTheNullDevice checks that jobs without input get no advice for typing.
func TestNobodyTypesTheNullDevice(t *testing.T) {
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	if isTerminal(null) {
		t.Error("it is taken for a terminal")
	}
}
