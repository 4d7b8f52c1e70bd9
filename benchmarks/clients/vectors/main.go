// Vectors judges what clients did with the vectors of client/testdata/vectors, and prints tables in
// Markdown.
//
//	vectors -vectors FOLDER rows.jsonl
//
// Each line of the rows is what one client did with one vector: how long after the last answer it sent
// the next request, null if it sent none.
package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

func main() {
	folder := flag.String("vectors", "", "the folder of the vectors")
	flag.Parse()
	vectors, err := readVectors(*folder)
	if err == nil {
		var rows []row
		if rows, err = readRows(flag.Arg(0)); err == nil {
			fmt.Print(report(vectors, rows))
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// A vector is what decides how a wait is judged. The README of the folder describes its members.
type vector struct {
	Name    string
	Answers []struct {
		Status int
		Sent   *float64
	}
	Earliest *float64
	Open     *struct {
		From float64
		To   *float64
	}
	Never bool
}

// key is the file and the name of a vector.
type key struct{ file, name string }

// readVectors reads the vectors that were asked: those without several requests in flight.
func readVectors(folder string) (map[key]vector, error) {
	files, err := filepath.Glob(filepath.Join(folder, "*.json"))
	if err != nil {
		return nil, err
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("%q has no vectors: name their folder by -vectors", folder)
	}
	all := make(map[key]vector)
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		var file struct{ Vectors []vector }
		if err := json.Unmarshal(text, &file); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		for _, v := range file.Vectors {
			if v.Answers[0].Sent == nil {
				all[key{strings.TrimSuffix(filepath.Base(name), ".json"), v.Name}] = v
			}
		}
	}
	return all, nil
}

// A row is what a client did with a vector.
type row struct {
	Language, Client, Release string
	File, Vector              string
	Wait                      *float64
	Repeated                  bool // by itself
	Error                     string
}

func readRows(name string) ([]row, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	var rows []row
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		var r row
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			return nil, fmt.Errorf("%s: %q: %w", name, lines.Text(), err)
		}
		rows = append(rows, r)
	}
	if len(rows) == 0 {
		return nil, errors.Join(errors.New("no client was asked"), lines.Err())
	}
	return rows, lines.Err()
}

// verdict is what a client is told of a vector.
type verdict int

const (
	obeys verdict = iota // sends at the earliest instant or later; of an open one, by every reading
	some                 // obeys an open one by some readings
	early
	givesUp
	breaks // fails with an error that is not about the answer
)

// slack is what clocks of milliseconds may round, in seconds.
const slack = 0.002

func judge(v *vector, r *row) verdict {
	last := v.Answers[len(v.Answers)-1].Status
	redirected := last >= 300 && last < 400 // a client that does not follow it gives up
	switch {
	case r.Wait == nil && r.Error != "" && !redirected && !strings.Contains(r.Error, "Timeout"):
		return breaks
	case v.Never && r.Repeated:
		return early
	case v.Never, r.Wait == nil:
		return givesUp
	}
	wait := *r.Wait + slack
	switch o := v.Open; {
	case o == nil && wait >= *v.Earliest, o != nil && (o.To == nil || wait >= *o.To):
		return obeys
	case o == nil || wait < o.From:
		return early
	}
	return some
}

// group is the column of a vector.
type group int

const (
	seconds group = iota
	dates
	redirects
	others
	services
	allowed
	open
	groups
)

func (v *vector) group(k key) group {
	switch last := v.Answers[len(v.Answers)-1].Status; {
	case v.Open != nil:
		return open
	case last < 300:
		return allowed
	case last < 400:
		return redirects
	case k.file == "services":
		return services
	case k.file == "retry-after" && (strings.Contains(k.name, "date") || strings.Contains(k.name, "year")):
		return dates
	case k.file == "retry-after":
		return seconds
	}
	return others
}

// counts are how often a client got each verdict, by group.
type counts [groups][breaks + 1]int

func (c *counts) cell(g group) string {
	n := c[g]
	if g == open {
		return fmt.Sprintf("%d · %d · %d · %d", n[obeys], n[some], n[early], n[givesUp])
	}
	return fmt.Sprintf("%d · %d · %d", n[obeys], n[early], n[givesUp])
}

// report returns a table of all clients, and lists of what they send too early after Retry-After and of
// what breaks them.
func report(vectors map[key]vector, rows []row) string {
	var of [groups]int
	for k, v := range vectors {
		of[v.group(k)]++
	}
	var b strings.Builder
	fmt.Fprintf(&b, "| client | in | seconds (%d) | dates (%d) | redirects (%d) | other fields (%d) | services (%d) "+
		"| allowed (%d) | open (%d) | breaks |\n|---|---|---|---|---|---|---|---|---|---|\n",
		of[seconds], of[dates], of[redirects], of[others], of[services], of[allowed], of[open])
	type client struct{ language, name, release string }
	all := make(map[client]*counts)
	hasty, broken := make(map[client][]string), make(map[client][]string)
	for i := range rows {
		r := &rows[i]
		c, k := client{r.Language, r.Client, r.Release}, key{r.File, r.Vector}
		v, known := vectors[k]
		if !known {
			continue
		}
		if all[c] == nil {
			all[c] = new(counts)
		}
		got, g := judge(&v, r), v.group(k)
		all[c][g][got]++
		switch {
		case got == breaks:
			broken[c] = append(broken[c], fmt.Sprintf("%s (%s)", k.name, r.Error))
		case got == early && (g == seconds || g == dates):
			hasty[c] = append(hasty[c], fmt.Sprintf("%s (%.4g s)", k.name, *r.Wait))
		}
	}
	clients := slices.SortedFunc(maps.Keys(all), func(a, b client) int {
		return cmp.Or(cmp.Compare(a.language, b.language), cmp.Compare(short(a.name), short(b.name)))
	})
	for _, c := range clients {
		n, sum := all[c], 0
		fmt.Fprintf(&b, "| %s %s | %s ", short(c.name), c.release, c.language)
		for g := range groups {
			fmt.Fprintf(&b, "| %s ", n.cell(g))
			sum += n[g][breaks]
		}
		fmt.Fprintf(&b, "| %d |\n", sum)
	}
	b.WriteString("\nToo early after a `Retry-After` in seconds or a date, and after how long:\n\n")
	for _, c := range clients {
		if len(hasty[c]) > 0 {
			fmt.Fprintf(&b, "- %s of %s: %s\n", short(c.name), c.language, strings.Join(hasty[c], "; "))
		}
	}
	b.WriteString("\nBroken, and by what:\n\n")
	for _, c := range clients {
		if len(broken[c]) > 0 {
			fmt.Fprintf(&b, "- %s of %s: %s\n", short(c.name), c.language, strings.Join(broken[c], "; "))
		}
	}
	return b.String()
}

// short leaves the host of a module of Go out.
func short(name string) string { return strings.TrimPrefix(name, "github.com/") }
