package admin

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/weir-go/weir/internal/ground/token"
)

// KeyDisplay selects how keys are shown.
type KeyDisplay uint8

const (
	// Masked shows an IPv4 address as its /24, an IPv6 address as its /48, and any other key as at
	// most four characters, each with a short digest. The kind of the key, from the KeyName of its
	// rule, stands before it. Equal keys look equal until the process ends. The digest is useless
	// without access to this process.
	Masked KeyDisplay = iota
	// Shown shows keys unchanged. Keys may identify people.
	Shown
)

// masker masks keys. Its digests are HMACs with a key that exists only in this process: a plain
// digest of an address can be found by trying all addresses.
type masker struct {
	display KeyDisplay
	secret  [32]byte
}

func newMasker(display KeyDisplay) *masker {
	m := &masker{display: display}
	rand.Read(m.secret[:]) // never fails
	return m
}

// show returns the kind of a key in words, "" if unknown, and the key as it is shown. name is the
// KeyName of its rule.
func (m *masker) show(key, name string) (kind, shown string) {
	if key == "" {
		return "", "(no key)"
	}
	kind, shown = kindOf(key, name)
	if network, ok := hideAddress(shown); ok && m.display != Shown && kind != "" &&
		strings.Contains(network, "/") {
		kind += " in"
	}
	if m.display == Shown {
		shown = key
	} else {
		shown = m.hide(shown, 0)
	}
	if kind == shown { // key of keyfuncs.Constant: one key for all requests
		kind = ""
	}
	return strings.Map(visible, kind), strings.Map(visible, shown)
}

// text returns the result of show as one text.
func (m *masker) text(key, name string) string {
	kind, shown := m.show(key, name)
	return strings.TrimPrefix(kind+" "+shown, " ")
}

// kindOf returns the kind of a key in words, and the key without the part that tells the kind.
func kindOf(key, name string) (kind, rest string) {
	names := strings.Split(name, " or ")
	if name != "" && len(names) == 1 {
		return name, key
	}
	label, rest, isChosen := chosen(key)
	i, err := strconv.Atoi(label)
	switch isPosition := err == nil; {
	case isChosen && !isPosition:
		return inWords(label), rest
	case isChosen && i < len(names) && name != "":
		return names[i], rest
	case isChosen && formOf(rest) != "":
		return formOf(rest), rest
	}
	return formOf(key), key
}

// formOf returns the kind that the form of a key suggests.
func formOf(key string) string {
	if _, ok := hideAddress(key); ok {
		return "address"
	}
	if len(key) == 32 && strings.Trim(key, "0123456789abcdef") == "" { // a keyfuncs.Digest
		return "credential"
	}
	return ""
}

// inWords returns in words the name of a key function, as in FirstNamed and policy files.
func inWords(name string) string {
	words := strings.Split(name, "+")
	for i, word := range words {
		word, field, _ := strings.Cut(word, ".")
		switch word {
		case "apikey", "api-key":
			words[i] = "API key"
		case "bearer":
			words[i] = "bearer token"
		case "header", "cookie":
			words[i] = strings.TrimSuffix(word+" "+field, " ")
		}
	}
	return strings.Join(words, " + ")
}

// visible replaces characters that are invisible: control characters, and those that a client could
// use to reorder the text around them.
func visible(c rune) rune {
	if !unicode.IsGraphic(c) {
		return unicode.ReplacementChar
	}
	return c
}

// maxNesting is how deeply keys of Join and First are parsed.
const maxNesting = 4

// hide masks key. It parses the keys of Join, First, FirstNamed and Address of package keyfuncs,
// and those of policy files.
func (m *masker) hide(key string, depth int) string {
	if depth < maxNesting {
		name, rest, isChosen := chosen(key)
		if isChosen && isDistinct(rest) {
			return name + ": " + m.hide(rest, depth+1)
		}
		if parts := joined(key); parts != nil {
			for i, part := range parts {
				parts[i] = m.hide(part, depth+1)
			}
			return strings.Join(parts, " + ")
		}
		if isChosen {
			return name + ": " + m.hide(rest, depth+1)
		}
	}
	if network, ok := hideAddress(key); ok {
		if network != key { // tells clients of one network apart
			network += m.mark(key)
		}
		return network
	}
	if isPublic(key) {
		return key
	}
	return m.shorten(key)
}

