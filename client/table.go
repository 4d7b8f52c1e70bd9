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

	"github.com/weir-go/weir/client/internal/quota"
)

const (
	// maxBuckets is how many buckets a pacer has before a new one displaces another, unless all are
	// in use. It is also how many names of limits a pacer keeps.
	maxBuckets = 1024

	maxName = 128 // bytes of the name that a server gives a limit
)

// origin is a server and a credential. It does not hold the credential itself.
type origin struct {
	scheme     string // "" if Options.Bucket is set
	host       string // the result of Options.Bucket if that is set
	credential uint64 // a hash of the credential by a secret seed; 0: no credential
}

// key identifies a bucket.
type key struct {
	origin
	part string // of the origin, as follows
}

// The part of a bucket is one of these:
//
//	wholeOrigin    all requests
//	"/login"       a path that is apart: see paths
//	wholeAccount   all requests of an account of GitHub or Discord
//	other texts    a limit of GitHub or Discord: see partOf
const (
	wholeOrigin  = ""
	wholeAccount = "\x00"
)

// identity is what a request tells about its bucket.
type identity struct {
	route
	major       string // " channels/7" of Discord: a limit counts the requests of each apart
	provisional string // part of the bucket until the server has named the limit
	writes      bool   // changes something, by the rules of GitHub
	exempt      bool   // does not count against Options.Account
}

// route is a group of requests of GitHub or Discord. Answers name the limit that counts it.
type route struct {
	origin
	pattern string // what the requests have in common, such as "search"; "" in other dialects
}

// table holds the buckets of a pacer.
type table struct {
	buckets map[key]*bucket
	names   map[route]string // of the limits of routes, as the server names them
	sites   map[string]int   // how many buckets each site has

	// The latest look-up. Most programs send many requests to one server in a row. Then this saves
	// a fifth of the cost of a request.
	last   *bucket
	lastID identity
}

func newTable() table {
	return table{
		buckets: make(map[key]*bucket), names: make(map[route]string), sites: make(map[string]int),
	}
}

// identify returns the identity of a request.
func (p *pacer) identify(r *http.Request) (id identity) {
	if p.o.Bucket != nil {
		id.host = p.o.Bucket(r)
	}
	if r.URL == nil { // Options.Base returns the error
		return id
	}
	if p.o.Bucket == nil {
		id.origin = p.originOf(r.URL.Scheme, r.URL.Host, r.Header)
	}
	switch p.o.Dialect {
	case GitHub:
		identifyGitHub(r, &id)
	case Discord:
		identifyDiscord(r, &id)
	}
	return id
}

// originOf returns the default origin. Schemes are in lower case, as url.Parse returns them.
func (p *pacer) originOf(scheme, host string, h http.Header) origin {
	o := origin{scheme: scheme, host: strings.ToLower(host)}
	switch scheme {
	case "https":
		o.host = strings.TrimSuffix(o.host, ":443")
	case "http":
		o.host = strings.TrimSuffix(o.host, ":80")
	}
	if a := p.credential(h); a != "" {
		o.credential = maphash.String(p.seed, a)
	}
	return o
}

// credential returns what tells the accounts of a server apart.
func (p *pacer) credential(h http.Header) string {
	if p.o.Dialect == Anthropic {
		return cmp.Or(quota.First(h, "X-Api-Key"), quota.First(h, "Authorization"))
	}
	return quota.First(h, "Authorization")
}

// resolve sets and returns the bucket of c. It may differ from that of an earlier look-up: since
// then the server may have named the limit of c, or the path of c may be apart.
func (p *pacer) resolve(c *call) *bucket {
	if p.table.last == nil || p.table.lastID != c.id {
		b := p.bucket(c, p.partOf(c)) // may set last to nil
		p.table.last, p.table.lastID = b, c.id
	}
	c.bucket = p.table.last
	if paths := c.bucket.paths; paths != nil && paths.apart[c.path] {
		c.bucket = p.bucketOfPath(c, c.bucket)
	}
	return c.bucket
}

// bucketOfPath returns the bucket of the path of c, which is apart on host. It makes one if needed.
func (p *pacer) bucketOfPath(c *call, host *bucket) *bucket {
	if b := p.table.buckets[key{c.id.origin, c.path}]; b != nil {
		return b
	}
	host.children++ // before displace: without host, no request would find the bucket
	b := p.bucket(c, c.path)
	b.parent = host
	return b
}

