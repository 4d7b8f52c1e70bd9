package algorithm

import "strings"

// Part is a part of a limit in text: the words before a parameter, and its value.
type Part struct{ Words, Value string }

// Split splits a limit in text at the words of parameters. "ban 5/10m for 1h" becomes the word
// "ban" and the parts "5/10m" and "for", "1h". The first part has no words, and may be empty. A
// text that begins with a number has no word.
func Split(text string) (word string, parts []Part) { return rows(table[:]).split(text) }

// Named returns the constant of the algorithm whose texts begin with word, which may also be its
// name. It returns 0 for an unknown word. Of several algorithms it returns the first that has the
// parameters of all parts, or else the first.
func Named(word string, parts []Part) int { return rows(table[:]).named(word, parts) }

// rows is a table of algorithms, or one of a test.
type rows []Algorithm

func (t rows) split(text string) (word string, parts []Part) {
	fields := strings.Fields(text)
	if len(fields) > 0 && !strings.ContainsAny(fields[0][:1], "-+0123456789") {
		word = fields[0]
		if slash := strings.IndexByte(word, '/'); slash > 0 {
			word, fields[0] = word[:slash], word[slash:]
		} else {
			fields = fields[1:]
		}
		word = strings.ToLower(word)
	}
	parts = make([]Part, 1, 3)
	for len(fields) > 0 {
		last := &parts[len(parts)-1]
		if n, words := t.wordsAt(fields); n > 0 {
			parts, fields = append(parts, Part{Words: words}), fields[n:]
		} else {
			last.Value, fields = strings.TrimSpace(last.Value+" "+fields[0]), fields[1:]
		}
	}
	return word, parts
}

// wordsAt returns how many fields are the words of a parameter, and these words.
func (t rows) wordsAt(fields []string) (int, string) {
	for i := range t {
		for _, p := range t[i].Parameters {
			for _, words := range [...]string{p.Words, p.Or} {
				n := len(strings.Fields(words))
				if n > 0 && n <= len(fields) &&
					strings.EqualFold(strings.Join(fields[:n], " "), words) {
					return n, words
				}
			}
		}
	}
	return 0, ""
}

func (t rows) named(word string, parts []Part) (first int) {
	for i := range t {
		a := &t[i]
		if i == 0 || a.FirstWord() != word && a.Name != word {
			continue
		}
		if a.hasAll(parts) {
			return i
		}
		if first == 0 {
			first = i
		}
	}
	return first
}
