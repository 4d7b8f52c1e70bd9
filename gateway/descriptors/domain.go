package descriptors

import (
	"crypto/sha256"
	"fmt"
	"hash/fnv"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weir-go/weir/limits"
)

// domain is the limits of one file.
type domain struct {
	name         string
	file         string
	allOrNothing bool
	onFailure    onFailure
	level
	overrides [Week + 1]rule  // by unit: what descriptors with a Limit count by
	holders   map[string]bool // keys of entries that name holders of limits in flight
}

// overridePath stands for the path of a rule where a limit came with a request.
const overridePath = "(override)"

// onFailure says what happens while the backend fails.
type onFailure uint8

const (
	fallBack onFailure = iota
	open
	closed
)

var onFailureNames = []string{"fall-back", "open", "closed"}

// level is a list of descriptors of a file.
type level struct {
	exact     map[Entry]*node
	wildcards []wildcard // in the order of the file
	keys      map[string]*node
}

// node is a descriptor of a file.
type node struct {
	level
	rule   *rule  // nil: no limit
	shares bool   // all values that match count together
	value  string // as the file has it
}

// rule is the limits of a descriptor, and what the file says of them.
type rule struct {
	path          string // such as tenant.path_/orders*, for metrics
	name          string
	replaces      []string
	unlimited     bool
	shadow, quota bool
	detailed      bool // metrics tell values apart
	limits        []limit
	metadata      map[string]any

	price *price // of a rule that charges a budget, whose limits it has; nil: a hit is a unit
	depth int    // then the entries of the budget's descriptor, which are the key
}

// limit is one limit of a rule.
type limit struct {
	shown Limit
	scope string

	// A limit by unit is charged in a window of windowUnits, which a charge always fits into, and is
	// over above shown.RequestsPerUnit. The backend itself decides a native limit.
	native bool
	limit  limits.Limit

	lends  time.Duration // of a limit in flight: the hold time
	holder string        // the key of the entry that names the holder; "": none does
}

// wildcard is a value with stars. Each stands for any number of letters, none included.
type wildcard struct {
	key   string
	parts []string // between the stars
	node  *node
}

func newWildcard(key, value string, n *node) wildcard {
	return wildcard{key, strings.Split(value, "*"), n}
}

func (w *wildcard) matches(value string) bool {
	first, last := w.parts[0], w.parts[len(w.parts)-1]
	rest, ok := strings.CutPrefix(value, first)
	if !ok {
		return false
	}
	if rest, ok = strings.CutSuffix(rest, last); !ok {
		return false
	}
	for _, part := range w.parts[1 : len(w.parts)-1] { // the first place leaves most for the others
		_, after, found := strings.Cut(rest, part)
		if !found {
			return false
		}
		rest = after
	}
	return true
}

// find returns the descriptor of l that e matches, or nil.
func (l *level) find(e Entry) *node {
	if n := l.exact[e]; n != nil {
		return n
	}
	for i := range l.wildcards {
		if w := &l.wildcards[i]; w.key == e.Key && w.matches(e.Value) {
			return w.node
		}
	}
	return l.keys[e.Key]
}

// each calls do with every rule of l and below.
func (l *level) each(do func(*rule)) {
	visit := func(n *node) {
		if n.rule != nil {
			do(n.rule)
		}
		n.each(do)
	}
	for _, n := range l.exact {
		visit(n)
	}
	for i := range l.wildcards {
		visit(l.wildcards[i].node)
	}
	for _, n := range l.keys {
		visit(n)
	}
}

// match returns the descriptor of the file that entries match, or nil. It
// appends the key under which they count to key. If whole, it does so without a match, too.
func (d *domain) match(key []byte, entries []Entry, whole bool) (n *node, _ []byte) {
	l := &d.level
	for _, e := range entries {
		if n = l.find(e); n == nil && !whole {
			return nil, key
		}
		value := e.Value
		if l = &noLevel; n != nil {
			l = &n.level
			if n.shares {
				value = n.value
			}
		}
		key = appendEntry(key, e.Key, value)
	}
	return n, key
}

var noLevel level

// withoutHolder cuts the last of the entries off if it names the holder of a limit in flight.
func (d *domain) withoutHolder(entries []Entry) (rest []Entry, holder string, ok bool) {
	last := len(entries) - 1
	if last < 1 || !d.holders[entries[last].Key] {
		return entries, "", false
	}
	n, _ := d.match(nil, entries[:last], false)
	if n == nil || n.rule == nil || n.rule.holder() != entries[last].Key {
		return entries, "", false
	}
	return entries[:last], entries[last].Value, true
}

func (d *domain) noteHolder(key string) {
	if d.holders == nil {
		d.holders = make(map[string]bool)
	}
	d.holders[key] = true
}

// has reports whether l has a descriptor with a key.
func (l *level) has(key string) bool {
	for e := range l.exact {
		if e.Key == key {
			return true
		}
	}
	isOf := func(w wildcard) bool { return w.key == key }
	return l.keys[key] != nil || slices.ContainsFunc(l.wildcards, isOf)
}

// holder returns the key of the entry that names the holder of limits in flight of of, or "".
func (of *rule) holder() string {
	for i := range of.limits {
		if holder := of.limits[i].holder; holder != "" {
			return holder
		}
	}
	return ""
}

