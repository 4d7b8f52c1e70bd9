package descriptors

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/weir-go/weir/internal/files/follow"
	"github.com/weir-go/weir/policy"
)

// File is a file of limits: its name, for mistakes, and its text.
type File struct {
	Name string
	Text []byte
}

// Load reads files of limits, and all files of directories whose names end in .yaml or
// .yml, except for policy files: see [Sort]. A directory without a file of limits is an error. The
// error reports every mistake: see [Mistakes].
func Load(paths ...string) (*Config, error) {
	files, err := Read(paths...)
	if err != nil {
		return nil, err
	}
	return Parse(files...)
}

// Read reads the files that [Load] would read, without their limits.
func Read(paths ...string) (files []File, err error) {
	files, _, err = read(paths)
	return files, err
}

// read is Read, and returns the names of the policy files that it leaves out.
func read(paths []string) (files []File, policies []string, err error) {
	for _, path := range paths {
		all, isDirectory, err := readAll(path)
		if err != nil {
			return nil, nil, err
		}
		before := len(files)
		for _, f := range all {
			if isDirectory && isPolicy(f.Text) {
				policies = append(policies, f.Name)
			} else {
				files = append(files, f)
			}
		}
		if len(files) == before {
			return nil, nil, fmt.Errorf("%s: has no file of limits by descriptors, only %s, "+
				"which is a policy file: add one, or leave the directory out", path, all[0].Name)
		}
	}
	return files, policies, nil
}

// Sort returns the names of the files of a directory that [Load] would read, and of its policy
// files: see [Recognize]. So one directory may have both kinds.
func Sort(directory string) (limits, policies []string, err error) {
	all, isDirectory, err := readAll(directory)
	if err == nil && !isDirectory {
		err = fmt.Errorf("%s: is no directory", directory)
	}
	if err != nil {
		return nil, nil, err
	}
	for _, f := range all {
		if isPolicy(f.Text) {
			policies = append(policies, f.Name)
		} else {
			limits = append(limits, f.Name)
		}
	}
	return limits, policies, nil
}

// readAll reads a file, or those of a directory.
func readAll(path string) (files []File, isDirectory bool, err error) {
	names := []string{path}
	info, err := os.Stat(path)
	if err != nil {
		return nil, false, err
	}
	if info.IsDir() {
		if names, err = inDirectory(path); err != nil {
			return nil, true, err
		}
	}
	for _, name := range names {
		text, err := readFile(name)
		if err != nil {
			return nil, info.IsDir(), err
		}
		files = append(files, File{name, text})
	}
	return files, info.IsDir(), nil
}

// inDirectory returns the files of limits in a directory. A ConfigMap of Kubernetes keeps
// its files in a directory beside links to them, whose name begins with a dot.
func inDirectory(path string) (names []string, err error) {
	entries, err := os.ReadDir(path)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		name := e.Name()
		if ext := filepath.Ext(name); strings.HasPrefix(name, ".") || ext != ".yaml" && ext != ".yml" {
			continue
		}
		names = append(names, filepath.Join(path, name))
	}
	if len(names) == 0 {
		return nil, &fs.PathError{
			Op: "read", Path: path, Err: errors.New("the directory has no file whose name ends in .yaml or .yml"),
		}
	}
	return names, nil
}

func readFile(name string) ([]byte, error) {
	text, err := follow.Read(name, maxFile)
	if err == nil && len(text) > maxFile {
		err = fmt.Errorf("%s: a file of limits has at most %d bytes", name, maxFile)
	}
	return text, err
}

// Bounds of a configuration.
const (
	maxFile  = 4 << 20  // bytes
	maxNodes = 100_000  // descriptors of all files
	maxDepth = 2*16 + 8 // 16 descriptors below one another
	maxShown = 50       // mistakes in the text of an error
	maxParts = 16       // stars in a value
)

// Mistakes returns every mistake that err, an error of [Load] or [Parse], reports. It is nil
// for another error, such as that of a file that cannot be read.
func Mistakes(err error) []*policy.Mistake {
	var all mistakes
	if errors.As(err, &all) {
		return slices.Clone([]*policy.Mistake(all))
	}
	return nil
}

type mistakes []*policy.Mistake

func (m mistakes) Error() string {
	var lines []string
	for i, one := range m {
		if i == maxShown {
			lines = append(lines, fmt.Sprintf("and %d more mistakes", len(m)-i))
			break
		}
		lines = append(lines, one.Error())
	}
	return strings.Join(lines, "\n")
}

// Parse reads the texts of files. Its error reports every mistake of all files: see
// [Mistakes].
func Parse(files ...File) (*Config, error) {
	if len(files) == 0 {
		return nil, errors.New("descriptors: there is no file: name one at least")
	}
	r := newReader()
	sources := make([]source, len(files))
	for i, f := range files {
		sources[i] = source{f.Name, r.parse(f)}
	}
	return r.readAll(sources)
}

// Recognize reports whether a text is a file of limits by descriptors, and not a policy file
// or anything else. It says nothing of mistakes. A file with descriptors is of limits. A file
// without them is a policy if it has a field that policies alone have, such as version or rules.
// Otherwise domain, prices, on_failure or all_or_nothing make it a file of limits.
func Recognize(text []byte) bool {
	has := fieldsOf(text)
	return has("descriptors") ||
		!has(policyFields...) && has("domain", "prices", "on_failure", "all_or_nothing")
}

// isPolicy reports whether a text is a policy file. It says nothing of mistakes. A file in a
// directory that is neither a policy nor recognized counts as one of limits, which it fails to be.
func isPolicy(text []byte) bool {
	has := fieldsOf(text)
	return has(policyFields...) && !has("descriptors")
}

// policyFields are the fields at the top of policy files, without those of files of limits.
var policyFields = []string{"version", "rules", "program", "client", "paths", "lists", "shed"}

// fieldsOf returns a function that reports whether a document has one of some fields at its top.
func fieldsOf(text []byte) func(fields ...string) bool {
	root, _ := form.Parse(text)
	return func(fields ...string) bool {
		return slices.ContainsFunc(fields, func(field string) bool {
			if root == nil { // not YAML, and its mistakes are those of the file that it looks like
				return bytes.HasPrefix(text, []byte(field+":")) ||
					bytes.Contains(text, []byte("\n"+field+":"))
			}
			for _, e := range root.Entries {
				if e.Name.Text == field {
					return true
				}
			}
			return false
		})
	}
}
