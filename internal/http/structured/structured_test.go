package structured

import (
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/dunglas/httpsfv"
)

// readOrNot has fields of each kind that the public suite has, and what is read of those that are
// well-formed. A field of several lines has "\n" between them.
var readOrNot = map[string][]struct {
	field, read string // read is malformed if the field is
}{
	"list": {
		// members
		{"", ""},
		{"   ", ""},
		{"7", "7[]"},
		{"  7, 8", "7[], 8[]"},
		{"7,8", "7[], 8[]"},
		{"7 \t,\t 8 \t", "7[], 8[]"},
		{"7\n8", "7[], 8[]"},
		{"7\n\n8", malformed},
		{"\n7", malformed},
		{"\t7", malformed},
		{",7", malformed},
		{"7,", malformed},
		{"7, ", malformed},
		{"7,,8", malformed},
		{"7 8", malformed},
		{"7;", malformed},
		{"a=1", malformed},
		{"7, A=1", malformed},
		// inner lists
		{"()", "()[]"},
		{"(  )", "()[]"},
		{"(7)", "(7[])[]"},
		{"(  7  8 )", "(7[] 8[])[]"},
		{"(7),(), (8 9)", "(7[])[], ()[], (8[] 9[])[]"},
		{`(7;a;b="x" 8);c, "d"`, `(7[a=true, b="x"] 8[])[c=true], "d"[]`},
		{"(", malformed},
		{"(7", malformed},
		{"(7 8, (9)", malformed},
		{"(7\t8)", malformed},
		{"(7,8)", malformed},
		{`(a"b")`, malformed},
		{"((7))", malformed},
		{"(a=1)", malformed},
		{"(;a)", malformed},
		{"(7 ;a)", malformed},
		{"(7)8", malformed},
		// parameters
		{`"a";r=50;t=30`, `"a"[r=50, t=30]`},
		{`"a"; r=50;   t=30`, `"a"[r=50, t=30]`},
		{`"a";r;t=?0;u=?1`, `"a"[r=true, t=false, u=true]`},
		{`"a";r=1;t=2;r=3`, `"a"[r=3, t=2]`},
		{`"a";r=1;r`, `"a"[r=true]`},
		{`"a";*r_-.9=x`, `"a"[*r_-.9=token x]`},
		{`"a" ;r=1`, malformed},
		{`"a";	r=1`, malformed},
		{`"a";r =1`, malformed},
		{`"a";r= 1`, malformed},
		{`"a";r=`, malformed},
		{`"a";=1`, malformed},
		{`"a";;r=1`, malformed},
		{`"a";R=1`, malformed},
		{`"a";1r=1`, malformed},
		{`"a";-r=1`, malformed},
		{`"a";rR=1`, malformed},
		{`"a";r=(1)`, malformed},
		{`"a";r="1`, malformed},
		{`"a";r=1"`, malformed},
	},
	"dictionary": {
		{"", ""},
		{"a=1", "a=1[]"},
		{"  a=1 , b=2", "a=1[], b=2[]"},
		{"a=1\nb=2", "a=1[], b=2[]"},
		{"a, b;c=1, d=?0", "a=true[], b=true[c=1], d=false[]"},
		{"a=1, b=2, a=3;x", "a=3[x=true], b=2[]"},
		{"a=(1 2);x, b=()", "a=(1[] 2[])[x=true], b=()[]"},
		{"*a_-.9=1", "*a_-.9=1[]"},
		{"a=1,", malformed},
		{"a=1,,b=2", malformed},
		{"a=1 b=2", malformed},
		{"a =1", malformed},
		{"a= 1", malformed},
		{"a=", malformed},
		{"a=,b=1", malformed},
		{"=1", malformed},
		{"A=1", malformed},
		{"1=1", malformed},
		{`"a"=1`, malformed},
		{"a=1;B", malformed},
	},
	"item": {
		{"", malformed},
		{"  1  ", "1[]"},
		{"1\t", malformed},
		{"\t1", malformed},
		{"1, 2", malformed},
		{"1;a=2", "1[a=2]"},
		{"(1)", malformed},
		// numbers
		{"0", "0[]"},
		{"-0", "0[]"},
		{"042", "42[]"},
		{"-7", "-7[]"},
		{"999999999999999", "999999999999999[]"},
		{"-999999999999999", "-999999999999999[]"},
		{"0999999999999999", malformed},
		{"1000000000000000", malformed},
		{"--7", malformed},
		{"+7", malformed},
		{"- 7", malformed},
		{"-", malformed},
		{"7a", malformed},
		{"1.5", "1.500[]"},
		{"-1.5", "-1.500[]"},
		{"-0.0", "0.000[]"},
		{"1.125", "1.125[]"},
		{"123456789012.123", "123456789012.123[]"},
		{"1234567890123.1", malformed},
		{"1.1234", malformed},
		{"1.", malformed},
		{".5", malformed},
		{"-.5", malformed},
		{"1.5.4", malformed},
		{"1e3", malformed},
		// texts
		{`""`, `""[]`},
		{`"a b"`, `"a b"[]`},
		{`"b \"q\" \\ c"`, `"b \"q\" \\ c"[]`},
		{`"a`, malformed},
		{`"a\`, malformed},
		{`"a\b"`, malformed},
		{`"a\"`, malformed},
		{"\"a\tb\"", malformed},
		{"\"a\x7fb\"", malformed},
		{`"é"`, malformed},
		{`'a'`, malformed},
		{"\"a\nb\"", `"a, b"[]`},
		{"a", "token a[]"},
		{"*", "token *[]"},
		{"A*:/b", "token A*:/b[]"},
		{"a!#$%&'*+-.^_`|~:/9Z", "token a!#$%&'*+-.^_`|~:/9Z[]"},
		{"a b", malformed},
		{"a(b)", malformed},
		{"!a", malformed},
		{"_a", malformed},
		{"é", malformed},
		// bytes
		{"::", "bytes []"},
		{":aGVsbG8=:", "bytes 68656c6c6f[]"},
		{":aGVsbG8:", "bytes 68656c6c6f[]"},
		{":iZ==:", "bytes 89[]"},
		{":/+Ah:", "bytes ffe021[]"},
		{":", malformed},
		{":aGVsbG8=", malformed},
		{":aGVs bG8=:", malformed},
		{":aGVsbG8.:", malformed},
		{":_-Ah:", malformed},
		{":=aGVsbG8:", malformed},
		{":a=GVsbG8=:", malformed},
		{":aGVsb:", malformed},
		{":aGVsbG8==:", malformed},
		{":====:", malformed},
		// booleans
		{"?0", "false[]"},
		{"?1", "true[]"},
		{"?", malformed},
		{"??1", malformed},
		{"?2", malformed},
		{"?-1", malformed},
		{"?T", malformed},
		{"?true", malformed},
		{"?10", malformed},
		// dates
		{"@0", "date 0[]"},
		{"@1795345200", "date 1795345200[]"},
		{"@-1795345200", "date -1795345200[]"},
		{"@1000000000000000", malformed},
		{"@1.5", malformed},
		{"@", malformed},
		{"@-", malformed},
		{"@ 1", malformed},
		{"@a", malformed},
		// texts for people
		{`%""`, `display ""[]`},
		{`%"a \ 'b'"`, `display "a \\ 'b'"[]`},
		{`%"f%c3%bc%22%25"`, `display "fü\"%"[]`},
		{`%"f%C3%BC"`, malformed},
		{`%"fü"`, malformed},
		{`%"%c3("`, malformed},
		{`%"%a0%a1"`, malformed},
		{`%"%e2%28%a1"`, malformed},
		{`%"%f0%28%8c%28"`, malformed},
		{`%"%g0"`, malformed},
		{`%"%"`, malformed},
		{`%"%a"`, malformed},
		{`%"a`, malformed},
		{`%'a'`, malformed},
		{"%a", malformed},
		{"%", malformed},
		{"%\"\t\"", malformed},
	},
}

const malformed = "malformed"

func TestAFieldIsReadOrMalformed(t *testing.T) {
	for grammar, fields := range readOrNot {
		for _, f := range fields {
			got, ok := tree(grammar, strings.Split(f.field, "\n"))
			if !ok {
				got = malformed
			}
			if got != f.read {
				t.Errorf("the %s %q is read as %s, want %s", grammar, f.field, got, f.read)
			}
		}
	}
}

// Each byte stands where the suite has it: first and second in a key, a Token and a String. What
// separates members, parameters or items ends the text before it.
func TestOnlyTheCharactersOfTheGrammarAreRead(t *testing.T) {
	const (
		lower, upper = "abcdefghijklmnopqrstuvwxyz", "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
		digits       = "0123456789"
	)
	for _, place := range []struct {
		grammar, before, after, allowed, separates string
	}{
		{"dictionary", "", "=1", lower + "*", ""},
		{"dictionary", "a", "a=1", lower + digits + "*_-.", ",;"},
		{"list", "x;", "=1", lower + "*", ""},
		{"list", "x;a", "a=1", lower + digits + "*_-.", ";"},
		{"item", "", "a", lower + upper + "*", " "},
		{"item", "a", "a", lower + upper + digits + "!#$%&'*+-.^_`|~:/", ";"},
		{"item", `"`, `"`, lower + upper + digits + " !#$%&'()*+,-./:;<=>?@[]^_`{|}~", ""},
	} {
		for b := range 256 {
			c := string([]byte{byte(b)})
			field := place.before + c + place.after
			want := strings.Contains(place.allowed+place.separates, c)
			if _, ok := tree(place.grammar, []string{field}); ok != want {
				t.Errorf("the %s %q is read: %v", place.grammar, field, ok)
			}
		}
	}
}

// What a program does not ask for is read all the same.
func TestWhatIsNotAskedForMayBeMalformed(t *testing.T) {
	for field, want := range map[string]int{
		`a;r=1, (b;c d);t=2, e`: 3,
		`a;r=1, b;R`:            1, // counted before the field turns out to be malformed
		`a, (b;C)`:              1,
		`a, (b c`:               1,
		`a, (b);c=`:             1,
	} {
		s, members := List([]string{field}), 0
		for s.Member() {
			members++
		}
		if s.Malformed() != (want == 1) || !s.Malformed() && members != want {
			t.Errorf("%q has %d members, malformed: %v", field, members, s.Malformed())
		}
		if s.Member() || s.Item() || s.Parameter() {
			t.Errorf("%q goes on after its end", field)
		}
	}
}

func TestReadingOneLineAllocatesNothing(t *testing.T) {
	lines := []string{`"a";r=50;t=30;pk=:YWJj:, ("b" c);d=?1, 1.5;e=@7`}
	if n := testing.AllocsPerRun(100, func() {
		for s := List(lines); s.Member(); {
			for s.Item() {
			}
			for s.Parameter() {
			}
		}
	}); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

func FuzzFieldsAreReadAsHTTPSFVReadsThem(f *testing.F) {
	for grammar, fields := range readOrNot {
		for _, field := range fields {
			f.Add(grammar, field.field)
		}
	}
	f.Fuzz(func(t *testing.T, grammar, field string) {
		lines := []string{field}
		var want any
		var err error
		switch grammar {
		case "list":
			want, err = httpsfv.UnmarshalList(lines)
		case "dictionary":
			want, err = httpsfv.UnmarshalDictionary(lines)
		case "item":
			want, err = httpsfv.UnmarshalItem(lines)
		default:
			return
		}
		got, ok := tree(grammar, lines)
		if _, isBase64 := errors.AsType[base64.CorruptInputError](err); isBase64 && ok {
			return // httpsfv wants padding
		}
		if ok != (err == nil) {
			t.Fatalf("the %s %q is read as %s, %v; httpsfv: %v", grammar, field, got, ok, err)
		}
		if ok && got != oracleText(want) {
			t.Errorf("the %s %q is read as %s, want %s", grammar, field, got, oracleText(want))
		}
	})
}

// oracleText is tree of what httpsfv has read.
func oracleText(v any) string {
	var all []string
	switch v := v.(type) {
	case httpsfv.List:
		for _, m := range v {
			all = append(all, oracleText(m))
		}
		return strings.Join(all, ", ")
	case *httpsfv.Dictionary:
		for _, name := range v.Names() {
			m, _ := v.Get(name)
			all = append(all, name+"="+oracleText(m))
		}
		return strings.Join(all, ", ")
	case httpsfv.InnerList:
		for _, i := range v.Items {
			all = append(all, oracleText(i))
		}
		return "(" + strings.Join(all, " ") + ")" + oracleParameters(v.Params)
	case httpsfv.Item:
		return oracleValue(v.Value) + oracleParameters(v.Params)
	}
	panic(fmt.Sprintf("%T", v))
}

func oracleParameters(p *httpsfv.Params) string {
	var all []string
	for _, name := range p.Names() {
		v, _ := p.Get(name)
		all = append(all, name+"="+oracleValue(v))
	}
	return "[" + strings.Join(all, ", ") + "]"
}

func oracleValue(v any) string {
	switch v := v.(type) {
	case httpsfv.Token:
		return "token " + string(v)
	case string:
		return strconv.Quote(v)
	case float64:
		return fmt.Sprintf("%.3f", v+0) // no negative zero
	case []byte:
		return fmt.Sprintf("bytes %x", v)
	case time.Time:
		return fmt.Sprint("date ", v.Unix())
	case httpsfv.DisplayString:
		return "display " + strconv.Quote(string(v))
	}
	return fmt.Sprint(v)
}
