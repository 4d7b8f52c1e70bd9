package convert

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/weir-go/weir/cmd/weir/internal/visible"
)

// writer writes a policy file.
type writer struct {
	*proxy
	lists []*list
	text  strings.Builder
}

func (w *writer) line(format string, args ...any) {
	fmt.Fprintf(&w.text, format+"\n", args...)
}

// comment writes a comment of one line, whatever the text is.
func (w *writer) comment(indent, text string) {
	w.line("%s# %s", indent, oneLine(text))
}

// oneLine returns a text that cannot end a comment.
func oneLine(text string) string { return strings.ReplaceAll(visible.Text(text), "\n", " ") }

// write returns the policy of rules.
func (w *writer) write(rules []*rule) []byte {
	w.line("version: 1 # converted from %s", oneLine(w.title))
	w.line("paths: go # nginx tells upper case from lower case; any-server if the programs behind " +
		"do not")
	if w.client != "" {
		w.line("client:")
		if w.clientOf != "" {
			w.comment("  ", w.clientOf)
		}
		w.line("  %s", w.client)
		w.line("  ipv6-prefix: 128 # nginx counts each address; a client of IPv6 has many, so 64 " +
			"is better")
	}
	used := make(map[string]bool)
	for _, r := range rules {
		used[r.key.exempt] = true
	}
	delete(used, "")
	if len(used) > 0 {
		w.line("lists:")
		for _, l := range w.lists {
			if !used[l.name] {
				continue
			}
			w.comment("  ", l.text)
			networks := make([]string, len(l.networks))
			for i, network := range l.networks {
				networks[i] = network.String()
			}
			w.line("  %s: %s", l.name, flow(networks))
		}
	}
	w.line("rules:")
	if w.note != "" {
		w.comment("  ", w.note)
	}
	for _, r := range rules {
		w.rule(r)
	}
	return []byte(w.text.String())
}

func (w *writer) rule(r *rule) {
	for _, from := range r.from {
		w.comment("  ", from)
	}
	w.line("  - name: %s", quote(r.name))
	if r.scope != "" {
		w.line("    scope: %s", quote(r.scope))
	}
	match, except := r.match, r.except
	if r.key.methods != nil {
		match = nil
		for _, method := range r.key.methods {
			for _, pattern := range or(r.match, "/") {
				match = append(match, method+" "+pattern)
			}
		}
	}
	for _, method := range r.key.others {
		except = append(except, method+" /")
	}
	if r.key.exempt != "" {
		except = append(except, "list "+r.key.exempt)
	}
	if len(match) > 0 {
		w.line("    match: %s", flow(match))
	}
	if len(except) > 0 {
		w.line("    except: %s", flow(except))
	}
	w.line("    key: %s", r.key.text)
	if r.key.absent {
		w.line("    absent: skip # nginx counts no empty key")
	}
	w.line("    limit: %s", r.limit)
	if r.noDelay > 0 {
		w.line("    no-delay: %d", r.noDelay)
	}
	if r.shadow {
		w.line("    mode: shadow")
	}
}

func or(texts []string, text string) []string {
	if len(texts) == 0 {
		return []string{text}
	}
	return texts
}

// flow returns a list of YAML in one line.
func flow(texts []string) string {
	quoted := make([]string, len(texts))
	for i, text := range texts {
		quoted[i] = quote(text)
	}
	return "[" + strings.Join(quoted, ", ") + "]"
}

var plain = regexp.MustCompile(`^[A-Za-z/][A-Za-z0-9/._-]*( [A-Za-z0-9/._-]+)*$`)

// quote returns a text of YAML.
func quote(text string) string {
	switch strings.ToLower(text) {
	case "true", "false", "null", "yes", "no", "on", "off", "y", "n":
		return strconv.Quote(text)
	}
	if plain.MatchString(text) || isNetwork(text) {
		return text
	}
	return strconv.Quote(text)
}

// isNetwork reports whether text is an IPv4 network, which needs no quotes.
func isNetwork(text string) bool {
	network, ok := readNetwork(text)
	return ok && network.Addr().Is4()
}
