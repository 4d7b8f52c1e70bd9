package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
)

// Memory is measured in processes that take one reading each, so that their heaps are fresh.

// runChildren takes one reading of each contestant.
func runChildren[T any](group string, contestants []string) (map[string]T, error) {
	readings := make(map[string]T)
	for i, name := range contestants {
		progress("%s: %d of %d: %s", group, i+1, len(contestants), name)
		reading, err := runChild[T](group, name)
		if err != nil {
			return nil, err
		}
		readings[name] = reading
	}
	progress("")
	return readings, nil
}

// runChild starts a process that prints one reading as JSON.
func runChild[T any](group, contestant string) (reading T, err error) {
	self, err := os.Executable()
	if err != nil {
		return reading, err
	}
	child := exec.Command(self, "child", group, contestant)
	child.Stderr = os.Stderr
	output, err := child.Output()
	if err == nil {
		err = json.Unmarshal(output, &reading)
	}
	if err != nil {
		err = fmt.Errorf("%s, %s: %w", group, contestant, err)
	}
	return reading, err
}

// printReading prints a reading for runChild.
func printReading(reading any) {
	if err := json.NewEncoder(os.Stdout).Encode(reading); err != nil {
		panic(err)
	}
}

// progress overwrites the last line on standard error, if that is a terminal.
func progress(format string, args ...any) {
	if info, err := os.Stderr.Stat(); err == nil && info.Mode()&os.ModeCharDevice != 0 {
		fmt.Fprintf(os.Stderr, "\r\x1b[K"+format, args...)
	}
}