// limitsOf returns the limit by which a descriptor with a limit of its own counts: that of its rule
// n by the same unit, so that both count together, or one whose scope goes by the keys of the
// entries, which the configuration of the proxy has.
func (d *domain) limitsOf(one *Descriptor, entries []Entry, n *node) []limit {
	shown := Limit{Unit: one.Limit.Unit, Multiplier: one.Limit.Multiplier}
	if n != nil && n.rule != nil {
		if l := n.rule.by(shown.window()); l != nil {
			return []limit{*l}
		}
	}
	path := overridePath
	for i := range entries {
		path += "." + entries[i].Key
		if len(path) > maxKey {
			break
		}
	}
	return []limit{d.byUnit(shown, 0, path)}
}

// isBy reports whether of has a limit by the unit of l, which counts in its window.
func (of *rule) isBy(l *Limit) bool { return of.by(l.window()) != nil }

// by returns the limit of of that counts in a window such as "minute", or nil.
func (of *rule) by(window string) *limit {
	for i := range of.limits {
		if l := &of.limits[i]; !l.native && l.shown.window() == window {
			return l
		}
	}
	return nil
}

// window returns what a limit by unit is by, such as "minute" or "10minute".
func (l *Limit) window() string {
	if l.Multiplier <= 1 {
		return l.Unit.String()
	}
	return strconv.FormatUint(uint64(l.Multiplier), 10) + l.Unit.String()
}

// byUnit returns the i-th limit of a rule by unit. path is that of the rule.
func (d *domain) byUnit(shown Limit, i int, path string) limit {
	l := limit{shown: shown, scope: scopeOf(shown.window(), d.name, path)}
	l.limit = windowOf(shown.Unit, shown.Multiplier)
	if d.allOrNothing {
		l.native, l.scope = true, scopeOf(fmt.Sprintf("%d.%s", i, shown.window()), d.name, path)
		l.limit = l.limit.WithUnits(max(1, int64(shown.RequestsPerUnit))) // setCosts knows of 0
	}
	return l
}

// isByUnit reports whether the file has l by unit, and not by algorithm.
func (l *limit) isByUnit() bool {
	byUnit := windowOf(l.shown.Unit, l.shown.Multiplier)
	return l.shown.Unit != 0 && (!l.native ||
		l.limit == byUnit.WithUnits(max(1, int64(l.shown.RequestsPerUnit))))
}

// scopeOf returns the scope of a limit. A rule shares it with one in 4,096 others, so that a flood
// of values under one rule displaces keys of hardly another: scopes share a full store evenly.
// Rules of one scope do not count together, since keys have all entries. A Memory has room for
// 65,535 limits, so not each of 100,000 rules can have a scope.
func scopeOf(window, domain, path string) string {
	h := fnv.New32a()
	io.WriteString(h, path)
	const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	n := h.Sum32()
	return fmt.Sprintf("rls:%s:%s:%c%c", window, domain, letters[n>>6&63], letters[n&63])
}

// appendEntry appends an entry so that no other list of entries has the same text.
func appendEntry(key []byte, name, value string) []byte {
	key = strconv.AppendInt(key, int64(len(name)), 10)
	key = append(append(key, ':'), name...)
	key = strconv.AppendInt(key, int64(len(value)), 10)
	return append(append(key, ':'), value...)
}

const (
	// windowUnits is what a window of a limit by unit has room for.
	windowUnits = 1_000_000_000

	// maxCharge is the most that a request is charged to a window, and maxRequests the highest limit: a
	// charge fits into any window that is not over its limit.
	maxCharge   = windowUnits / 2
	maxRequests = maxCharge - 1
)

// maxKey is how many bytes a key has at most: the digest of a longer one counts in its place. A
// client chooses how long a path or a field is.
const maxKey = 1024

// bounded returns key, or its digest if it is too long. A key begins with a number, see
// appendEntry, and a digest does not.
func bounded(key []byte) string {
	if len(key) <= maxKey {
		return string(key)
	}
	return fmt.Sprintf("sha256:%x", sha256.Sum256(key))
}

// longestWindows is how many units a window may have. A month of several is 30 days, so that a
// window has at most 366 days. No window has several years.
var longestWindows = [Week + 1]uint32{
	Second: 366 * 24 * 60 * 60, Minute: 366 * 24 * 60, Hour: 366 * 24, Day: 366, Week: 52, Month: 12, Year: 1,
}

func isLegalMultiplier(unit Unit, multiplier uint32) bool { return multiplier <= longestWindows[unit] }

// lengths has the length of each unit in windows of several.
var lengths = [Week + 1]time.Duration{
	Second: time.Second, Minute: time.Minute, Hour: time.Hour, Day: 24 * time.Hour,
	Week: 7 * 24 * time.Hour, Month: 30 * 24 * time.Hour,
}

// windowOf returns the limit by which windows of several units are counted. Windows start at whole
// multiples of their length since the Unix epoch.
func windowOf(unit Unit, multiplier uint32) limits.Limit {
	if multiplier <= 1 {
		return windows[unit]
	}
	return limits.FixedWindow(limits.Per(windowUnits, time.Duration(multiplier)*lengths[unit]))
}

// windows has the limit by which each unit is counted.
var windows = func() (all [Week + 1]limits.Limit) {
	all[Second] = limits.FixedWindow(limits.PerSecond(windowUnits))
	all[Minute] = limits.FixedWindow(limits.PerMinute(windowUnits))
	all[Hour] = limits.FixedWindow(limits.PerHour(windowUnits))
	all[Day] = limits.FixedWindow(limits.PerDay(windowUnits))
	all[Week] = limits.FixedWindow(limits.Per(windowUnits, lengths[Week]))
	all[Month] = limits.Calendar(windowUnits, limits.Month)
	all[Year] = limits.Calendar(windowUnits, limits.Year)
	return all
}()
