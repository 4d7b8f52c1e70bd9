package quota

import (
	"net/http"
	"slices"
	"strings"

	"github.com/weir-go/weir/internal/http/structured"
)

// origin is where an answer comes from, as one field says.
type origin uint8

const (
	unsaid origin = iota
	miss          // the server has answered this request
	hit           // a cache has: what the answer tells was told to another request
)

// marks are fields by which caches say where an answer comes from. Age alone does not do: nginx
// does not send it, and Varnish sends it with every answer. In most of them a word says it, such as
// HIT, TCP_MEM_HIT, RefreshHit or HIT-STALE; some have more words. "Run" means that the program was
// run.
var marks = [...]struct {
	field string // its canonical name
	words string // beside those with "hit"
	read  func(values []string, words string) origin
}{
	// Caches that follow RFC 9211, section 2.1.
	{"Cache-Status", "", cacheStatus},
	// Apache 2.4 (with CacheHeader on) and Squid 5.7, both run. Fastly:
	// www.fastly.com/documentation/reference/http/http-headers/X-Cache. CloudFront:
	// repost.aws/knowledge-center/cloudfront-x-cachemiss-error. Azure:
	// learn.microsoft.com/azure/cdn/cdn-msft-http-debug-headers. Akamai, if asked for it:
	// techdocs.akamai.com/edge-diagnostics/docs/pragma-headers.
	{"X-Cache", "", words},
	// nginx 1.22, run, with add_header X-Cache-Status $upstream_cache_status:
	// nginx.org/en/docs/http/ngx_http_upstream_module.html. After a 304 the stored fields are sent.
	{"X-Cache-Status", "STALE UPDATING REVALIDATED", words},
	// Cloudflare: developers.cloudflare.com/cache/concepts/cache-responses.
	{"Cf-Cache-Status", "STALE UPDATING REVALIDATED", words},
	// Akamai: techdocs.akamai.com/terraform, behaviour "Return Cache Status".
	{"Akamai-Cache-Status", "", words},
	// Vercel: vercel.com/docs/caching/cache-status.
	{"X-Vercel-Cache", "STALE PRERENDER", words},
	// Varnish 7.1, run: the number of the request, and on a hit that of the request that was stored.
	{"X-Varnish", "", varnish},
}

// FromCache reports whether a cache has answered, so that what the answer tells is about the
// request of another client, or about an earlier one.
func FromCache(h http.Header) bool {
	if _, ok := h["X-From-Cache"]; ok { // caches of clients in Go, such as gregjones/httpcache
		return true
	}
	said := unsaid
	for i := range marks {
		if values := h[marks[i].field]; len(values) > 0 {
			said = max(said, marks[i].read(values, marks[i].words))
		}
	}
	age, aged := h["Age"]
	return said == hit || aged && !(said == miss && len(age) == 1 && age[0] == "0")
}

// cacheStatus reads a List of caches: "hit" is a parameter. A malformed field says nothing.
func cacheStatus(values []string, _ string) origin {
	if size(values) > maxStructured {
		return unsaid
	}
	said := unsaid
	caches := structured.List(values)
	for caches.Member() {
		if !isName(caches.Value) {
			continue
		}
		from := miss
		for caches.Parameter() {
			if caches.Key == "hit" {
				if from = miss; caches.Value.Kind == structured.Boolean && caches.Value.N == 1 {
					from = hit
				}
			}
		}
		said = max(said, from)
	}
	if caches.Malformed() {
		return unsaid
	}
	return said
}

// words reads a list of caches, each of which begins with a word: one hit on the way is enough.
//
//	MISS, HIT
//	TCP_MEM_HIT from a118-214-191-15 (AkamaiGHost/6.7.0.2)
func words(values []string, others string) origin {
	said := unsaid
	if size(values) > maxList {
		return said
	}
	for i := range maxLimits {
		text, more := element(values, i)
		if !more {
			break
		}
		word, _, _ := strings.Cut(strings.TrimSpace(text), " ")
		switch {
		case contains(word, "miss"):
			said = max(said, miss)
		case contains(word, "hit") && !contains(word, "pass"), // HITPASS: was not stored
			word != "" && slices.ContainsFunc(strings.Fields(others), func(other string) bool {
				return strings.EqualFold(word, other)
			}):
			return hit
		}
	}
	return said
}

// contains reports whether word contains part, in upper or lower case.
func contains(word, part string) bool {
	for i := range max(len(word)-len(part)+1, 0) {
		if strings.EqualFold(word[i:i+len(part)], part) {
			return true
		}
	}
	return false
}

// varnish reads the numbers of Varnish: "32770 3" is a hit, and "32772" none.
func varnish(values []string, _ string) origin {
	first, second, two := strings.Cut(values[0], " ")
	switch {
	case !Digits(first) || two && !Digits(second):
		return unsaid
	case two:
		return hit
	}
	return miss
}
