package client

import (
	"net/http"
	"strings"
)

// maxBuckets is how many buckets a table has before a new one displaces another, unless all are in
// use. It is also how many names of limits a table keeps.
const maxBuckets = 1024

// table holds the buckets of a pacer, and knows which of them counts a call. The lock of the pacer
// guards it.
type table struct {
	o     *Options
	namer *namer

	buckets map[key]*bucket
	names   map[route]string // of the limits of routes, as the server names them
	sites   map[string]int   // how many buckets each site has

	// The latest look-up. Most programs send many requests to one server in a row. Then this saves
	// a fifth of the cost of a request.
	last   *bucket
	lastID identity
}

func newTable(o *Options, n *namer) table {
	return table{
		o: o, namer: n, buckets: make(map[key]*bucket), names: make(map[route]string),
		sites: make(map[string]int),
	}
}

// resolve sets and returns the bucket of c. It may differ from that of an earlier look-up: since
// then the server may have named the limit of c, or the path of c may be apart.
func (t *table) resolve(c *call, now instant) *bucket {
	if t.last == nil || t.lastID != c.id {
		b := t.bucket(c, t.partOf(c), now) // may set last to nil
		t.last, t.lastID = b, c.id
	}
	c.bucket = t.last
	if paths := c.bucket.paths; paths != nil && paths.apart[c.path] {
		c.bucket = t.bucketOfPath(c, c.bucket, now)
	}
	return c.bucket
}

// bucketOfPath returns the bucket of the path of c, which is apart on host. It makes one if needed.
func (t *table) bucketOfPath(c *call, host *bucket, now instant) *bucket {
	if b := t.buckets[key{c.id.origin, c.path}]; b != nil {
		return b
	}
	host.children++ // before displace: without host, no request would find the bucket
	b := t.bucket(c, c.path, now)
	b.parent = host
	return b
}

// partOf returns the part of the bucket of c, as if no path were apart.
//
//	"core"                       GitHub has named the limit, or identifyGitHub has guessed it
//	"abcd channels/7"            Discord has named the limit "abcd"
//	"GET/channels/: channels/7"  Discord has not named it yet: ":" stands for the 7
func (t *table) partOf(c *call) string {
	if c.id.pattern == "" {
		return wholeOrigin
	}
	if name, ok := t.names[c.id.route]; ok {
		return name + c.id.major
	}
	return c.id.provisional
}

// bucket returns the bucket of a part of the origin of c. It makes one if needed.
func (t *table) bucket(c *call, part string, now instant) *bucket {
	k := key{c.id.origin, part}
	if b := t.buckets[k]; b != nil {
		return b
	}
	b := t.newBucket(k, c.header)
	if c.id.pattern != "" {
		b.account = t.accountOf(c, now)
		b.parent = b.account
		b.parent.children++ // from now on displace keeps the account
		b.major = c.id.major
		b.standIn = t.o.Dialect == Discord && part == c.id.provisional
	}
	t.add(b, now)
	return b
}

// accountOf returns the bucket of the account of c. It makes one if needed.
func (t *table) accountOf(c *call, now instant) *bucket {
	k := key{c.id.origin, wholeAccount}
	b := t.buckets[k]
	if b == nil {
		b = t.newBucket(k, c.header)
		b.common = newCommon(t.o)
		t.add(b, now)
	}
	return b
}

func (t *table) newBucket(k key, h http.Header) *bucket {
	b := &bucket{key: k, site: siteOf(k.host), name: t.namer.nameOf(k, h)}
	if t.o.Dialect.countsTokens() {
		b.tokens = new(tokens)
	}
	return b
}

// add adds a new bucket to the table. If the table is full, another one has to go.
func (t *table) add(b *bucket, now instant) {
	if len(t.buckets) >= maxBuckets {
		t.displace(now)
	}
	t.buckets[b.key] = b
	t.sites[b.site]++
}

// displace forgets a bucket that is not in use. It prefers one that holds nothing back. Otherwise
// it takes the site with the most buckets, and there the bucket that is free first:
//
//	1,000 buckets of evil.example are free tomorrow, and 24 of other sites in an hour:
//	one of evil.example goes
func (t *table) displace(now instant) {
	var victim *bucket
	var most int         // buckets of the site of victim
	var earliest instant // when victim is free
	for _, b := range t.buckets {
		if b.inUse() {
			continue
		}
		n, free := t.sites[b.site], b.freeAt()
		if free <= now {
			victim = b
			break
		}
		if n > most || n == most && free < earliest {
			victim, most, earliest = b, n, free
		}
	}
	if victim != nil {
		t.forget(victim)
	}
}

// forget removes b from the table.
func (t *table) forget(b *bucket) {
	delete(t.buckets, b.key)
	if t.sites[b.site]--; t.sites[b.site] == 0 {
		delete(t.sites, b.site)
	}
	t.last = nil
	if b.parent != nil {
		b.parent.children--
	}
}

// rename notes the name that the server gives the limit of a route. If there are too many names, it
// forgets an arbitrary one.
func (t *table) rename(r route, name string) {
	if _, known := t.names[r]; !known && len(t.names) >= maxBuckets {
		for other := range t.names {
			delete(t.names, other)
			break
		}
	}
	t.names[r] = name
	t.last = nil
}

// ofPath returns the bucket that counts c by its path, and the ticket of c there.
func (t *table) ofPath(c *call, a *answer, now instant) (*bucket, ticket) {
	b, tk := c.bucket, c.ticket
	silent := a.limited && a.wait <= 0 && !a.hopeless()
	if t.o.Dialect != Standard || t.o.Bucket != nil || b.key.part != wholeOrigin || c.path == "" ||
		b.paths == nil && !silent {
		return b, tk
	}
	if b.paths == nil {
		b.paths = &paths{make(map[string]bool), make(map[string]*suspect)}
	}
	apart, anew := b.paths.observe(c.path, now, tk.at, a.limited && !a.hopeless(), silent)
	if !apart {
		return b, tk
	}
	if anew {
		b.forgive()
		b.queue.move(c.path)
	}
	own := t.bucketOfPath(c, b, now)
	return own, tk.movedTo(&own.flight)
}

// ofName returns the bucket that counts c by the name in its answer, and the ticket of c there.
// strays requests are in flight in other buckets; the server may decide them after c.
func (t *table) ofName(c *call, a *answer, now instant) (b *bucket, tk ticket, strays int) {
	b, tk = c.bucket, c.ticket
	if a.name == "" {
		return b, tk, 0
	}
	if major, ok := strings.CutPrefix(b.key.part, a.name); !ok || major != c.id.major {
		if named := t.named(c, a.name, now); named != b {
			strays = int(b.flight.flying())
			b.opening.answered = true
			b, tk = named, tk.movedTo(&named.flight)
		}
	}
	if t.o.Dialect == Discord {
		strays = b.account.common.strays[c.id.major]
	}
	return b, tk, strays
}

// named returns the bucket that an answer to c has named. Calls that wait in a bucket that stood in
// for it move there.
func (t *table) named(c *call, name string, now instant) *bucket {
	if t.names[c.id.route] != name {
		t.rename(c.id.route, name)
	}
	named := t.bucket(c, name+c.id.major, now)
	old := c.bucket
	if old != named && t.o.Dialect == Discord && old.key.part == c.id.provisional {
		if t.buckets[old.key] == old {
			t.forget(old)
		}
		old.queue.move("")
	}
	return named
}
