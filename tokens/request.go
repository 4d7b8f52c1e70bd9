package tokens

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// asked is what a request asks for.
type asked struct {
	model   string
	others  []string // models that may answer in its place
	output  int64    // the most tokens of a choice; 0: the request names no maximum
	bound   string   // the member that says so
	choices int64
	unclear bool // a model that may answer has no name
	inList  bool // it is one of the models of a list
}

// counted are the members that count, by API.
var counted = map[API][]string{
	ChatCompletions: {"model", "models", "fallbacks", "n", "max_tokens", "max_completion_tokens"},
	Responses:       {"model", "models", "fallbacks", "max_output_tokens"},
	Messages:        {"model", "models", "fallbacks", "max_tokens"},
}

// mostModels is how many models a request may name.
const mostModels = 16

var errNoObject = errors.New("the body must be one JSON object")

// read reads the body of a request. It accepts no member that counts in a form that some servers
// read and others ignore: one would be charged for, and the other run.
func read(api API, body []byte) (asked, error) {
	a := asked{choices: 1}
	names := counted[api]
	if names == nil {
		return a, fmt.Errorf("tokens: api: must be one of the constants of API (got %v)", api)
	}
	if !json.Valid(body) {
		return a, errNoObject
	}
	rest := bytes.TrimLeft(body, space)
	if rest[0] != '{' {
		return a, errNoObject
	}
	if err := a.readObject(names, rest); err != nil {
		return a, err
	}
	if a.model == "" && len(a.others) > 0 {
		a.model, a.others = a.others[0], a.others[1:]
	}
	return a, nil
}

// readObject reads the members of an object that is valid JSON.
func (a *asked) readObject(names []string, rest []byte) error {
	var seen uint8 // bits of names
	for {
		var key, value []byte
		if key, value, rest = member(rest); key == nil {
			return nil
		}
		i, name, err := find(names, key)
		switch {
		case err != nil:
			return err
		case i < 0:
			continue
		case seen&(1<<i) != 0:
			return fmt.Errorf("%q must be there once", name)
		}
		seen |= 1 << i
		if err := a.set(names, name, value); err != nil {
			return err
		}
	}
}

// addModels reads a list of models that may answer: names, as OpenRouter has them, or objects whose
// members take the place of those of the request, as Anthropic and LiteLLM have them. Something
// else than such a list, and a list in such an object, name models that are not clear.
func (a *asked) addModels(names []string, name string, list []byte) error {
	if a.inList || list[0] != '[' {
		a.unclear = true
		return nil
	}
	for n, rest := 0, bytes.TrimLeft(list[1:], space); rest[0] != ']'; n++ {
		if n == mostModels {
			return fmt.Errorf("%q must have at most %d models", name, mostModels)
		}
		end := valueEnd(rest)
		other := asked{choices: 1, inList: true}
		if err := other.readModel(names, rest[:end]); err != nil {
			return err
		}
		a.others = append(a.others, other.model)
		a.unclear = a.unclear || other.unclear || other.model == ""
		if a.choices = max(a.choices, other.choices); other.output > a.output {
			a.output, a.bound = other.output, other.bound
		}
		if rest = bytes.TrimLeft(rest[end:], space); rest[0] == ',' {
			rest = bytes.TrimLeft(rest[1:], space)
		}
	}
	return nil
}

// readModel reads a model of a list.
func (a *asked) readModel(names []string, value []byte) error {
	switch value[0] {
	case '"':
		return a.set(names, "model", value)
	case '{':
		return a.readObject(names, value)
	}
	return nil
}

const space = " \t\r\n"

// member returns the next member of an object that is valid JSON, and what follows it. rest begins
// with '{', ',' or '}'. Without a member, key is nil.
func member(rest []byte) (key, value, after []byte) {
	rest = bytes.TrimLeft(rest[1:], space)
	if len(rest) == 0 || rest[0] == '}' {
		return nil, nil, nil
	}
	end := valueEnd(rest)
	key, rest = rest[:end], bytes.TrimLeft(rest[end:], space)
	rest = bytes.TrimLeft(rest[1:], space) // behind the colon
	end = valueEnd(rest)
	value, rest = rest[:end], bytes.TrimLeft(rest[end:], space)
	return key, value, rest
}

// valueEnd returns the length of the value that valid JSON begins with.
func valueEnd(b []byte) int {
	depth, quoted := 0, false
	for i := 0; i < len(b); i++ {
		switch c := b[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
			if !quoted && depth == 0 {
				return i + 1
			}
		case quoted:
		case c == '{' || c == '[':
			depth++
		case c == '}' || c == ']':
			if depth--; depth < 0 {
				return i // of a number or word at the end of an object
			}
			if depth == 0 {
				return i + 1
			}
		case depth == 0 && (c == ',' || strings.IndexByte(space, c) >= 0):
			return i
		}
	}
	return len(b)
}

// find returns the index of key among names, or −1. It refuses spellings that only some decoders
// accept, such as encoding/json, which folds letters. It decodes only keys with escapes: a body may
// have a million keys.
func find(names []string, key []byte) (int, string, error) {
	text := key[1 : len(key)-1]
	if bytes.IndexByte(text, '\\') >= 0 {
		if len(key) > 6*(len(names[len(names)-1])+8) { // longer than any spelling
			return -1, "", nil
		}
		var decoded string
		if json.Unmarshal(key, &decoded) != nil {
			return -1, "", errNoObject
		}
		text = []byte(decoded)
	}
	for i, name := range names {
		if string(text) == name {
			return i, name, nil
		}
		if bytes.EqualFold(text, []byte(name)) {
			return -1, "", fmt.Errorf("write %q so, in these letters", name)
		}
	}
	return -1, "", nil
}

func (a *asked) set(names []string, name string, value []byte) error {
	switch {
	case string(value) == "null":
		return nil
	case name == "models" || name == "fallbacks":
		return a.addModels(names, name, value)
	}
	if name == "model" {
		if json.Unmarshal(value, &a.model) != nil || len(a.model) > longestModel {
			return fmt.Errorf("%q must be a text of at most %d bytes", name, longestModel)
		}
		return nil
	}
	n, ok := whole(value)
	if !ok || name == "n" && n == 0 {
		return fmt.Errorf("%q must be a whole number, and not negative", name)
	}
	if name == "n" {
		a.choices = max(a.choices, n) // a model in its place may have more
		return nil
	}
	if n > a.output { // 0 counts as none: vLLM and others then write without a bound
		a.output, a.bound = n, name
	}
	return nil
}
