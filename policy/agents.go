package policy

import (
	"crypto/ed25519"
	"encoding/base64"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"
)

// Agents is the agents section of a file: whose signatures count. [Names].Agents gets it. The fields
// are those of the Config of package keyfuncs/agents.
type Agents struct {
	Authorities []string         // the names of the site
	Directories []AgentDirectory // of the agents that the file knows
	MaxLifetime time.Duration    // of a signature; 0: the file does not say
	Unlisted    int              // other directories that may be fetched; 0: none
}

// AgentDirectory is a directory of keys: the identity of an agent.
type AgentDirectory struct {
	URL  string              // an origin, or the URL of a JSON Web Key Set
	Name string              // the key that the agent counts by; "": the host of URL
	Keys []ed25519.PublicKey // nil: they are fetched from URL
}

const needsAgents = "agent needs agents: say at the top of the file whose signatures count, such as " +
	"agents: {authorities: [example.com], directories: [\"https://bot.example\"]}"

// unlistedPrefix begins the names of agents whose directories are not in the file.
const unlistedPrefix = "unlisted:"

var agentsObject = object[Agents]{"agents", []field[Agents]{
	{"authorities", true, func(d *decoder, n *node, a *Agents) {
		d.each(n, func(item *node) {
			text, ok := d.text(item)
			if ok && text != "*" && !isHost(strings.TrimPrefix(text, "*.")) {
				d.mistake(item, "must be a name of the site in lower case, such as example.com, *.example.com or "+
					"example.com:8443 (got %s)", quote(text))
			}
			a.Authorities = append(a.Authorities, text)
		})
	}},
	{"directories", false, func(d *decoder, n *node, a *Agents) {
		d.each(n, func(item *node) { a.add(d, item) })
	}},
	{"max-lifetime", false, func(d *decoder, n *node, a *Agents) {
		const least, most = time.Second, 365 * 24 * time.Hour
		lasts, err := time.ParseDuration(n.Text)
		if n.Kind != scalar || err != nil || lasts < least || lasts > most {
			d.mistake(n, "must be a duration such as 1h, %v to %v (got %s)", least, most, n.Describe())
		}
		a.MaxLifetime = lasts
	}},
	{"unlisted", false, func(d *decoder, n *node, a *Agents) { a.Unlisted = int(d.number(n, 1, 100_000)) }},
}}

var agentDirectoryObject = object[AgentDirectory]{"agentDirectory", []field[AgentDirectory]{
	{"url", true, func(d *decoder, n *node, a *AgentDirectory) { a.readURL(d, n) }},
	{"name", false, func(d *decoder, n *node, a *AgentDirectory) {
		a.Name = d.name(n)
		if strings.Contains(a.Name, " ") || strings.HasPrefix(a.Name, unlistedPrefix) {
			d.mistake(n, "must have no blanks, and must not begin with %s (got %s)", unlistedPrefix, quote(a.Name))
		}
	}},
	{"keys", false, func(d *decoder, n *node, a *AgentDirectory) {
		d.each(n, func(item *node) {
			if key := readPublicKey(d, item); key != nil {
				a.Keys = append(a.Keys, key)
			}
		})
	}},
}}

func readAgents(d *decoder, n *node) *Agents {
	a := &Agents{}
	readObject(d, &agentsObject, n, a)
	if n.Kind == mapping && len(a.Directories) == 0 && a.Unlisted == 0 && len(d.mistakes) == 0 {
		d.mistake(n, "must say whose signatures count: list their directories, or set unlisted")
	}
	return a
}

// add reads a directory: its URL, or a map.
func (a *Agents) add(d *decoder, n *node) {
	var one AgentDirectory
	if n.Kind == mapping {
		readObject(d, &agentDirectoryObject, n, &one)
	} else {
		one.readURL(d, n)
	}
	if one.URL != "" && slices.ContainsFunc(a.Directories, func(o AgentDirectory) bool { return o.URL == one.URL }) {
		d.mistake(n, "%s is here twice: remove one", quote(one.URL))
	}
	a.Directories = append(a.Directories, one)
}

