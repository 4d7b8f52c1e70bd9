package policy

import (
	"net/http"
	"strings"

	"github.com/weir-go/weir/keyfuncs"
)

// key is the key of a rule: one source, several joined, or the first of several that is present.
type key struct {
	word   // canonical text of a source, such as "header X-Tenant"
	kind   keyKind
	source string // "address", "header", …; "" for a function of the program
	arg    string // of header, cookie and api-key
	parts  []*key // of joined and first
}

type keyKind uint8

const (
	single keyKind = iota
	joined
	first
)

// sources maps the built-in sources to whether a name follows them.
var sources = map[string]bool{
	"address": false, "everybody": false, "route": false, "bearer": false,
	"header": true, "cookie": true, "api-key": true,
}

// isReserved reports whether name cannot be that of a function of the program.
func isReserved(name string) bool {
	_, ok := sources[name]
	return ok || name == "first" || name == "spent"
}

// key reads a key: a source, a list of keys that are joined, or {first: [...]}.
func (d *decoder) key(n *node) *key {
	k := &key{word: word{at: n}}
	switch n.kind {
	case list:
		k.kind = joined
		k.parts = d.parts(n)
	case mapping:
		k.kind = first
		if len(n.entries) != 1 || n.entries[0].name.text != "first" {
			d.mistake(n, "must be a source, a list of keys that count together, or {first: [...]}")
			return k
		}
		d.in("first", func() { k.parts = d.parts(n.entries[0].value) })
		d.alternatives(k)
	default:
		d.source(n, k)
	}
	if k.kind != single {
		texts := make([]string, len(k.parts))
		for i, part := range k.parts {
			texts[i] = part.text
		}
		k.text = "[" + strings.Join(texts, ", ") + "]"
		if k.kind == first {
			k.text = "first " + k.text
		}
	}
	return k
}

// parts reads a list of keys.
func (d *decoder) parts(n *node) (parts []*key) {
	seen := make(map[string]bool)
	d.list(n, func(item *node) {
		part := d.key(item)
		if part.text != "" && seen[part.text] {
			d.mistake(item, "%s is here twice: remove one", quote(part.text))
		}
		seen[part.text] = true
		parts = append(parts, part)
	})
	return parts
}

// alternatives reports keys of first that can never be used or have no name.
func (d *decoder) alternatives(k *key) {
	for i, part := range k.parts {
		if i < len(k.parts)-1 && (part.source == "address" || part.source == "everybody") {
			d.mistake(part.at, "every request has %s, so what follows is never used: move it to "+
				"the end", part.source)
		}
		if part.kind == first {
			d.mistake(part.at, "first within first: write one list")
		}
		if len(part.label()) > 64 {
			d.mistake(part.at, "is too long a name for the keys of first: join less")
		}
	}
}

// label returns the prefix that first adds to the keys of k.
func (k *key) label() string {
	if k.kind == single {
		return strings.ReplaceAll(k.text, " ", ".")
	}
	labels := make([]string, len(k.parts))
	for i, part := range k.parts {
		labels[i] = part.label()
	}
	return strings.Join(labels, "+")
}

// name returns k in words.
func (k *key) name() string {
	switch {
	case k.source == "api-key":
		return "API key"
	case k.source == "bearer":
		return "bearer token"
	case k.kind == single:
		return k.text
	}
	names := make([]string, len(k.parts))
	for i, part := range k.parts {
		names[i] = part.name()
	}
	if k.kind == first {
		return strings.Join(names, " or ")
	}
	return strings.Join(names, " + ")
}

// source reads a source such as address, header X-Tenant or the name of a function.
func (d *decoder) source(n *node, k *key) {
	text, ok := d.text(n)
	if !ok {
		return
	}
	words := strings.Fields(text)
	if len(words) == 0 {
		words = []string{""}
	}
	takesName, known := sources[words[0]]
	switch {
	case !known && len(words) == 1 && isName(words[0]):
		k.text = words[0]
	case known && !takesName && len(words) == 1:
		k.source, k.text = words[0], words[0]
	case takesName && len(words) == 2:
		k.source, k.arg = words[0], words[1]
		if k.source != "cookie" {
			k.arg = http.CanonicalHeaderKey(k.arg)
		}
		k.text = k.source + " " + k.arg
		if requestKey(k) == nil {
			d.mistake(n, "%s (got %s)", whyNoKey(k), quote(k.arg))
		}
	case takesName:
		d.mistake(n, "needs one name, as in %s X-Name (got %s)", words[0], quote(text))
	default:
		d.mistake(n, "must be address, everybody, route, bearer, header X, cookie X, api-key X "+
			"or a key of the program (got %s)", quote(text))
	}
}

// whyNoKey returns why the name of k is not valid for a header, cookie or API key.
func whyNoKey(k *key) string {
	switch {
	case k.source == "cookie":
		return "must be the name of a cookie"
	case k.arg == "Host":
		return "Host is no header in Go: the program supplies such a key, by keyfuncs.Host"
	case k.arg == "X-Forwarded-For" || k.arg == "Forwarded":
		return "clients and proxies both write this header: write key: address"
	}
	return "must be the name of a header"
}

// requestKey returns the key function of a source that reads an http.Request.
func requestKey(k *key) func(*http.Request) (string, error) {
	switch k.source {
	case "header":
		return keyfuncs.Header(k.arg)
	case "cookie":
		return keyfuncs.Cookie(k.arg)
	case "api-key":
		return keyfuncs.APIKey(k.arg)
	case "bearer":
		return keyfuncs.BearerToken
	}
	return nil
}

// sourcesOf calls visit for every source of k.
func (k *key) sourcesOf(visit func(*key)) {
	if k.kind == single {
		visit(k)
	}
	for _, part := range k.parts {
		part.sourcesOf(visit)
	}
}

// buildKey returns the key function of k. The parameter source returns the key function of one
// source.
func buildKey[R any](k *key, source func(*key) func(R) (string, error)) func(R) (string, error) {
	if k.kind == single {
		return source(k)
	}
	parts := make([]func(R) (string, error), len(k.parts))
	named := make([]keyfuncs.NamedKey[R], len(k.parts))
	for i, part := range k.parts {
		parts[i] = buildKey(part, source)
		named[i] = keyfuncs.Named(part.label(), parts[i])
	}
	if k.kind == joined {
		return keyfuncs.Join(parts...)
	}
	return keyfuncs.FirstNamed(named...)
}
