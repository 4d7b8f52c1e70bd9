package client

import (
	"crypto/sha256"
	"encoding/hex"
	"hash/maphash"
	"net/http"
	"strings"
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

	// The bucket that was looked up last. Most programs send many requests to one server in a
	// row: to compare two identities spares a fifth of what a request costs.
	recent   *bucket
	recentID identity
}

func newTable() table { return table{buckets: make(map[key]*bucket), names: make(map[key]string)} }

// identify finds out which bucket counts c.
func (t *Transport) identify(c *call) {
	r := c.request
	if t.bucketName != nil {
		c.id.key.host = t.bucketName(r)
	} else if r.URL != nil {
		c.id.key.scheme, c.id.key.host = originOf(r)
		if a := first(r.Header, "Authorization"); a != "" {
			c.id.key.credential = maphash.String(t.seed, a)
		}
	}
	switch {
	case r.URL == nil:
	case t.dialect == GitHub:
		identifyGitHub(r, &c.id)
	case t.dialect == Discord:
		identifyDiscord(r, &c.id)
	}
}

// originOf returns the scheme and host of r's origin. RoundTrippers take schemes in lower case
// alone, as url.Parse makes them.
func originOf(r *http.Request) (scheme, host string) {
	scheme, host = r.URL.Scheme, strings.ToLower(r.URL.Host)
	switch scheme {
	case "https":
		host = strings.TrimSuffix(host, ":443")
	case "http":
		host = strings.TrimSuffix(host, ":80")
	}
	return scheme, host
}

// resolve sets the bucket of c, by what is known of names now.
func (t *Transport) resolve(c *call) *bucket {
	if t.table.recent != nil && t.table.recentID == c.id {
		c.bucket = t.table.recent
		return c.bucket
	}
	k := c.id.key
	if k.route != "" {
		if name, ok := t.table.names[k]; ok {
			k.route = name + c.id.major
		} else {
			k.route = c.id.provisional
		}
	}
	c.bucket = t.bucket(k, c)
	t.table.recent, t.table.recentID = c.bucket, c.id
	return c.bucket
}

// bucket returns the bucket of a key, which may be a new one.
func (t *Transport) bucket(k key, c *call) *bucket {
	if b := t.table.buckets[k]; b != nil {
		return b
	}
	b := &bucket{key: k, name: t.nameOf(k, c.request)}
	if k.route == accountRoute {
		b.sendings.init(t.account)
	}
	if k.route != "" && k.route != accountRoute {
		account := k
		account.route = accountRoute
		b.account = t.bucket(account, c)
		b.account.children++
		b.standIn, b.major = t.dialect == Discord && k.route == c.id.provisional, c.id.major
	}
	if len(t.table.buckets) >= maxBuckets {
		t.displace()
	}
	t.table.buckets[k] = b
	return b
}

// displace forgets the bucket that is free first, if one is not in use.
func (t *Transport) displace() {
	now := t.now()
	var soonest *bucket
	at := unknown
	for _, b := range t.table.buckets {
		if free := max(b.free(), now); !b.inUse() && (soonest == nil || free < at) {
			if soonest, at = b, free; at == now {
				break
			}
		}
	}
	if soonest != nil {
		t.forget(soonest)
	}
}

func (t *Transport) forget(b *bucket) {
	delete(t.table.buckets, b.key)
	t.table.recent = nil
	if b.account != nil {
		b.account.children--
	}
}

// learn notes that a server gave a route a name.
func (t *Transport) learn(k key, name string) {
	if _, known := t.table.names[k]; !known && len(t.table.names) >= maxBuckets {
		for other := range t.table.names {
			delete(t.table.names, other)
			break
		}
	}
	t.table.names[k] = name
	t.table.recent = nil
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
func (t *Transport) nameOf(k key, r *http.Request) string {
	name := k.host
	if t.bucketName == nil {
		name = k.scheme + "://" + k.host
		if k.credential != 0 {
			name += " " + digest(first(r.Header, "Authorization"))
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
