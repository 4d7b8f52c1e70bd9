package nginxconf_test

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strings"
	"testing"

	"github.com/weir-go/weir/cmd/weir/internal/nginxconf"
)

// show returns directives as text, each word in brackets.
func show(directives []*nginxconf.Directive) string {
	var b strings.Builder
	for _, d := range directives {
		fmt.Fprintf(&b, "[%s]", d.Text)
		for _, arg := range d.Args {
			fmt.Fprintf(&b, "[%s]", arg.Text)
		}
		if d.Opens {
			fmt.Fprintf(&b, "{%s}", show(d.Block))
		}
		b.WriteByte(';')
	}
	return b.String()
}

// open returns the files of a map for include.
func open(texts map[string]string) nginxconf.Files {
	return nginxconf.Files{
		Dir: "conf",
		Open: func(name string) (io.ReadCloser, error) {
			text, ok := texts[name]
			if !ok {
				return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
			}
			return io.NopCloser(strings.NewReader(text)), nil
		},
		Glob: func(pattern string) (names []string, err error) {
			for name := range texts {
				ok, matchErr := path.Match(pattern, name)
				if ok {
					names = append(names, name)
				}
				err = errors.Join(err, matchErr)
			}
			return names, err
		},
	}
}

func TestWordsAreThoseOfNginx(t *testing.T) {
	for of, want := range map[string]string{
		"a b  c;":                      "[a][b][c];",
		"a;b;":                         "[a];[b];",
		"a{b;}c;":                      "[a]{[b];};[c];",
		"a { } # ; }\nb;":              "[a]{};[b];",
		"a b#c;":                       "[a][b#c];",
		`a "b ; { } # c" 'd "e"';`:     `[a][b ; { } # c][d "e"];`,
		`a "b \"c\" \\ \d \t";`:        "[a][b \"c\" \\ \\d \t];",
		`a b\ c\;d;`:                   `[a][b\ c\;d];`,
		"a ${b}c $d;":                  "[a][${b}c][$d];",
		"a b}c;":                       "[a][b}c];",
		`a "";`:                        "[a][];",
		"if ($a = b) { c; }":           "[if][($a][=][b)]{[c];};",
		"location ~ ^/a{2}$ ;":         "[location][~][^/a]{};",
		"a_by_lua_block { x = {} } b;": "[a_by_lua_block]{};[b];",
		"a_by_lua_block {\n-- }\n--[[ } ]] s = '}' .. \"\\\"}\" .. [==[ }]] ]==]\n}b;": "[a_by_lua_block]{};[b];",
		"\ufeffa;":   "[a];",
		"a \"ä\" ü;": "[a][ä][ü];",
	} {
		got, mistakes := nginxconf.Files{}.Parse("nginx.conf", []byte(of))
		if strings.Contains(of, "{2}") {
			if len(mistakes) == 0 {
				t.Errorf("%q: no mistake, and %s", of, show(got))
			}
			continue
		}
		if show(got) != want || mistakes != nil {
			t.Errorf("%q: %s, want %s, %v", of, show(got), want, mistakes)
		}
	}
}

func TestMistakesHaveTheirPlaces(t *testing.T) {
	for of, want := range map[string]string{
		"a":                        "1:1 the directive \"a\" does not end",
		"a {\n b }":                "2:2 the directive \"b\" does not end",
		"a {\n b;":                 "1:1 the block of \"a\" does not end",
		"a;\n }":                   "2:2 a brace closes no block",
		"ä \"ö\"x;":                "1:6 a blank, ; or { must follow a quote",
		"a;\n b 'c":                "2:4 the quote does not end",
		";":                        "1:1 a semicolon without a directive",
		"{ }":                      "1:1 a brace without a directive",
		"include;":                 "1:1 include has one argument",
		"a_by_lua_block { x = '} ": "1:16 the block of Lua does not end",
		"include nowhere;":         "1:9 conf/nowhere cannot be read, so what it limits is not known: file does not exist",
		"include [;":               "1:9 is no pattern of files",
		"include itself;":          "files include each other more than",
		strings.Repeat("a{", 99):   "blocks are more than 64 deep",
		strings.Repeat("#", 5<<20): "1:1 the file has more than 4194304 bytes",
	} {
		_, mistakes := open(map[string]string{"conf/itself": "a;\ninclude itself;"}).Parse("nginx.conf", []byte(of))
		got := ""
		for _, m := range mistakes {
			got += fmt.Sprintf("%d:%d %s\n", m.Line, m.Column, m.Text)
		}
		if !strings.Contains(got, want) {
			t.Errorf("%.40q: %q, want %q", of, got, want)
		}
	}
}

func TestIncludedFilesStandInPlaceOfInclude(t *testing.T) {
	files := open(map[string]string{
		"conf/b.conf": "b { include more/*.conf; }", "conf/more/2.conf": "\n d;", "conf/more/1.conf": "c;",
		"/etc/e.conf": "e;",
	})
	got, mistakes := files.Parse("conf/nginx.conf", []byte("a; include b.conf; include none/*; include /etc/e.conf;"))
	if want := "[a];[b]{[c];[d];};[e];"; show(got) != want || mistakes != nil {
		t.Fatalf("%s, want %s, %v", show(got), want, mistakes)
	}
	if d := got[1].Block[1]; d.File != "conf/more/2.conf" || d.Line != 2 || d.Column != 2 {
		t.Errorf("got %+v", d.Place)
	}
}

func TestWhatNginxPrintsHasItsFiles(t *testing.T) {
	const text = "nginx: the configuration file /etc/nginx/nginx.conf syntax is ok\n" +
		"# configuration file /etc/nginx/nginx.conf:\na; include conf.d/*.conf; include mime.types;\n" +
		"# configuration file /etc/nginx/conf.d/b.conf:\nb;\n\n" +
		"# configuration file /etc/nginx/mime.types:\nc;\n# a comment\n"
	got, mistakes := nginxconf.Files{}.Parse("standard input", []byte(text))
	if want := "[a];[b];[c];"; show(got) != want || mistakes != nil {
		t.Fatalf("%s, want %s, %v", show(got), want, mistakes)
	}
	if d := got[1]; d.File != "/etc/nginx/conf.d/b.conf" || d.Line != 1 {
		t.Errorf("got %+v", d.Place)
	}
}

func FuzzParse(f *testing.F) {
	f.Add("a \"b\\\"\" { c 'd'; # e\n }")
	f.Add("a_by_lua_block { --[[ }]] } include itself;")
	f.Add("# configuration file x:\ninclude x;")
	f.Add("a ${b} \\")
	files := open(map[string]string{"conf/itself": "a; include itself;"})
	f.Fuzz(func(t *testing.T, text string) {
		directives, mistakes := files.Parse("nginx.conf", []byte(text))
		for _, m := range mistakes {
			if m.Line < 1 || m.Column < 1 {
				t.Errorf("a mistake without a place: %+v", m)
			}
		}
		var check func([]*nginxconf.Directive)
		check = func(all []*nginxconf.Directive) {
			for _, d := range all {
				if d.File == "nginx.conf" && d.Line > strings.Count(text, "\n")+1 {
					t.Errorf("%+v is behind the end of the file", d.Place)
				}
				check(d.Block)
			}
		}
		check(directives)
	})
}
