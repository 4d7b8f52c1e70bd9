package main

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/weir-go/weir/cmd/weir/internal/visible"
	"github.com/weir-go/weir/gateway/descriptors"
	"github.com/weir-go/weir/policy"
)

// commandsOf returns the commands of root that are ours.
func commandsOf(root *cobra.Command) (ours []*cobra.Command) {
	for _, c := range root.Commands() {
		if c.Name() != "completion" && c.Name() != "help" {
			ours = append(ours, c)
		}
	}
	return ours
}

func TestEveryCommandHasAManual(t *testing.T) {
	root := newRoot()
	names := commandsOf(root)
	if !slices.IsSortedFunc(names, func(a, b *cobra.Command) int { return strings.Compare(a.Name(), b.Name()) }) ||
		len(names) < 4 {
		t.Errorf("commands: %d, or not in order", len(names))
	}
	for _, c := range names {
		var out, errOut bytes.Buffer
		if code := run([]string{c.Name(), "--help"}, nil, &out, &errOut); code != 0 || errOut.Len() > 0 {
			t.Errorf("%s --help: exit code %d, %s", c.Name(), code, &errOut)
		}
		for _, section := range []string{
			"Usage:\n", "Flags:\n", "Examples:\n", "Exit status:\n  0  ", "\n  2  ", "print this manual",
		} {
			if !strings.Contains(out.String(), section) {
				t.Errorf("the manual of %s does not have %q", c.Name(), section)
			}
		}
		for line := range strings.Lines(out.String()) {
			if n := utf8.RuneCountInString(strings.TrimRight(line, "\n")); n > 92 {
				t.Errorf("the manual of %s has a line of %d characters:\n%s", c.Name(), n, line)
			}
		}
		if c.ValidArgsFunction == nil {
			t.Errorf("%s does not say how its arguments are completed", c.Name())
		}
	}
}

// The flags and the number of arguments of examples are those that commands take.
func TestExamplesOfManualsParse(t *testing.T) {
	for _, c := range commandsOf(newRoot()) {
		examples := strings.ReplaceAll(c.Example, "\\\n", " ")
		for line := range strings.Lines(examples) {
			_, command, ok := strings.Cut(line, "weir "+c.Name())
			if !ok {
				t.Errorf("the manual of %s has an example without it: %s", c.Name(), line)
				continue
			}
			command = withoutRedirection(command)
			root := newRoot() // flags keep their values
			found, rest, err := root.Find(append([]string{c.Name()}, split(t, strings.TrimSpace(command))...))
			if err == nil {
				err = found.ParseFlags(rest)
			}
			if err == nil {
				err = found.ValidateArgs(found.Flags().Args())
			}
			if err != nil {
				t.Errorf("%s: %v", strings.TrimSpace(line), err)
			}
		}
	}
}

// withoutRedirection returns a command up to a < or > that is not in quotes.
func withoutRedirection(command string) string {
	quoted := false
	for i, c := range command {
		switch {
		case c == '\'':
			quoted = !quoted
		case !quoted && (c == '<' || c == '>'):
			return command[:i]
		}
	}
	return command
}

func TestSchemaIsThatOfTheFiles(t *testing.T) {
	for args, want := range map[string][]byte{
		"schema": policy.Schema(), "schema policy": policy.Schema(), "schema limits": descriptors.Schema(),
	} {
		var out, errOut bytes.Buffer
		if code := run(strings.Fields(args), nil, &out, &errOut); code != 0 || !bytes.Equal(out.Bytes(), want) ||
			errOut.Len() > 0 {
			t.Errorf("%s: exit code %d, %d bytes, %s", args, code, out.Len(), &errOut)
		}
		if !strings.HasSuffix(out.String(), "}\n") {
			t.Errorf("%s does not end a line", args)
		}
	}
}

// A broken pipe is no success.
func TestWhatCannotBePrintedIsAnError(t *testing.T) {
	for _, args := range [][]string{
		{"schema"},
		{"check", "testdata/doubtful.yaml"},
		{"check", "--json", "testdata/doubtful.yaml"},
		{"explain", "--policy", "testdata/doubtful.yaml", "/"},
		{"simulate", "--limit", "5/minute", "../../examples/policy/access.log"},
		{"simulate", "--limit", "5/minute", "--json", "../../examples/policy/access.log"},
	} {
		var errOut bytes.Buffer
		if code := run(args, nil, full{}, &errOut); code != exitUnusable ||
			!strings.Contains(errOut.String(), "disk is full") {
			t.Errorf("%v: exit code %d, %s", args, code, &errOut)
		}
	}
}

// full is a disk without room.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, errFull }

var errFull = &refusal{0, "the disk is full"}

func TestControlCharactersDoNotReachATerminal(t *testing.T) {
	if got := visible.Text("a\x1b[31mb\u202ec\nd"); got != "a\uFFFD[31mb\uFFFDc\nd" {
		t.Errorf("got %q", got)
	}
	if got := table([][]string{{"a", "b\nc"}, {"äöü", "d\te"}}); got != "a    b c\näöü  d\uFFFDe\n" {
		t.Errorf("got %q", got)
	}
}

func FuzzReadCases(f *testing.F) {
	t, err := newTrial("weir.yaml",
		[]byte("version: 1\nprogram: {keys: [user], costs: [size]}\n"+
			"rules: [{name: a, key: [user, header X], limit: 1/s, cost: size}]\n"))
	if err != nil {
		f.Fatal(err)
	}
	f.Add("cases:\n  - {request: GET /, headers: {X: y}, program: {user: ann, size: 2}, rules: {a: {key: [ann, y], " +
		"limit: 1/s, cost: 2, mode: enforce}}}\n")
	f.Add("cases: [{request: /, rules: {a: }, host: h, route: /r, address: 2001:db8::1, name: n}]")
	f.Add("cases: &a [*a]\n<<: 7")
	f.Fuzz(func(test *testing.T, text string) {
		cases, findings := readCases("cases.yaml", []byte(text), t)
		if len(findings) == 0 && len(cases) == 0 {
			test.Error("neither cases nor mistakes")
		}
		if len(findings) > 0 {
			return
		}
		for _, c := range cases {
			runCase("cases.yaml", t, c)
		}
	})
}
