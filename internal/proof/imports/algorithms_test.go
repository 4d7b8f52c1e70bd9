package imports

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/weir-go/weir/internal/ground/algorithm"
)

// mayName has the files of the library and the command that name an algorithm, and why. A folder
// ends with "/". Elsewhere a file asks a row of the table for a trait, so that a new algorithm is not
// forgotten there.
var mayName = map[string]string{
	"internal/ground/algorithm/algorithm.go": "the rows",
	"limits/algorithm.go":                    "the constants and constructors",
	"internal/ground/family/family.go":       "the constructors of families, which rows cannot import",
	"limits/limitstest/":                     "the models of the suite, which say what each algorithm is",

	"cmd/weir/playground/page/guide.js":  "a dialogue that leads a person to an algorithm",
	"cmd/weir/playground/lab/choose.go":  "a rate with a burst, which token buckets have",
	"cmd/weir/playground/lab/traffic.go": "a rate, which fixed windows have",
}

// outside are folders that are neither the library nor the command.
var outside = []string{".ci", ".git", "benchmarks", "conform/products", "docs", "examples", "findings", "internal/proof",
	"testdata"}

func TestAWordOfAnAlgorithmStandsNowhereElse(t *testing.T) {
	const root = "../../.."
	found := map[string][]string{} // places by file
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := strings.TrimPrefix(filepath.ToSlash(path), root+"/")
		if d.IsDir() {
			if slices.Contains(outside, name) || slices.Contains(outside, d.Name()) {
				return filepath.SkipDir
			}
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if words := wordsOfAlgorithms(name, text); words != nil {
			found[name] = words
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	used := map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(found)) {
		allowed := name
		if mayName[name] == "" {
			allowed = filepath.ToSlash(filepath.Dir(name)) + "/"
		}
		if used[allowed] = true; mayName[allowed] == "" {
			t.Errorf("%s names algorithms: ask algorithm.Of for a trait, or a family\n\t%s", name,
				strings.Join(found[name], "\n\t"))
		}
	}
	for name := range mayName {
		if !used[name] {
			t.Errorf("%s names no algorithm: remove it from mayName", name)
		}
	}
}

// A name is found in each language, and not where it is another word.
func TestAWordOfAnAlgorithmIsFound(t *testing.T) {
	for _, tt := range []struct {
		file, text string
		want       int
	}{
		{"a.go", "package a\nvar x = limits.AlgorithmBan", 1},
		{"a.go", "package a\nvar x = AlgorithmTokenBucket", 1},
		{"a.go", "package a\nvar x = `token-bucket ` + rate", 1},
		{"a.go", "package a\nvar x = \"calendar\"", 1},
		{"a.go", "package a\nvar x = \"ban 5/10m for 1h\"", 1},
		{"a.go", "package a\nvar x = \"ban that ends\" // token-bucket", 0},
		{"a.go", "package a\nvar x = \"bans\" + limits.Ban(rate, hour)", 0},
		{"a_test.go", "package a\nvar x = limits.AlgorithmBan", 0},
		{"a.js", "if (rule.algorithm === 'ban') draw(\"leaky-queue\");", 2},
		{"a.js", "// token-bucket, 'bans' and `a ban`", 0},
		{"a.lua", "if limit.letter == 'q' or 'c' ~= letter then", 2},
		{"a.lua", "if match(text, '^1([^cg]) ') then", 1},
		{"a.lua", "if 'g' == letter or sub(text, 2, 2) == 'g' then", 2},
		{"a.lua", "match(text, '^1c %d+')", 1},
		{"a.lua", "match(text, '^2([^;]*);(%d+) ?([%d -]*)$') -- letter == 'c'", 0},
		{"a.lua", "if kind == 'r' and letter == other.letter then", 0},
		{"a.lua", "if limit.queues then text = 'q' end", 0},
		{"ban.lua", "if limit.letter == 'b' then", 0},
	} {
		if got := wordsOfAlgorithms(tt.file, []byte(tt.text)); len(got) != tt.want {
			t.Errorf("%s: %q: found %q, want %d", tt.file, tt.text, got, tt.want)
		}
	}
}

// wordsOfAlgorithms returns where a file names an algorithm: by its constant, by its name at the
// beginning of a text, or in Lua by its letter.
func wordsOfAlgorithms(file string, text []byte) []string {
	switch filepath.Ext(file) {
	case ".go":
		if !strings.HasSuffix(file, "_test.go") {
			return inGo(text)
		}
	case ".js":
		return inLines(text, quoted)
	case ".lua":
		if !isOfFamily(file) {
			return inLua(string(text))
		}
	}
	return nil
}

func inGo(text []byte) (words []string) {
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, "", text, parser.SkipObjectResolution)
	if err != nil {
		return []string{err.Error()}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		word := ""
		switch n := n.(type) {
		case *ast.Ident:
			if constants[n.Name] {
				word = n.Name
			}
		case *ast.BasicLit:
			if s, err := strconv.Unquote(n.Value); err == nil && beginning.MatchString(s) {
				word = n.Value
			}
		}
		if word != "" {
			words = append(words, fmt.Sprintf("line %d: %s", files.Position(n.Pos()).Line, word))
		}
		return true
	})
	return words
}

