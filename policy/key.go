package policy

import (
	"net/http"
	"net/netip"
	"strings"

	"github.com/weir-go/weir/keyfuncs"
)

// source is a built-in source of keys. Its row in sources has what the package must know of it,
// except how to find the address and the route: see buildSource and the override's given.
type source struct {
	name  string
	named string // what the name after it is that of, such as "header"; "": none follows
	title string // in words; "": as in the file

	readsRequest bool // the request of net/http
	isFree       bool // a client can change it at no cost
	isSecret     bool // an override has its digest

	// find returns the key function for a name, nil if the name is not valid. nil: the request
	// alone does not have it.
	find func(name string) func(*http.Request) (string, error)
}

var sources = []source{
	{name: "address", readsRequest: true},
	{name: "everybody"},
	{name: "route"},
	{name: "agent"},
	{name: "bearer", title: "bearer token", readsRequest: true, isFree: true, isSecret: true,
		find: func(string) func(*http.Request) (string, error) { return keyfuncs.BearerToken }},
	{name: "header", named: "header", readsRequest: true, isFree: true,
		find: keyfuncs.Header},
	{name: "cookie", named: "cookie", readsRequest: true, isFree: true, isSecret: true,
		find: keyfuncs.Cookie},
	{name: "api-key", named: "header", title: "API key", readsRequest: true, isFree: true,
		isSecret: true, find: keyfuncs.APIKey},
}

// sourceNamed returns the built-in source of a name, or nil.
func sourceNamed(name string) *source {
	for i := range sources {
		if sources[i].name == name {
			return &sources[i]
		}
	}
	return nil
}

// isReserved reports whether name cannot be that of a function of the program.
func isReserved(name string) bool {
	return sourceNamed(name) != nil || name == "first" || name == "spent"
}

// canonical returns the name that follows s in its canonical form.
func (s *source) canonical(name string) string {
	if s.named == "cookie" {
		return name
	}
	return http.CanonicalHeaderKey(name)
}

// key is the key of a rule: one source, several joined, or the first of several that is present.
type key struct {
	word   // canonical text of a source, such as "header X-Tenant"
	kind   keyKind
	source *source // of a single key; nil: a function of the program
	arg    string  // of header, cookie and api-key
	parts  []*key  // of joined and first
}

type keyKind uint8

const (
	single keyKind = iota
	joined
	first
)

