package client

import (
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

// maxBuckets is how many buckets are kept that are not in use.
const maxBuckets = 1024

// maxName is how long the name may be that a server gives to a bucket.
const maxName = 128

// key tells buckets apart. It holds no credential.
type key struct {
	scheme, host string // host alone is what Options.Bucket returned
	credential   uint64
	route        string // of a dialect; accountRoute for what all requests have in common
}

const accountRoute = "\x00"

// identity is what a request says about its bucket.
type identity struct {
	key         key
	major       string // of Discord: what a named bucket is divided by
	provisional string // of Discord: route before the server has named its bucket
	writes      bool   // changes something, by GitHub's rules
	free        bool   // does not count against Options.Account
}

type table struct {
	buckets map[key]*bucket
	names   map[key]string // of a dialect: route to the name that the server has given it
	sites   map[string]int // buckets of each site

	// The bucket that was looked up last. Most programs send many requests to one server in a
	// row: to compare two identities spares a fifth of what a request costs.
	recent   *bucket
	recentID identity
}

func newTable() table {
	return table{buckets: make(map[key]*bucket), names: make(map[key]string), sites: make(map[string]int)}
}

// identify finds out which bucket counts a request.
func (p *pacer) identify(r *http.Request) (id identity) {
	switch {
	case p.bucketName != nil:
		id.key.host = p.bucketName(r)
	case r.URL != nil:
		id.key = p.keyOf(r.URL.Scheme, r.URL.Host, r.Header)
	}
	switch {
	case r.URL == nil:
	case p.dialect == GitHub:
		identifyGitHub(r, &id)
	case p.dialect == Discord:
		identifyDiscord(r, &id)
	}
	return id
}

// keyOf returns the default key of a request to a host. RoundTrippers take schemes in lower case
// alone, as url.Parse makes them.
func (p *pacer) keyOf(scheme, host string, h http.Header) key {
	k := key{scheme: scheme, host: strings.ToLower(host)}
	switch scheme {
	case "https":
		k.host = strings.TrimSuffix(k.host, ":443")
	case "http":
		k.host = strings.TrimSuffix(k.host, ":80")
	}
	if a := first(h, "Authorization"); a != "" {
		k.credential = maphash.String(p.seed, a)
	}
	return k
}

// resolve sets the bucket of c, by what is known of names now.
func (p *pacer) resolve(c *call) *bucket {
	if p.table.recent == nil || p.table.recentID != c.id {
		b := p.find(c) // which may forget the recent one
		p.table.recent, p.table.recentID = b, c.id
	}
	c.bucket = p.table.recent
	if of := c.bucket.paths; of != nil && of.apart[c.path] {
		c.bucket = p.bucketOfPath(c)
	}
	return c.bucket
}

// find returns the bucket of c, before its path is looked at.
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

// bucket returns the bucket of a key, which may be a new one.
func (p *pacer) bucket(k key, c *call) *bucket {
	if b := p.table.buckets[k]; b != nil {
		return b
	}
	b := &bucket{key: k, site: siteOf(k.host), name: p.nameOf(k, c.header)}
	if k.route == accountRoute {
		b.shared = new(shared)
		b.shared.sendings.init(p.account)
		switch p.dialect {
		case GitHub:
			b.shared.writes.init()
		case Discord:
			b.shared.invalid.init(limits.Rate{Units: maxInvalid, Period: 10 * time.Minute})
		}
	}
	if k.route != "" && k.route != accountRoute && p.dialect != Standard {
		account := k
		account.route = accountRoute
		b.account = p.bucket(account, c)
		b.account.shared.children++
		b.standIn, b.major = p.dialect == Discord && k.route == c.id.provisional, c.id.major
	}
	if len(p.table.buckets) >= maxBuckets {
		p.displace()
	}
	p.table.buckets[k] = b
	p.table.sites[b.site]++
	return b
}

// displace forgets a bucket that is not in use: one that holds nothing back, if there is one. Of the
// others it is one of the site with the most buckets, and of those the one that is free first: a
// domain whose wildcard names a thousand hosts displaces its own.
func (p *pacer) displace() {
	now := p.now()
	var worst *bucket
	var until instant
	for _, b := range p.table.buckets {
		if b.inUse() {
			continue
		}
		free := b.free()
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
	p.table.recent = nil
	if b.account != nil {
		b.account.shared.children--
	}
}

// siteOf returns what hosts have in common that one owner can name as he likes: the last two labels of
// a name; of addresses an IPv4 address, or a /64 of IPv6. Ports do not count.
func siteOf(host string) string {
	host, _, _ = strings.Cut(host, "/") // of a name that Options.Bucket returned
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	if a, err := netip.ParseAddr(strings.Trim(host, "[]")); err == nil {
		if a.Is6() {
			site, _ := a.Prefix(64)
			return site.String()
		}
		return host
	}
	if i := strings.LastIndexByte(host, '.'); i > 0 {
		return host[strings.LastIndexByte(host[:i], '.')+1:]
	}
	return host
}

// rename notes that a server gave a route a name.
func (p *pacer) rename(k key, name string) {
	if _, known := p.table.names[k]; !known && len(p.table.names) >= maxBuckets {
		for other := range p.table.names {
			delete(p.table.names, other)
			break
		}
	}
	p.table.names[k] = name
	p.table.recent = nil
}

// nameIn returns the name that a server gives to a bucket in a field; "" if it cannot be one.
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

// nameOf returns the name of a bucket, the same in every process, with a digest in place of
// a credential.
func (p *pacer) nameOf(k key, h http.Header) string {
	name := k.host
	if p.bucketName == nil {
		name = k.scheme + "://" + k.host
		if k.credential != 0 {
			name += " " + digest(first(h, "Authorization"))
		}
	}
	if k.route != "" && k.route != accountRoute {
		name += " " + k.route
	}
	return name
}

// digest returns a text that tells secrets apart and reveals none.
func digest(secret string) string {
	sum := sha256.Sum256([]byte(secret))
	return hex.EncodeToString(sum[:12])
}
