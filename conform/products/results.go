package main

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/weir-go/weir/conform"
)

const resultsFile = "results.json"

// measurement is what runs have found.
type measurement struct{ Products []*product }

// over returns m with the products of a file that m lacks, unless their folders are gone.
func (m *measurement) over(file string) (*measurement, error) {
	before, err := readMeasurement(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	both := &measurement{slices.Clone(m.Products)}
	for _, p := range before.Products {
		isThis := func(q *product) bool { return q.Folder == p.Folder }
		if _, err := os.Stat(p.Folder); err == nil && !slices.ContainsFunc(m.Products, isThis) {
			both.Products = append(both.Products, p)
		}
	}
	slices.SortFunc(both.Products, func(a, b *product) int { return strings.Compare(a.Folder, b.Folder) })
	return both, nil
}

// readMeasurement reads a file of results.
func readMeasurement(file string) (*measurement, error) {
	m := new(measurement)
	text, err := os.ReadFile(file)
	if err != nil {
		return m, err
	}
	return m, json.Unmarshal(text, m)
}

// write writes the file of results.
func (m *measurement) write() error {
	text, err := json.MarshalIndent(m, "", "\t")
	if err != nil {
		return err
	}
	return os.WriteFile(resultsFile, append(text, '\n'), 0o644)
}

// result is what a check has found.
type result struct {
	Check   string
	Verdict conform.Verdict
	Found   string `json:",omitempty"`
}