// readKey reads a key: a source, a list of keys that are joined, or {first: [...]}.
func readKey(d *decoder, n *node) *key {
	k := &key{word: word{at: n}}
	switch n.Kind {
	case list:
		k.kind = joined
		k.readParts(d, n)
	case mapping:
		k.kind = first
		if len(n.Entries) != 1 || n.Entries[0].Name.Text != "first" {
			d.mistake(n, "must be a source, a list of keys that count together, or {first: [...]}")
			return k
		}
		d.in("first", func() { k.readParts(d, n.Entries[0].Value) })
		k.checkAlternatives(d)
	default:
		k.readSource(d, n)
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

// readParts reads a list of keys.
func (k *key) readParts(d *decoder, n *node) {
	seen := make(map[string]bool)
	d.list(n, func(item *node) {
		part := readKey(d, item)
		if part.text != "" && seen[part.text] {
			d.mistake(item, "%s is here twice: remove one", quote(part.text))
		}
		seen[part.text] = true
		k.parts = append(k.parts, part)
	})
}

// checkAlternatives reports keys of first that can never be used or have no name.
func (k *key) checkAlternatives(d *decoder) {
	for i, part := range k.parts {
		if i < len(k.parts)-1 && (part.is("address") || part.is("everybody")) {
			d.mistake(part.at, "every request has %s, so what follows is never used: move it to "+
				"the end", part.source.name)
		}
		if part.kind == first {
			d.mistake(part.at, "first within first: write one list")
		}
		if len(part.label()) > 64 {
			d.mistake(part.at, "is too long a name for the keys of first: join less")
		}
	}
}

// readSource reads a source such as address, header X-Tenant or the name of a function.
func (k *key) readSource(d *decoder, n *node) {
	text, ok := d.text(n)
	if !ok {
		return
	}
	words := strings.Fields(text)
	if len(words) == 0 {
		words = []string{""}
	}
	s := sourceNamed(words[0])
	switch {
	case s == nil && len(words) == 1 && isName(words[0]):
		k.text = words[0]
	case s != nil && s.named == "" && len(words) == 1:
		k.source, k.text = s, s.name
	case s != nil && s.named != "" && len(words) == 2:
		k.source, k.arg = s, s.canonical(words[1])
		k.text = s.name + " " + k.arg
		if k.find() == nil {
			d.mistake(n, "%s (got %s)", k.whyNot(), quote(k.arg))
		}
	case s != nil && s.named != "":
		d.mistake(n, "needs one name, as in %s X-Name (got %s)", s.name, quote(text))
	default:
		d.mistake(n, "must be %s or a key of the program (got %s)", sourceForms(), quote(text))
	}
}

// sourceForms returns the sources as a file has them.
func sourceForms() string {
	forms := make([]string, len(sources))
	for i, s := range sources {
		forms[i] = s.name
		if s.named != "" {
			forms[i] += " X"
		}
	}
	return strings.Join(forms, ", ")
}

// plainSources returns the sources that no name follows.
func plainSources() (names []string) {
	for _, s := range sources {
		if s.named == "" {
			names = append(names, s.name)
		}
	}
	return names
}

// whyNot returns why the name of k is not valid for its source.
func (k *key) whyNot() string {
	switch {
	case k.source.named != "header":
	case k.arg == "Host":
		return "Host is no header in Go: the program supplies such a key, by keyfuncs.Host"
	case k.arg == "X-Forwarded-For" || k.arg == "Forwarded":
		return "clients and proxies both write this header: write key: address"
	}
	return "must be the name of a " + k.source.named
}

// is reports whether k is a built-in source.
func (k *key) is(name string) bool { return k.source != nil && k.source.name == name }

// find returns the key function of a source that reads an http.Request; nil if it does not.
func (k *key) find() func(*http.Request) (string, error) {
	if k.source == nil || k.source.find == nil {
		return nil
	}
	return k.source.find(k.arg)
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

// isComplete reports whether every source of k was understood, and no list of them is empty.
func (k *key) isComplete() bool {
	ok := !strings.Contains(k.text, "[]")
	k.sourcesOf(func(k *key) { ok = ok && k.text != "" && (k.arg == "" || k.find() != nil) })
	return ok
}

// check reports an address without client, an agent without agents, and functions that the file does
// not declare.
func (k *key) check(d *decoder, f *fileText) {
	k.sourcesOf(func(k *key) {
		switch {
		case k.is("address") && f.client == nil:
			d.mistake(k.at, "address needs client: say at the top of the file how addresses are "+
				"found, such as client: {peer: true}")
		case k.is("agent") && f.agents == nil:
			d.mistake(k.at, "%s", needsAgents)
		case k.source == nil && k.text != "" && f.declared.keys.at[k.text] == nil:
			f.declared.keys.check(d, k.word, "keys", plainSources()...)
		}
	})
}

// warn warns of the source that a client can change at no cost, if there is one.
func (k *key) warn(d *decoder) {
	free := k.free()
	if free == nil {
		return
	}
	what, unless := free.text, "it is checked before the limiter"
	switch free.source.name {
	case "header":
		unless = "a gateway of yours sets it"
	case "api-key":
		what = "header " + free.arg
	case "bearer":
		what = "bearer token"
	}
	d.mistake(free.at, "a client gets a new limit by changing its %s, unless %s: add a rule "+
		"by address", what, unless)
}

// free returns a source of k that a client can change at no cost, or nil. One is enough, whether k
// joins its sources or takes the first. Functions of the program are assumed to verify their
// values.
func (k *key) free() (free *key) {
	k.sourcesOf(func(k *key) {
		if free == nil && k.source != nil && k.source.isFree {
			free = k
		}
	})
	return free
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
	if k.source != nil && k.source.title != "" {
		return k.source.title
	}
	if k.kind == single {
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

// buildSource returns the key function of one source. names has the functions of the program.
func buildSource[R any](k *key, names *Names[R], c *client) func(R) (string, error) {
	switch {
	case k.source == nil:
		return names.Keys[k.text]
	case k.is("everybody"):
		return keyfuncs.Constant[R]("everybody")
	case k.is("agent"):
		return names.agent
	case k.is("route"):
		route := names.Route
		return func(r R) (string, error) { return route(r), nil }
	case k.is("address"):
		direct, ok := any(c.source).(func(R) (netip.Addr, error))
		if names.Address != nil {
			direct, ok = names.Address, true
		}
		if ok {
			// cannot fail: the number of bits is checked
			key, _ := keyfuncs.AddressPrefix(direct, c.ipv6)
			return key
		}
		key, _ := keyfuncs.AddressPrefix(c.source, c.ipv6)
		return lift(names, key)
	}
	return lift(names, k.find())
}
