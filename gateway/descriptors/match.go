package descriptors

import (
	"crypto/sha256"
	"fmt"
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
	overrides [Week + 1]rule // by unit: what descriptors with a Limit count by
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
}

// limit is one limit of a rule.
type limit struct {
	shown Limit
	scope string

	// A limit by unit is charged in a window of windowUnits, which a charge always fits into, and is
	// over above shown.RequestsPerUnit. The backend itself decides a native limit.
	native bool
	limit  limits.Limit
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

// Explanation is what a file has for a descriptor.
type Explanation struct {
	Rule          string   // such as "tenant_acme.path"
	Limits        []string // such as "100/minute" or "100/5 minutes"; nil: unlimited
	Shadow, Quota bool
	Together      []string // values of the file under which others count together with the descriptor
}

// Explain returns what the limits of a domain have for a descriptor with these entries.
// ok is false if there is no limit for it.
func (c *Config) Explain(domain string, entries []Entry) (e Explanation, ok bool) {
	d := c.domains[domain]
	if d == nil {
		return e, false
	}
	n, _ := d.match(nil, entries, false)
	if n == nil || n.rule == nil {
		return e, false
	}
	e = Explanation{Rule: n.rule.path, Shadow: n.rule.shadow, Quota: n.rule.quota}
	for _, l := range n.rule.limits {
		text := l.limit.String()
		if l.shown.Unit != 0 && (!l.native || d.allOrNothing) {
			text = fmt.Sprintf("%d/%v", l.shown.RequestsPerUnit, l.shown.Unit)
			if n := l.shown.Multiplier; n > 1 {
				text = fmt.Sprintf("%d/%d %vs", l.shown.RequestsPerUnit, n, l.shown.Unit)
			}
		}
		e.Limits = append(e.Limits, text)
	}
	l := &d.level
	for _, entry := range entries {
		n := l.find(entry)
		if n.shares {
			e.Together = append(e.Together, entry.Key+"="+n.value)
		}
		l = &n.level
	}
	return e, true
}
