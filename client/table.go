package client

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"hash/maphash"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/weir-go/weir/limits"
)

const (
	// maxBuckets is how many buckets a pacer has before a new one displaces another, unless all are
	// in use. It is also how many names of routes a pacer keeps.
	maxBuckets = 1024

	maxName = 128 // bytes of the name that a server gives a bucket
)

// key identifies a bucket. It holds no credential.
type key struct {
	scheme     string // "" if Options.Bucket returned host
	host       string
	credential uint64 // a hash of pacer.credential, by a secret seed; 0: none

	// route is "" for a bucket of all paths of a host. It is accountRoute for an account, and the
	// path for a path that is apart (see paths). With a dialect it is the route of a request in an
	// identity and in table.names. In table.buckets it is then the name that the server has given
	// that route, or the provisional one.
	route string
}

const accountRoute = "\x00"

// identity is what a request tells about its bucket.
type identity struct {
	key         key
	major       string // of Discord: a name is a bucket for each major; see identifyDiscord
	provisional string // stands for the name until the server has named the route
	writes      bool   // changes something, by the rules of GitHub
	exempt      bool   // does not count against Options.Account
}

type table struct {
	buckets map[key]*bucket
	names   map[key]string // of a dialect: the name that the server has given a route
	sites   map[string]int // buckets of each site

	// The latest look-up. Most programs send many requests to one server in a row: comparing two
	// identities takes a fifth off the cost of a request.
	last   *bucket
	lastID identity
}

func newTable() table {
	return table{
		buckets: make(map[key]*bucket), names: make(map[key]string), sites: make(map[string]int),
	}
}

// identify finds out which bucket counts a request.
func (p *pacer) identify(r *http.Request) (id identity) {
	switch {
	case p.o.Bucket != nil:
		id.key.host = p.o.Bucket(r)
	case r.URL != nil:
		id.key = p.keyOf(r.URL.Scheme, r.URL.Host, r.Header)
	}
	switch {
	case r.URL == nil:
	case p.o.Dialect == GitHub:
		identifyGitHub(r, &id)
	case p.o.Dialect == Discord:
		identifyDiscord(r, &id)
	}
	return id
}

// keyOf returns the default key of a request. Schemes are in lower case, as url.Parse returns them.
func (p *pacer) keyOf(scheme, host string, h http.Header) key {
	k := key{scheme: scheme, host: strings.ToLower(host)}
	switch scheme {
	case "https":
		k.host = strings.TrimSuffix(k.host, ":443")
	case "http":
		k.host = strings.TrimSuffix(k.host, ":80")
	}
	if a := p.credential(h); a != "" {
		k.credential = maphash.String(p.seed, a)
	}
	return k
}

// credential returns what tells the accounts of a server apart.
func (p *pacer) credential(h http.Header) string {
	if p.o.Dialect == Anthropic {
		return cmp.Or(first(h, "X-Api-Key"), first(h, "Authorization"))
	}
	return first(h, "Authorization")
}

// resolve sets and returns the bucket of c. It may differ from that of an earlier look-up: since
// then the server may have named the route of c, or the path of c may be apart.
func (p *pacer) resolve(c *call) *bucket {
	if p.table.last == nil || p.table.lastID != c.id {
		b := p.find(c) // before lastID is set: find may forget last
		p.table.last, p.table.lastID = b, c.id
	}
	c.bucket = p.table.last
	if paths := c.bucket.paths; paths != nil && paths.apart[c.path] {
		c.bucket = p.bucketOfPath(c)
	}
	return c.bucket
}

// find returns the bucket of c, as if no path were apart.
func (p *pacer) find(c *call) *bucket {
	k := c.id.key
	if k.route != "" {
		if name, ok := p.table.names[k]; ok {
			k.route = name + c.id.major
		} else {
			k.route = c.id.provisional
		}
	}
	return p.bucket(k, c)
}