func inLines(text []byte, word *regexp.Regexp) (words []string) {
	for i, line := range strings.Split(string(text), "\n") {
		for _, found := range word.FindAllString(line, -1) {
			words = append(words, fmt.Sprintf("line %d: %s", i+1, found))
		}
	}
	return words
}

// inLua returns where a script asks for an algorithm by its letter: it compares a letter or the
// result of a call with a text of one letter, or a pattern has one.
func inLua(source string) (words []string) {
	found := luaToken.FindAllStringIndex(source, -1)
	token := func(i int) string {
		if i < 0 || i >= len(found) {
			return ""
		}
		return source[found[i][0]:found[i][1]]
	}
	for i := range found {
		word, before, after := token(i), token(i-1), token(i+1)
		switch {
		case word == "==" || word == "~=":
			if !mayBeLetter.MatchString(before) || !letter.MatchString(after) {
				before, after = after, before
			}
			if !mayBeLetter.MatchString(before) || !letter.MatchString(after) {
				continue
			}
			word = token(i-1) + " " + word + " " + token(i+1)
		case !pattern.MatchString(luaEscape.ReplaceAllString(word, "")):
			continue
		}
		line := 1 + strings.Count(source[:found[i][0]], "\n")
		words = append(words, fmt.Sprintf("line %d: %s", line, word))
	}
	return words
}

// isOfFamily reports whether a script is that of a family, or a part of it such as bucket_ring.lua.
func isOfFamily(script string) bool {
	name := strings.TrimSuffix(filepath.Base(script), ".lua")
	return slices.ContainsFunc(algorithm.All(), func(a algorithm.Algorithm) bool {
		return name == a.Redis.File || strings.HasPrefix(name, a.Redis.File+"_")
	})
}

var (
	constants = map[string]bool{} // AlgorithmBan

	beginning = regexp.MustCompile(`^(` + names() + `)( \d| ?$)`)    // of a text: "ban 5/10m"
	quoted    = regexp.MustCompile("['\"`](" + names() + ")['\"` ]") // 'ban'

	luaToken    = regexp.MustCompile(`--[^\n]*|'[^'\n]*'|[\w.]+|[=~]=|\S`)
	luaEscape   = regexp.MustCompile(`%.`)
	mayBeLetter = regexp.MustCompile(`^(.*\.)?letter$|^\)$|^sub$`)
	letter      = regexp.MustCompile(`^'[a-z]'$`)
	pattern     = regexp.MustCompile(`^'(\^?[12][a-z]|.*\[\^?[^\]]*[a-z])`)
)

func init() {
	for _, a := range algorithm.All() {
		name := "Algorithm"
		for word := range strings.SplitSeq(a.Name, "-") {
			name += strings.ToUpper(word[:1]) + word[1:]
		}
		constants[name] = true
	}
}

func names() string {
	var all []string
	for _, a := range algorithm.All() {
		all = append(all, regexp.QuoteMeta(a.Name))
	}
	return strings.Join(all, "|")
}
