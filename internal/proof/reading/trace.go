package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

const (
	module  = "github.com/weir-go/weir"
	place   = module + "/internal/proof/reading"
	marking = "reading_note" // the name by which copies import package note
)

// command is exec.Command, or that of a test.
type command func(name string, args ...string) *exec.Cmd

// function is a function of the library.
type function struct {
	file string // from the root
	name string // with its type
	says string // the first sentence of its comment
}

// traced is package request, built from copies of the library that note each call.
type traced struct {
	functions []function
	types     map[string]string // what comments of types say, by directory and name
	program   string
}

// build copies the library into dir, notes calls in the copies, and builds package request.
func build(run command, root, dir string) (*traced, error) {
	list := run("go", "list", "-deps", "-f",
		`{{if .Module}}{{.ImportPath}}{{range .GoFiles}} {{$.Dir}}/{{.}}{{end}}{{end}}`, place+"/request")
	list.Dir = root
	out, err := list.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}
	t := &traced{types: make(map[string]string), program: filepath.Join(dir, "request")}
	replaced := make(map[string]string)
	for line := range strings.Lines(string(out)) {
		path, files, _ := strings.Cut(strings.TrimSpace(line), " ")
		if !strings.HasPrefix(path+"/", module+"/") || strings.HasPrefix(path, place) {
			continue
		}
		for _, file := range strings.Fields(files) {
			text, err := t.note(root, file)
			if err != nil {
				return nil, err
			}
			to := filepath.Join(dir, fmt.Sprintf("%d.go", len(replaced)))
			if err := os.WriteFile(to, text, 0o600); err != nil {
				return nil, err
			}
			replaced[file] = to
		}
	}
	overlay, err := json.Marshal(map[string]any{"Replace": replaced})
	if err != nil {
		return nil, err
	}
	names := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(names, overlay, 0o600); err != nil {
		return nil, err
	}
	compile := run("go", "build", "-overlay", names, "-o", t.program, place+"/request")
	compile.Dir = root
	if out, err := compile.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("go build: %w\n%s", err, out)
	}
	return t, nil
}

// note returns the text of a file in which each function notes that it is called. It keeps lines.
func (t *traced) note(root, path string) ([]byte, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	positions := token.NewFileSet()
	file, err := parser.ParseFile(positions, path, text, parser.ParseComments)
	if err != nil {
		return nil, err
	}
	from, err := filepath.Rel(root, path)
	if err != nil {
		return nil, err
	}
	at := func(p token.Pos) int { return positions.Position(p).Offset }
	var noted bytes.Buffer
	noted.Write(text[:at(file.Name.End())])
	fmt.Fprintf(&noted, "; import %s %q", marking, place+"/note")
	last := at(file.Name.End())
	any := false
	for _, d := range file.Decls {
		if g, ok := d.(*ast.GenDecl); ok {
			t.noteTypes(filepath.Dir(from), g)
		}
		f, ok := d.(*ast.FuncDecl)
		if !ok || f.Body == nil || f.Name.Name == "init" {
			continue
		}
		any = true
		noted.Write(text[last : at(f.Body.Lbrace)+1])
		last = at(f.Body.Lbrace) + 1
		fmt.Fprintf(&noted, " %s.Call(%d);", marking, len(t.functions))
		t.functions = append(t.functions, function{filepath.ToSlash(from), nameOf(f), sentence(f.Doc)})
	}
	if !any {
		return text, nil
	}
	noted.Write(text[last:])
	return noted.Bytes(), nil
}

// noteTypes keeps what the comments of types say.
func (t *traced) noteTypes(dir string, g *ast.GenDecl) {
	for _, s := range g.Specs {
		if s, ok := s.(*ast.TypeSpec); ok {
			doc := s.Doc
			if doc == nil {
				doc = g.Doc
			}
			t.types[dir+"."+s.Name.Name] = sentence(doc)
		}
	}
}

// nameOf returns the name of a function, after that of its type.
func nameOf(f *ast.FuncDecl) string {
	if f.Recv == nil {
		return f.Name.Name
	}
	of := f.Recv.List[0].Type
	for {
		switch x := of.(type) {
		case *ast.StarExpr:
			of = x.X
		case *ast.IndexExpr:
			of = x.X
		case *ast.IndexListExpr:
			of = x.X
		case *ast.Ident:
			return x.Name + "." + f.Name.Name
		default:
			return f.Name.Name
		}
	}
}

// sentence returns the first sentence of a comment.
func sentence(of *ast.CommentGroup) string {
	text := strings.Join(strings.Fields(of.Text()), " ")
	if end := strings.Index(text, ". "); end >= 0 {
		text = text[:end+1]
	}
	return text
}

// calls returns the calls of a request, each function once: first those of the goroutine of the
// request, then those of others.
func (t *traced) calls(run command, args ...string) (calls []function, all int, err error) {
	program := run(t.program, args...)
	program.Stderr = os.Stderr
	out, err := program.Output()
	if err != nil {
		return nil, 0, fmt.Errorf("request: %w", err)
	}
	var goroutines []int
	of := make(map[int][]int)
	for line := range strings.Lines(string(out)) {
		var goroutine, function int
		if _, err := fmt.Sscan(line, &goroutine, &function); err != nil {
			return nil, 0, err
		}
		if of[goroutine] == nil {
			goroutines = append(goroutines, goroutine)
		}
		of[goroutine] = append(of[goroutine], function)
		all++
	}
	seen := make(map[int]bool)
	for _, g := range goroutines {
		for _, f := range of[g] {
			if !seen[f] {
				seen[f] = true
				calls = append(calls, t.function(f))
			}
		}
	}
	return calls, all, nil
}

// function returns a function. If it has no comment, that of its type says what it is for.
func (t *traced) function(n int) function {
	f := t.functions[n]
	if of, _, ok := strings.Cut(f.name, "."); ok && f.says == "" {
		f.says = t.types[filepath.Dir(f.file)+"."+of]
	}
	return f
}

// stop is a group of functions of one file that follow each other.
type stop struct {
	file      string
	functions []string
	says      string
}

// stops groups calls.
func stops(calls []function) (all []stop) {
	for _, c := range calls {
		if n := len(all); n == 0 || all[n-1].file != c.file {
			all = append(all, stop{file: c.file})
		}
		last := &all[len(all)-1]
		if last.says == "" {
			last.says = c.says
		}
		if !slices.Contains(last.functions, c.name) {
			last.functions = append(last.functions, c.name)
		}
	}
	return all
}
