package algorithm

import (
	"reflect"
	"testing"
)

// Two algorithms of a word: texts of the second one have one parameter more.
var grown = rows{
	{},
	{Name: "ban", Parameters: []Parameter{{Form: Rate}, {Words: "for", Form: Lasting}}},
	{Name: "growing-ban", Word: "ban", Parameters: []Parameter{
		{Form: Rate}, {Words: "for", Form: Lasting}, {Words: "growing to", Form: Lasting}}},
	{Name: "token-bucket", Parameters: bucket},
}

func TestATextIsSplitAtTheWordsOfParameters(t *testing.T) {
	for _, tt := range []struct {
		text  string
		word  string
		parts []Part
		named int
	}{
		{"5/10m", "", []Part{{"", "5/10m"}}, 0},
		{"Ban 5/10m FOR 1h", "ban", []Part{{"", "5/10m"}, {"for", "1h"}}, 1},
		{"ban 5/10m for 1h Growing To 24h", "ban",
			[]Part{{"", "5/10m"}, {"for", "1h"}, {"growing to", "24h"}}, 2},
		{"ban 5/10m growing for 1h", "ban", []Part{{"", "5/10m growing"}, {"for", "1h"}}, 1},
		{"ban 5/10m burst 3 growing to 1h", "ban",
			[]Part{{"", "5/10m"}, {"burst", "3"}, {"growing to", "1h"}}, 1},
		{"token-bucket 5 per m capacity 9", "token-bucket",
			[]Part{{"", "5 per m"}, {"capacity", "9"}}, 3},
		{"token-bucket/9", "token-bucket", []Part{{"", "/9"}}, 3},
		{"growing-ban 5/10m", "growing-ban", []Part{{"", "5/10m"}}, 2},
		{"ban for 1h", "ban", []Part{{"", ""}, {"for", "1h"}}, 1},
		{"", "", []Part{{}}, 0},
	} {
		word, parts := grown.split(tt.text)
		named := grown.named(word, parts)
		if word != tt.word || named != tt.named || !reflect.DeepEqual(parts, tt.parts) {
			t.Errorf("%q: %q %q, row %d; want %q %q, row %d", tt.text, word, parts, named, tt.word,
				tt.parts, tt.named)
		}
	}
}
