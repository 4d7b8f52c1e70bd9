// Words counts what the project wants less of: words that make a comment hard to read, long
// lines, long names of tests, files over which the methods of a type are scattered, and long
// subjects of commits. .ci/words.txt has a number for each count. A count above its number
// fails, and its places are printed. A count below its number is to be lowered there: the
// numbers only fall.
//
//	go run .ci/words.go         # compares
//	go run .ci/words.go lower   # writes lower counts into .ci/words.txt
package main

import (
	"fmt"
	"go/scanner"
	"go/token"
	"os"
	"os/exec"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

const budget = ".ci/words.txt"

var (
	hard = regexp.MustCompile(`(?i)\b(nobody|somebody|whoever|anybody|but for|likewise)\b|` +
		`\b(is none|(is|are) of an?)\b`)
	// Something "has requests sent". What "has been sent" or "has not sent" is plain.
	causative = regexp.MustCompile(`\bhas (\S+ )+?(done|sent|decided|taken)\b`)
	perfect   = regexp.MustCompile(`\bhas ((not|never|already|just|ever|only|also|itself) )*` +
		`(been|done|sent|decided|taken)\b`)
	generated = regexp.MustCompile(`(?m)^// Code generated .* DO NOT EDIT\.$`)
	test      = regexp.MustCompile(`^func ((?:Test|Fuzz|Benchmark)\w+)\(`)
	method    = regexp.MustCompile(`^func \((?:\w+ )?\*?(\w+)(?:\[.*?\])?\) `)
	// Proof, benchmarks and examples are neither library nor command.
	beside = regexp.MustCompile(`(^|/)(proof|benchmarks|examples|limitstest|testdata|\.ci)/`)
)

func main() {
	if err := check(slices.Contains(os.Args[1:], "lower")); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func check(lower bool) error {
	data, err := os.ReadFile(budget)
	if err != nil {
		return err
	}
	text := string(data)
	since := regexp.MustCompile(`(?m)^since ([0-9a-f]+)$`).FindStringSubmatch(text)
	if since == nil {
		return fmt.Errorf("%s has no line such as: since 1a2b3c4", budget)
	}
	places := make(map[string][]string) // by name of the count
	if err := readFiles(places); err != nil {
		return err
	}
	if err := readSubjects(places, since[1]); err != nil {
		return err
	}
	failed := false
	for _, name := range []string{"comments", "lines", "names", "files", "subjects"} {
		line := regexp.MustCompile(`(?m)^` + name + ` (\d+)$`)
		match := line.FindStringSubmatch(text)
		if match == nil {
			return fmt.Errorf("%s has no number of %s", budget, name)
		}
		allowed, _ := strconv.Atoi(match[1])
		switch got := len(places[name]); {
		case got > allowed:
			failed = true
			fmt.Println(strings.Join(recent(places[name], since[1]), "\n"))
			fmt.Printf("%s: %d, and %s allows %d\n", name, got, budget, allowed)
		case got < allowed && lower:
			text = line.ReplaceAllString(text, fmt.Sprint(name, " ", got))
		case got < allowed:
			fmt.Printf("%s: %d, and %s allows %d: lower it by go run .ci/words.go lower\n", name, got, budget, allowed)
		}
	}
	if failed {
		return fmt.Errorf("mend what you have added")
	}
	return os.WriteFile(budget, []byte(text), 0o644)
}

// recent returns the places in lines that were added since a commit. It returns all places if
// none is in such a line.
func recent(places []string, since string) []string {
	diff, _ := exec.Command("git", "diff", "-U0", "--no-prefix", since, "--", "*.go").Output()
	added := make(map[string]bool) // path:line
	path := ""
	hunk := regexp.MustCompile(`^@@ -\S+ \+(\d+)(?:,(\d+))? @@`)
	for line := range strings.Lines(string(diff)) {
		if name, ok := strings.CutPrefix(line, "+++ "); ok {
			path = strings.TrimSpace(name)
		} else if m := hunk.FindStringSubmatch(line); m != nil {
			first, _ := strconv.Atoi(m[1])
			lines := 1
			if m[2] != "" {
				lines, _ = strconv.Atoi(m[2])
			}
			for i := range lines {
				added[fmt.Sprintf("%s:%d", path, first+i)] = true
			}
		}
	}
	var found []string
	for _, place := range places {
		parts := strings.SplitN(place, ":", 3)
		if len(parts) > 1 && added[parts[0]+":"+parts[1]] {
			found = append(found, place)
		}
	}
	if found == nil {
		return places
	}
	return found
}

// readFiles notes places in all Go files.
func readFiles(places map[string][]string) error {
	listed, err := exec.Command("git", "ls-files", "*.go").Output()
	if err != nil {
		return fmt.Errorf("git ls-files: %w", err)
	}
	homes := make(map[string][]string) // of a type: the files with its methods
	for name := range strings.FieldsSeq(string(listed)) {
		source, err := os.ReadFile(name)
		if os.IsNotExist(err) {
			continue // removed, and not committed yet
		}
		if err != nil {
			return err
		}
		if generated.Match(source) {
			continue
		}
		isTest := strings.HasSuffix(name, "_test.go")
		n := 0
		for line := range strings.Lines(string(source)) {
			n++
			line = strings.TrimSuffix(line, "\n")
			if utf8.RuneCountInString(line) > 120 {
				places["lines"] = append(places["lines"], fmt.Sprintf("%s:%d", name, n))
			}
			if m := test.FindStringSubmatch(line); isTest && m != nil && len(m[1]) > 60 {
				places["names"] = append(places["names"], fmt.Sprintf("%s:%d: %s", name, n, m[1]))
			}
			if m := method.FindStringSubmatch(line); m != nil && !isTest && !beside.MatchString(name) {
				kind := path.Dir(name) + "." + m[1]
				files := homes[kind]
				if slices.Contains(files, name) {
					continue
				}
				homes[kind] = append(files, name)
				if len(files) > 0 {
					place := fmt.Sprintf("%s:%d: methods of %s, as in %s", name, n, m[1], files[0])
					places["files"] = append(places["files"], place)
				}
			}
		}
		if !isTest {
			readComments(places, name, source)
		}
	}
	return nil
}

// readComments notes hard words in the comments of a file.
func readComments(places map[string][]string, path string, source []byte) {
	files := token.NewFileSet()
	file := files.AddFile(path, -1, len(source))
	var s scanner.Scanner
	s.Init(file, source, nil, scanner.ScanComments)
	for {
		at, kind, text := s.Scan()
		if kind == token.EOF {
			return
		}
		if kind != token.COMMENT {
			continue
		}
		first := file.Line(at)
		for i, line := range strings.Split(text, "\n") {
			words := hard.FindAllString(line, -1)
			if !perfect.MatchString(line) {
				words = append(words, causative.FindAllString(line, -1)...)
			}
			for _, word := range words {
				places["comments"] = append(places["comments"], fmt.Sprintf("%s:%d: %q", path, first+i, word))
			}
		}
	}
}

// readSubjects notes commits after one. A shallow clone may lack that one: then all that the
// clone has are later.
func readSubjects(places map[string][]string, since string) error {
	commits := since + "..HEAD"
	shallow, _ := exec.Command("git", "rev-parse", "--is-shallow-repository").Output()
	if exec.Command("git", "cat-file", "-e", since).Run() != nil && string(shallow) == "true\n" {
		commits = "HEAD"
	}
	log, err := exec.Command("git", "log", "--no-merges", "--format=%h %s", commits).Output()
	if err != nil {
		return fmt.Errorf("git log %s: %w", commits, err)
	}
	for line := range strings.Lines(string(log)) {
		if _, subject, _ := strings.Cut(strings.TrimSpace(line), " "); utf8.RuneCountInString(subject) > 72 {
			places["subjects"] = append(places["subjects"], strings.TrimSpace(line))
		}
	}
	return nil
}
