package policy

import (
	"slices"
	"strings"
	"time"

	"github.com/weir-go/weir/core"
)

// warnings returns valid texts of f that are perhaps not meant, in the order of the file. f must
// have no mistakes.
func (f *fileText) warnings(now time.Time) []*Mistake {
	d := &decoder{file: f.name}
	if f.client != nil && f.client.ipv6 > 64 {
		d.in("client.ipv6-prefix", func() {
			d.mistake(f.client.ipv6At, "a client of IPv6 chooses among the addresses of a /64, "+
				"each with a new limit: write 64 or less (got %d)", f.client.ipv6)
		})
	}
	for _, r := range f.rules {
		d.rule = r.name
		f.warnOfFreeKey(d, r)
		for _, o := range r.overrides {
			if o.hasEnded(now) {
				d.in("overrides", func() { d.mistake(o.at, "%s", o.endedText()) })
			}
		}
	}
	sortMistakes(d.mistakes)
	return d.mistakes
}

// endedText returns the warning that o has ended.
func (o *override) endedText() string {
	return "the override ended at the beginning of " + o.until.Format(time.DateOnly) +
		" in UTC: remove it"
}

// warnOfFreeKey warns if clients can change the key of r freely and no other rule limits them.
func (f *fileText) warnOfFreeKey(d *decoder, r *rule) {
	if r.mode == core.Disabled {
		return
	}
	free := r.key.free()
	if free == nil || slices.ContainsFunc(f.rules, func(other *rule) bool {
		return other.mode == core.Enforce && other.key.free() == nil && other.covers(r) &&
			(other.value == nil || other.value.text == r.key.text)
	}) {
		return
	}
	unless := "it is checked before the limiter"
	if free.source == "header" {
		unless = "a gateway of yours sets it"
	}
	d.in("key", func() {
		d.mistake(free.at, "a client gets a new limit by changing its %s, unless %s: add a rule "+
			"by address", free.describe(), unless)
	})
}

// free returns a source of k that a client can change at no cost, or nil. One is enough, whether k
// joins its sources or takes the first. Functions of the program are assumed to verify their
// values.
func (k *key) free() (free *key) {
	k.sourcesOf(func(k *key) {
		switch k.source {
		case "header", "cookie", "api-key", "bearer":
			if free == nil {
				free = k
			}
		}
	})
	return free
}

// describe returns the part of a request that the source k reads.
func (k *key) describe() string {
	switch k.source {
	case "api-key":
		return "header " + k.arg
	case "bearer":
		return "bearer token"
	}
	return k.text
}

// covers reports whether r applies to every request that other applies to, as far as the texts of
// patterns tell.
func (r *rule) covers(other *rule) bool {
	excepted := func(c condition) bool {
		return slices.ContainsFunc(other.except, func(o condition) bool { return o.text == c.text })
	}
	matched := func(o condition) bool {
		return slices.ContainsFunc(r.match, func(c condition) bool { return c.covers(&o) })
	}
	for _, c := range r.except {
		if !excepted(c) {
			return false
		}
	}
	if len(r.match) == 0 {
		return true
	}
	if len(other.match) == 0 {
		return matched(condition{pattern: everyPath})
	}
	return !slices.ContainsFunc(other.match, func(o condition) bool { return !matched(o) })
}

// everyPath matches every request.
var everyPath = &pattern{segments: []segment{{kind: restOf}}}

// covers reports whether every request that meets other meets c.
func (c *condition) covers(other *condition) bool {
	if c.pattern == nil || other.pattern == nil {
		return c.text == other.text && c.route == other.route
	}
	p, o := c.pattern, other.pattern
	if p.host != "" && !strings.EqualFold(p.host, o.host) ||
		p.method != "" && (o.method == "" || !p.matchesMethod(o.method)) {
		return false
	}
	if slices.Equal(p.segments, o.segments) {
		return true
	}
	last := len(p.segments) - 1
	return p.segments[last].kind == restOf && len(o.segments) > last &&
		slices.Equal(p.segments[:last], o.segments[:last])
}