// isDistinct reports whether the rest of a key of First has a recognizable form. Without that,
// 0:5:alice3:GET may also be a Join with an empty first part, and 1:2001:db8:: may be an address.
func isDistinct(rest string) bool {
	_, ok := hideAddress(rest)
	return ok || joined(rest) != nil
}

// joined returns the parts of a key of keyfuncs.Join, or nil. Each part follows its length and a
// colon. A single part is left to chosen.
func joined(key string) (parts []string) {
	for key != "" {
		digits, rest, ok := strings.Cut(key, ":")
		n, err := strconv.Atoi(digits)
		if !ok || err != nil || n < 0 || n > len(rest) || strconv.Itoa(n) != digits {
			return nil
		}
		parts, key = append(parts, rest[:n]), rest[n:]
	}
	if len(parts) < 2 {
		return nil
	}
	return parts
}

// chosen splits a key of keyfuncs.First or FirstNamed into a position or a name, and the rest after
// the colon. It accepts only common names: any other may be part of a value that a client sent.
func chosen(key string) (name, rest string, ok bool) {
	name, rest, ok = strings.Cut(key, ":")
	if !ok || rest == "" {
		return "", "", false
	}
	if n, err := strconv.Atoi(name); err == nil {
		return name, rest, n >= 0 && n < 100 && strconv.Itoa(n) == name
	}
	return name, rest, isKeyName(name)
}

// isKeyName reports whether name is the name of a key function, as in policy files:
// address+header.X-Tenant. Only sources with an argument may have a second part: in user.smith or
// token.x it might come from a client.
func isKeyName(name string) bool {
	for part := range strings.SplitSeq(name, "+") {
		word, field, isField := strings.Cut(part, ".")
		switch word {
		case "header", "cookie", "api-key":
			if isField && !token.Is(field) {
				return false
			}
		default:
			if isField || !slices.Contains(commonNames, word) {
				return false
			}
		}
	}
	return len(name) <= 64
}

var commonNames = []string{
	"account", "address", "apikey", "bearer", "client", "customer", "ip", "key", "login", "org",
	"organization", "peer", "plan", "route", "session", "tenant", "token", "user",
}

// sixToFour is the prefix of RFC 3056.
var sixToFour = netip.MustParsePrefix("2002::/16")

// hideAddress returns the network of an address or of a network, as keyfuncs.Address writes them.
func hideAddress(key string) (string, bool) {
	address, bits, isPrefix := strings.Cut(key, "/")
	a, err := netip.ParseAddr(address)
	if err != nil {
		return "", false
	}
	a = a.Unmap().WithZone("")
	shown := 48
	switch {
	case a.Is4():
		shown = 24
	case sixToFour.Contains(a): // the first 16 bits are followed by an IPv4 address
		shown = 16 + 24
	}
	if n, err := strconv.Atoi(bits); isPrefix && err == nil && n >= 0 {
		shown = min(shown, n)
	} else if isPrefix {
		return "", false
	}
	return netip.PrefixFrom(a, shown).Masked().String(), true
}

// isPublic reports whether key is a word of a rule, not of a client.
func isPublic(key string) bool {
	switch key {
	case "", "everybody", "GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "QUERY":
		return true
	}
	return false
}

// shorten returns up to four characters, at most a third of the key, and a digest.
func (m *masker) shorten(key string) string {
	shown := min(4, utf8.RuneCountInString(key)/3)
	var b strings.Builder
	for _, c := range key {
		if shown == 0 {
			break
		}
		b.WriteRune(c)
		shown--
	}
	return b.String() + "…" + m.mark(key)
}

// mark returns a short digest of a key.
func (m *masker) mark(key string) string { return "#" + m.digest("mask", key)[:6] }

// digest returns the HMAC of texts, with unambiguous boundaries.
func (m *masker) digest(texts ...string) string {
	h := hmac.New(sha256.New, m.secret[:])
	for _, s := range texts {
		h.Write(strconv.AppendInt(nil, int64(len(s)), 10))
		h.Write([]byte{':'})
		h.Write([]byte(s))
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}
