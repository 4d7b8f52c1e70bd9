package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/weir-go/weir/conform"
)

func allProducts(t *testing.T) []*product {
	t.Helper()
	all, err := products(".")
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestEachFolderSaysHowItIsMeasured(t *testing.T) {
	all := allProducts(t)
	if len(all) < 20 {
		t.Errorf("there are %d products", len(all))
	}
	seen := make(map[string]bool)
	for _, p := range all {
		if seen[p.Name] {
			t.Errorf("two folders have %s", p.Name)
		}
		seen[p.Name] = true
		if p.profile.Start == "" || !strings.Contains(p.profile.URL, "$PORT") {
			t.Errorf("%s: a product needs start, and $PORT in url", p.Folder)
		}
		if len(p.programs()) == 0 {
			t.Errorf("%s: no file of it says which programs it needs: add one to tools", p.Folder)
		}
	}
}

// A name has the versions that are measured.
func TestNamesHaveTheVersionsThatAreInstalled(t *testing.T) {
	ofDebian := []string{"nginx", "haproxy"}
	version := regexp.MustCompile(`\d+\.\d+(\.\d+)?`)
	install, err := os.ReadFile("../../.ci/install")
	if err != nil {
		t.Fatal(err)
	}
	modules, err := os.ReadFile("go.mod")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range allProducts(t) {
		pins := string(install) + string(modules)
		for _, pattern := range []string{"*.mod", "package.json", "requirements.txt", "pom.xml", "Cargo.toml"} {
			files, _ := filepath.Glob(filepath.Join(p.Folder, pattern))
			for _, file := range files {
				text, err := os.ReadFile(file)
				if err != nil {
					t.Fatal(err)
				}
				pins += string(text)
			}
		}
		named := version.FindAllString(p.Name, -1)
		if len(named) == 0 && !strings.HasPrefix(p.Folder, "weir-") {
			t.Errorf("%s: %q has no version", p.Folder, p.Name)
		}
		for _, v := range named {
			pinned := regexp.MustCompile(`[ v="=>]` + regexp.QuoteMeta(v) + `([\s"<'+-]|$)`)
			if !pinned.MatchString(pins) && !strings.Contains(strings.Join(ofDebian, " "), p.Folder) {
				t.Errorf("%s: no file pins %s", p.Name, v)
			}
		}
	}
}

func TestTheGuideHasTheResults(t *testing.T) {
	m, err := readMeasurement(resultsFile)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile("../../docs/conformance.md")
	if err != nil {
		t.Fatal(err)
	}
	want, err := between(string(text), tables(m))
	if err != nil {
		t.Fatal(err)
	}
	if string(text) != want {
		t.Error("docs/conformance.md is not what go run -C conform/products . -table writes")
	}
}

func TestARunFailsIfWeirOrTooMuchDoes(t *testing.T) {
	failing := []result{{Check: "burst", Verdict: conform.Fails, Found: "11 of 64"}}
	good := []result{{Check: "burst", Verdict: conform.Holds}}
	for _, c := range []struct {
		name     string
		products []*product
		all      bool
		want     string
	}{
		{"weir does not keep it", []*product{{Folder: "weir-gin", Name: "weir, gin", Results: failing}}, false, "11 of 64"},
		{"another does not", []*product{{Folder: "a", Results: failing}}, false, ""},
		{"weir was not measured", []*product{{Folder: "weir-gin", Missing: "no Go"}}, false, "weir-gin was not measured"},
		{"too few", []*product{{Folder: "a", Results: good}}, true, "1 programs were measured"},
		{"all is well", []*product{{Folder: "weir-gin", Results: good}}, false, ""},
	} {
		err := verdict(&measurement{c.products}, c.all)
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%s: got %v", c.name, err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s: got %v, want %q", c.name, err, c.want)
		}
	}
}

func TestAProductThatWasNotMeasuredIsNamed(t *testing.T) {
	got := tables(&measurement{[]*product{
		{Folder: "a", Name: "a 1.0", Missing: "the machine lacks cargo"},
		{Folder: "b", Name: "b 2.0", Results: []result{{"burst", conform.Fails, "13 | 64"}}},
	}})
	for _, want := range []string{"\nNot measured: a 1.0: the machine lacks cargo.\n", "| b 2.0 | burst | 13 \\| 64 |\n"} {
		if !strings.Contains(got, want) {
			t.Errorf("no line %q in:\n%s", want, got)
		}
	}
}
