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

const maxName = 128 // bytes of the name that a server gives a limit

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

// namer tells the buckets of requests apart.
type namer struct {
	bucket  func(*http.Request) string // Options.Bucket, or nil
	dialect Dialect
	seed    maphash.Seed
}

// identify returns the identity of a request.
func (n *namer) identify(r *http.Request) (id identity) {
	if n.bucket != nil {
		id.host = n.bucket(r)
	}
	if r.URL == nil { // Options.Base returns the error
		return id
	}
	if n.bucket == nil {
		id.origin = n.originOf(r.URL.Scheme, r.URL.Host, r.Header)
	}
	switch n.dialect {
	case GitHub:
		identifyGitHub(r, &id)
	case Discord:
		identifyDiscord(r, &id)
	}
	return id
}

// originOf returns the default origin. Schemes are in lower case, as url.Parse returns them.
func (n *namer) originOf(scheme, host string, h http.Header) origin {
	o := origin{scheme: scheme, host: strings.ToLower(host)}
	switch scheme {
	case "https":
		o.host = strings.TrimSuffix(o.host, ":443")
	case "http":
		o.host = strings.TrimSuffix(o.host, ":80")
	}
	if a := n.credential(h); a != "" {
		o.credential = maphash.String(n.seed, a)
	}
	return o
}

// credential returns what tells the accounts of a server apart.
func (n *namer) credential(h http.Header) string {
	if n.dialect == Anthropic {
		return cmp.Or(quota.First(h, "X-Api-Key"), quota.First(h, "Authorization"))
	}
	return quota.First(h, "Authorization")
}

// nameOf returns the name of a bucket. It is the same in every process, and holds a digest in place
// of a credential.
func (n *namer) nameOf(k key, h http.Header) string {
	name := k.host
	if n.bucket == nil {
		name = k.scheme + "://" + k.host
		if k.credential != 0 {
			name += " " + digest(n.credential(h))
		}
	}
	if k.part != wholeOrigin && k.part != wholeAccount {
		name += " " + k.part
	}
	return name
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

// digest returns a text that tells secrets apart. A secret that is easy to guess can be found from
// its digest.
func digest(secret string) string {
	sum := sha256.Sum256([]byte(secret))
	return hex.EncodeToString(sum[:12])
}