// partOf returns the part of the bucket of c, as if no path were apart.
//
//	"core"                       GitHub has named the limit, or identifyGitHub has guessed it
//	"abcd channels/7"            Discord has named the limit "abcd"
//	"GET/channels/: channels/7"  Discord has not named it yet: ":" stands for the 7
func (p *pacer) partOf(c *call) string {
	if c.id.pattern == "" {
		return wholeOrigin
	}
	if name, ok := p.table.names[c.id.route]; ok {
		return name + c.id.major
	}
	return c.id.provisional
}

// bucket returns the bucket of a part of the origin of c. It makes one if needed.
func (p *pacer) bucket(c *call, part string) *bucket {
	k := key{c.id.origin, part}
	if b := p.table.buckets[k]; b != nil {
		return b
	}
	b := p.newBucket(k, c.header)
	if c.id.pattern != "" {
		b.account = p.accountOf(c)
		b.parent = b.account
		b.parent.children++ // from now on displace keeps the account
		b.major = c.id.major
		b.standIn = p.o.Dialect == Discord && part == c.id.provisional
	}
	p.add(b)
	return b
}

// accountOf returns the bucket of the account of c. It makes one if needed.
func (p *pacer) accountOf(c *call) *bucket {
	k := key{c.id.origin, wholeAccount}
	b := p.table.buckets[k]
	if b == nil {
		b = p.newBucket(k, c.header)
		b.common = newCommon(&p.o)
		p.add(b)
	}
	return b
}

func (p *pacer) newBucket(k key, h http.Header) *bucket {
	b := &bucket{key: k, site: siteOf(k.host), name: p.nameOf(k, h)}
	if p.o.Dialect.countsTokens() {
		b.tokens = new(tokens)
	}
	return b
}

// add adds a new bucket to the table. If the table is full, another one has to go.
func (p *pacer) add(b *bucket) {
	if len(p.table.buckets) >= maxBuckets {
		p.displace()
	}
	p.table.buckets[b.key] = b
	p.table.sites[b.site]++
}

// displace forgets a bucket that is not in use. It prefers one that holds nothing back. Otherwise
// it takes the site with the most buckets, and there the bucket that is free first:
//
//	1,000 buckets of evil.example are free tomorrow, and 24 of other sites in an hour:
//	one of evil.example goes
func (p *pacer) displace() {
	now := p.now()
	var victim *bucket
	var most int         // buckets of the site of victim
	var earliest instant // when victim is free
	for _, b := range p.table.buckets {
		if b.inUse() {
			continue
		}
		n, free := p.table.sites[b.site], b.freeAt()
		if free <= now {
			victim = b
			break
		}
		if n > most || n == most && free < earliest {
			victim, most, earliest = b, n, free
		}
	}
	if victim != nil {
		p.forget(victim)
	}
}

// forget removes b from the table.
func (p *pacer) forget(b *bucket) {
	delete(p.table.buckets, b.key)
	if p.table.sites[b.site]--; p.table.sites[b.site] == 0 {
		delete(p.table.sites, b.site)
	}
	p.table.last = nil
	if b.parent != nil {
		b.parent.children--
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

// rename notes the name that the server gives the limit of a route. If there are too many names, it
// forgets an arbitrary one.
func (p *pacer) rename(r route, name string) {
	if _, known := p.table.names[r]; !known && len(p.table.names) >= maxBuckets {
		for other := range p.table.names {
			delete(p.table.names, other)
			break
		}
	}
	p.table.names[r] = name
	p.table.last = nil
}

// nameIn returns the name of a limit in a field; "" if the value is unusable.
func nameIn(h http.Header, field string) string {
	name := quota.First(h, field)
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
	if k.part != wholeOrigin && k.part != wholeAccount {
		name += " " + k.part
	}
	return name
}

// digest returns a text that tells secrets apart. A secret that is easy to guess can be found from
// its digest.
func digest(secret string) string {
	sum := sha256.Sum256([]byte(secret))
	return hex.EncodeToString(sum[:12])
}
