package policy

import (
	"crypto/sha256"
	"encoding/hex"
	"time"
)

// fileText is a policy file, read and checked without the functions of the program.
type fileText struct {
	name, digest string
	domain       string
	declared     declared
	client       *client
	agents       *Agents // nil: none
	agentsAt     *node
	paths        string // "go" or "any-server"; "": the default
	lists        addressLists
	rules        []*rule
	shed         *shedding // nil: none
}

var fileObject = object[fileText]{"policy", []field[fileText]{
	{"version", true, func(d *decoder, n *node, _ *fileText) {
		if n.Kind != scalar || !n.Plain || n.Text != "1" {
			d.mistake(n, "must be 1, the version of this format (got %s)", n.Describe())
		}
	}},
	{"domain", false, func(d *decoder, n *node, f *fileText) {
		text, ok := d.text(n)
		if ok && !isWord(text, 32) {
			d.mistake(n, "must have 1 to 32 letters, digits, - and _ (got %s)", quote(text))
		}
		f.domain = text
	}},
	{"program", false, func(d *decoder, n *node, f *fileText) {
		readObject(d, &programObject, n, &f.declared)
	}},
	{"client", false, func(d *decoder, n *node, f *fileText) { f.client = readClient(d, n) }},
	{"agents", false, func(d *decoder, n *node, f *fileText) {
		f.agents, f.agentsAt = readAgents(d, n), n
	}},
	{"paths", false, func(d *decoder, n *node, f *fileText) {
		f.paths = pathsWords[d.choice(n, pathsWords)]
	}},
	{"lists", false, func(d *decoder, n *node, f *fileText) { f.lists.read(d, n) }},
	{"rules", true, func(d *decoder, n *node, f *fileText) {
		d.list(n, func(item *node) { f.rules = append(f.rules, readRule(d, item)) })
	}},
	{"shed", false, func(d *decoder, n *node, f *fileText) { f.shed = readShed(d, n) }},
}}

// pathsWords are the values of paths.
var pathsWords = []string{"go", "any-server"}

// readFile reads and checks a file.
func readFile(name string, text []byte) (*fileText, error) {
	f := &fileText{name: name, digest: digest(text)}
	root, mistakes := parseYAML(name, text)
	d := &decoder{file: name, mistakes: mistakes}
	if root != nil {
		readObject(d, &fileObject, root, f)
		f.check(d)
	}
	return f, collect(d.mistakes)
}

// digest returns the SHA-256 of a file in hexadecimal.
func digest(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// check reports mistakes that involve several fields.
func (f *fileText) check(d *decoder) {
	names := make(map[string]*rule)
	scopes := make(map[string]*rule)
	for _, r := range f.rules {
		if r.name == "" || r.key == nil {
			continue // reported already
		}
		d.rule = r.name
		if other := names[r.name]; other != nil {
			d.in("name", func() {
				d.mistake(r.at, "another rule has this name, in line %d: rename one", other.at.Line)
			})
		}
		names[r.name] = r
		r.check(d, f)
		scope := r.scopeIn(f.domain)
		other := scopes[scope]
		if other == nil {
			scopes[scope] = r
		}
		r.checkScope(d, scope, other)
		r.checkOverrides(d, f.client)
		f.agents.check(d, r)
	}
	d.rule = ""
}

// warnings returns valid texts of f that are perhaps not meant, in the order of the file. f must
// have no mistakes.
func (f *fileText) warnings(now time.Time) []*Mistake {
	d := &decoder{file: f.name}
	f.client.warn(d)
	for _, r := range f.rules {
		d.rule = r.name
		r.warn(d, f.rules, now)
	}
	sortMistakes(d.mistakes)
	return d.mistakes
}

// expired returns one line for each override that ended after the time after and not after by.
func (f *fileText) expired(after, by time.Time) (lines []string) {
	for _, r := range f.rules {
		for _, o := range r.overrides {
			if o.hasEnded(by) && !o.hasEnded(after) {
				m := Mistake{f.name, o.at.Line, o.at.Column, r.name, "overrides", o.endedText()}
				lines = append(lines, m.Error())
			}
		}
	}
	return lines
}

// readPaths makes the patterns of f match as paths says. If the file says nothing, anyServer
// decides.
func (f *fileText) readPaths(anyServer bool) {
	if f.paths == "any-server" || f.paths == "" && anyServer {
		f.paths = "any-server"
	} else {
		f.paths = "" // what a file means that says nothing
		return
	}
	for _, r := range f.rules {
		foldAll(r.conditions())
	}
	foldAll(f.shed.conditions())
}