func (a *AgentDirectory) readURL(d *decoder, n *node) {
	text, ok := d.text(n)
	if ok && !isDirectory(text) {
		d.mistake(n, "must be https://, a host in lower case, and perhaps a path, such as https://bot.example "+
			"(got %s)", quote(text))
	}
	a.URL = text
}

// isDirectory reports whether s may be the URL of a directory.
func isDirectory(s string) bool {
	rest, ok := strings.CutPrefix(s, "https://")
	host, path, _ := strings.Cut(rest, "/")
	return ok && isHost(host) && len(s) <= 512 && !strings.ContainsAny(path, "?#%\\ ") && !strings.HasPrefix(path, "/") &&
		!strings.Contains(path, "//") && !strings.Contains("/"+strings.TrimPrefix(path, ".well-known/"), "/.")
}

// isHost reports whether s is the name of a host in lower case, with or without a port that is not
// 443.
func isHost(s string) bool {
	host, port, hasPort := strings.Cut(s, ":")
	if hasPort && (!isDigits(port) || port == "0" || port == "443" || len(port) > 5) || len(host) > 253 {
		return false
	}
	for label := range strings.SplitSeq(host, ".") {
		if label == "" || len(label) > 63 || strings.ContainsFunc(label, func(c rune) bool {
			return (c < 'a' || 'z' < c) && (c < '0' || '9' < c) && c != '-' && c != '_'
		}) {
			return false
		}
	}
	return true
}

// readPublicKey reads a public key of Ed25519, as the member x of a JWK has it (RFC 8037, section 2).
func readPublicKey(d *decoder, n *node) ed25519.PublicKey {
	text, ok := d.text(n)
	if !ok {
		return nil
	}
	key, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil || len(key) != ed25519.PublicKeySize {
		d.mistake(n, "must be a public key of Ed25519: 43 characters of base64url, the x of a JWK")
		return nil
	}
	return key
}

// names returns the names of the agents, in the order of the file.
func (a *Agents) names() (names []string) {
	for _, one := range a.Directories {
		name := one.Name
		if name == "" {
			name, _, _ = strings.Cut(strings.TrimPrefix(one.URL, "https://"), "/")
		}
		names = append(names, name)
	}
	return names
}

// check reports overrides of r for agents that the file does not know. a is nil without agents.
func (a *Agents) check(d *decoder, r *rule) {
	if a == nil {
		return
	}
	for _, o := range r.overrides {
		for _, e := range o.values {
			if e.Name.Text != "agent" || slices.Contains(a.names(), e.Value.Text) ||
				a.Unlisted > 0 && strings.HasPrefix(e.Value.Text, unlistedPrefix) {
				continue
			}
			d.in("overrides.for", func() {
				d.mistake(e.Value, "no directory of agents has the name %s: the names are %s", quote(e.Value.Text),
					strings.Join(a.names(), ", "))
			})
		}
	}
}

// changed returns what a was and what a file says now, without the names of agents, which are keys.
func (a *Agents) changed(now *Agents) (before, after string) {
	before, after = a.describe(), now.describe()
	if before == after && !reflect.DeepEqual(a, now) {
		before += " of before"
	}
	return before, after
}

// describe returns a as text; "" if the file does not have it.
func (a *Agents) describe() string {
	if a == nil {
		return ""
	}
	keys := 0
	for _, one := range a.Directories {
		keys += len(one.Keys)
	}
	text := fmt.Sprintf("%d directories, %d keys, authorities %s", len(a.Directories), keys,
		strings.Join(a.Authorities, " "))
	if a.MaxLifetime > 0 {
		text += fmt.Sprintf(", max-lifetime %v", a.MaxLifetime)
	}
	if a.Unlisted > 0 {
		text += fmt.Sprintf(", unlisted %d", a.Unlisted)
	}
	return text
}