// bucket returns the bucket of k. For a new k it makes one, for c.
func (p *pacer) bucket(k key, c *call) *bucket {
	if b := p.table.buckets[k]; b != nil {
		return b
	}
	b := &bucket{key: k, site: siteOf(k.host), name: p.nameOf(k, c.header)}
	if p.o.Dialect.countsTokens() {
		b.tokens = new(tokens)
	}
	switch {
	case k.route == accountRoute:
		b.common = new(common)
		b.common.sendings.init(p.o.Account)
		switch p.o.Dialect {
		case GitHub:
			b.common.writes.init()
		case Discord:
			b.common.invalid.init(limits.Rate{Units: maxInvalid, Period: 10 * time.Minute})
		}
	case k.route != "" && p.o.Dialect != Standard:
		account := k
		account.route = accountRoute
		b.account = p.bucket(account, c)
		b.account.common.children++ // from now on displace keeps the account
		b.standIn = p.o.Dialect == Discord && k.route == c.id.provisional
		b.major = c.id.major
	}
	if len(p.table.buckets) >= maxBuckets {
		p.displace()
	}
	p.table.buckets[k] = b
	p.table.sites[b.site]++
	return b
}

// displace forgets a bucket that is not in use. It prefers one that holds nothing back. Otherwise
// it takes the site with the most buckets, and there the bucket that is free first:
//
//	1,000 hosts of evil.example, free tomorrow; 24 other sites, free in an hour
//	a host of evil.example goes
func (p *pacer) displace() {
	now := p.now()
	var worst *bucket
	var until instant
	for _, b := range p.table.buckets {
		if b.inUse() {
			continue
		}
		free := b.freeAt()
		if free <= now {
			worst = b
			break
		}
		more := 0
		if worst != nil {
			more = p.table.sites[b.site] - p.table.sites[worst.site]
		}
		if worst == nil || more > 0 || more == 0 && free < until {
			worst, until = b, free
		}
	}
	if worst != nil {
		p.forget(worst)
	}
}

func (p *pacer) forget(b *bucket) {
	delete(p.table.buckets, b.key)
	if p.table.sites[b.site]--; p.table.sites[b.site] == 0 {
		delete(p.table.sites, b.site)
	}
	p.table.last = nil
	if b.account != nil {
		b.account.common.children--
	}
}

// siteOf returns the part of a host that its owner cannot vary freely: the last two labels of a
// name, an IPv4 address, or the /64 of an IPv6 address. Ports and a final dot do not count.
//
//	a.b.example.com:8080 is example.com, [2001:db8::1]:80 is 2001:db8::/64
func siteOf(host string) string {
	host, _, _ = strings.Cut(host, "/") // Options.Bucket may return a path, too
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.TrimSuffix(host, ".") // of a fully qualified name
	if a, err := netip.ParseAddr(strings.Trim(host, "[]")); err == nil {
		if a = a.Unmap(); a.Is4() {
			return a.String()
		}
		site, _ := a.Prefix(64)
		return site.String()
	}
	if i := strings.LastIndexByte(host, '.'); i > 0 {
		return host[strings.LastIndexByte(host[:i], '.')+1:]
	}
	return host
}

// rename notes the name that a server gave the route of k. If there are too many names, it forgets
// any other one.
func (p *pacer) rename(k key, name string) {
	if _, known := p.table.names[k]; !known && len(p.table.names) >= maxBuckets {
		for other := range p.table.names {
			delete(p.table.names, other)
			break
		}
	}
	p.table.names[k] = name
	p.table.last = nil
}

// nameIn returns the name that a server gives a bucket in a field; "" if the value is unusable.
func nameIn(h http.Header, field string) string {
	name := first(h, field)
	if len(name) > maxName {
		return ""
	}
	for i := range len(name) {
		if name[i] <= ' ' {
			return ""
		}
	}
	return name
}

// nameOf returns the name of a bucket. It is the same in every process, and holds a digest in place
// of a credential.
func (p *pacer) nameOf(k key, h http.Header) string {
	name := k.host
	if p.o.Bucket == nil {
		name = k.scheme + "://" + k.host
		if k.credential != 0 {
			name += " " + digest(p.credential(h))
		}
	}
	if k.route != "" && k.route != accountRoute {
		name += " " + k.route
	}
	return name
}

// digest returns a text that tells secrets apart. A secret that is easy to guess can be found from
// its digest.
func digest(secret string) string {
	sum := sha256.Sum256([]byte(secret))
	return hex.EncodeToString(sum[:12])
}
