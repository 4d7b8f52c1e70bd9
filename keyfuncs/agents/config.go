package agents

import (
	"cmp"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/weir-go/weir/keyfuncs/agents/internal/directory"
)

// Config configures a [Verifier]. Authorities is required, and Directories unless Unlisted is set.
type Config struct {
	// Directories are the directories whose signers are known.
	Directories []Directory

	// Authorities are the names of the site, as clients write them into Host or :authority: such as
	// "example.com", "*.example.com" for all its subdomains, and "example.com:8443" with a port that
	// is not the default of the scheme. A signature for another name is invalid: another site that an
	// agent visits could send it here. "*" means any name. Use it only if a request for a foreign
	// name does not reach the limiter. Required.
	Authorities []string

	// Scheme is the scheme of the site's URLs as clients see them, whatever proxies speak: https or
	// http. "": https.
	Scheme string

	// Components are what a signature must cover, besides @authority or @target-uri and its
	// Signature-Agent: such as "@method", "@path" and "@query", or the name of a field in lower case,
	// which the request must then have. A signature that covers @authority alone is good for any
	// request to the site until it expires.
	Components []string

	// MaxLifetime is the longest time from created to expires. A signature that lasts longer is
	// invalid. Set it as short as your agents allow: [Verifier.Once] remembers each nonce for so
	// long. 0: 24 hours, which the draft recommends as the most.
	MaxLifetime time.Duration

	// MaxSkew is how far the clock of a signer may be ahead. 0: 30 seconds. Negative: none.
	MaxSkew time.Duration

	// RequireNonce makes a signature without a nonce invalid. [Verifier.Once] counts no others.
	RequireNonce bool

	// Unlisted is how many directories that are not among Directories the Verifier may fetch and
	// keep, because a request names them. A stranger then chooses which hosts this process asks,
	// though only public addresses, port 443, and four at a time. Agents of such directories count
	// together by their registered domain: see [Agent]. When there is no room, a further one is not
	// verified, unless another was never reached or not used for an hour, or another domain has
	// several. 0: none, so that no request causes a fetch from a host that is not listed.
	Unlisted int

	// Transport fetches directories. nil: one that connects to public addresses alone, and to no
	// proxy. Redirects are not followed, whatever it does.
	Transport http.RoundTripper

	// Previous is a Verifier that this one replaces, such as after a change of configuration. Listed
	// directories that both have keep their keys, their Transport and their OnFetch. nil: none.
	Previous *Verifier

	// OnFetch is called after each fetch of a directory, with its URL and how many keys it has, or
	// why it failed. It is for logs and metrics. nil: no calls.
	OnFetch func(url string, keys int, err error)
}

// Directory is a directory of keys: the identity of an agent.
type Directory struct {
	// URL is what agents send in Signature-Agent. An origin such as https://bot.example means the
	// directory at the well-known path of the host. Signature-Agent may then name either. Required.
	URL string

	// Name is the agent's name: the key that it counts by. Agents of equal names count together. It
	// has 1 to 128 printable ASCII characters, and does not begin with "unlisted:". "": the host of URL,
	// with its port unless that is 443.
	Name string

	// Keys is the JSON Web Key Set of the directory, which is then never fetched: what its URL
	// serves, or the result of [KeySet]. nil: fetched from URL when a request first needs it, and
	// again when it has expired.
	Keys []byte
}

const (
	defaultLifetime = 24 * time.Hour
	defaultSkew     = 30 * time.Second
	maxName         = 128
	maxUnlisted     = 100_000
)

// source is a directory and the name of its agents.
type source struct {
	name   string
	id     string
	listed bool
	keys   directory.Keys       // that the program has given; nil: fetched
	remote *directory.Directory // nil: keys are given
}

// compile checks config, and returns its directories by each spelling of their URL.
func (c *Config) compile() (map[string]*source, error) {
	var errs []error
	wrong := func(format string, a ...any) { errs = append(errs, fmt.Errorf("agents: "+format, a...)) }
	if len(c.Directories) == 0 && c.Unlisted == 0 {
		wrong("Directories is required: list the directories of agents that you know, or set Unlisted")
	}
	if len(c.Authorities) == 0 {
		wrong("Authorities is required: list the names of the site, such as example.com")
	}
	for i, name := range c.Authorities {
		if !isAuthority(name) {
			wrong("Authorities[%d]: must be a host in lower case, perhaps with *. before or a port after, or * "+
				"(got %q)", i, name)
		}
	}
	if c.Scheme != "" && c.Scheme != "https" && c.Scheme != "http" {
		wrong(`Scheme: must be "https" or "http" (got %q)`, c.Scheme)
	}
	for i, name := range c.Components {
		if !isComponent(name) {
			wrong("Components[%d]: must be @method, @path, @query, @target-uri, @scheme, @request-target or a field in "+
				"lower case (got %q)", i, name)
		}
	}
	if c.MaxLifetime < 0 || c.MaxLifetime > 365*24*time.Hour {
		wrong("MaxLifetime: must be positive and at most a year, or 0 (got %v)", c.MaxLifetime)
	}
	if c.MaxSkew > 24*time.Hour {
		wrong("MaxSkew: must be at most 24 hours (got %v)", c.MaxSkew)
	}
	if c.Unlisted < 0 || c.Unlisted > maxUnlisted {
		wrong("Unlisted: must be 0 to %d (got %d)", maxUnlisted, c.Unlisted)
	}
	known := make(map[string]*source)
	for i := range c.Directories {
		s, spellings, err := c.source(&c.Directories[i])
		if err == nil && known[s.id] != nil {
			err = fmt.Errorf("%s: is in the list twice (got %q)", "URL", c.Directories[i].URL)
		}
		if err != nil {
			wrong("Directories[%d]: %w", i, err)
			continue
		}
		for _, text := range spellings {
			known[text] = s
		}
	}
	return known, errors.Join(errs...)
}

// source makes a directory, and returns the usual spellings of its URL.
func (c *Config) source(d *Directory) (*source, []string, error) {
	place, err := directory.ParsePlace(d.URL)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w (got %q)", "URL", err, d.URL)
	}
	s := &source{name: cmp.Or(d.Name, place.Host), id: place.ID, listed: true}
	if d.Name != "" && !isAgentName(d.Name) {
		return nil, nil, fmt.Errorf("%s: must have 1 to %d printable ASCII characters, and must not begin with %q "+
			"(got %q)", "Name", maxName, unlistedPrefix, d.Name)
	}
	if d.Keys == nil {
		if s.remote = c.Previous.fetched(place); s.remote == nil {
			s.remote = directory.New(place, directory.Options{Transport: c.Transport, OnFetch: c.OnFetch})
		}
	} else if s.keys, err = parseKeys(d.Keys); err != nil {
		return nil, nil, fmt.Errorf("%s: %w", "Keys", err)
	}
	spellings := []string{place.ID, place.URL, d.URL}
	if place.IsWellKnown() {
		spellings = append(spellings, "https://"+place.Host, "https://"+place.Host+"/")
	}
	return s, spellings, nil
}

// parseKeys reads the keys of a directory that the program gives.
func parseKeys(text []byte) (directory.Keys, error) {
	keys, exposed, err := directory.Parse(text)
	switch {
	case err != nil:
		return nil, err
	case len(exposed) > 0:
		return nil, exposed[0]
	case len(keys) == 0:
		return nil, errors.New("there is no Ed25519 key for signatures")
	}
	return keys, nil
}

// isAuthority reports whether name may be in Authorities.
func isAuthority(name string) bool {
	if name == "*" {
		return true
	}
	place, err := directory.ParsePlace("https://" + strings.TrimPrefix(name, "*."))
	return err == nil && place.Host == strings.TrimPrefix(name, "*.") && place.IsWellKnown()
}

// isComponent reports whether name may be in Components.
func isComponent(name string) bool {
	switch name {
	case "@method", "@path", "@query", "@target-uri", "@scheme", "@request-target", "@authority":
		return true
	}
	for i := range len(name) {
		if c := name[i]; !('a' <= c && c <= 'z' || '0' <= c && c <= '9' || c == '-' || c == '_') {
			return false
		}
	}
	return name != ""
}

func isAgentName(name string) bool {
	for i := range len(name) {
		if c := name[i]; c <= ' ' || c > '~' {
			return false
		}
	}
	return len(name) <= maxName && !strings.HasPrefix(name, unlistedPrefix)
}

// authorities are the names of a site.
type authorities struct {
	any     bool
	exact   map[string]bool
	domains map[string]bool // of which subdomains belong to the site
}

func newAuthorities(names []string) (a authorities) {
	a.exact, a.domains = make(map[string]bool), make(map[string]bool)
	for _, name := range names {
		switch domain, ok := strings.CutPrefix(name, "*."); {
		case name == "*":
			a.any = true
		case ok:
			a.domains[domain] = true
		default:
			a.exact[name] = true
		}
	}
	return a
}

// contains reports whether a name, in lower case, is one of the site.
func (a *authorities) contains(name string) bool {
	if a.any || a.exact[name] {
		return true
	}
	if len(a.domains) == 0 {
		return false
	}
	for rest, ok := name, true; ok; {
		if _, rest, ok = strings.Cut(rest, "."); ok && a.domains[rest] {
			return true
		}
	}
	return false
}

// Thumbprint returns the thumbprint of a key, which is the keyid of its signatures: the JWK
// thumbprint by SHA-256, in base64url (RFC 7638; RFC 8037, appendix A.3).
func Thumbprint(key ed25519.PublicKey) string { return directory.Thumbprint(key) }

// KeySet returns the JSON Web Key Set of keys: what the directory of an agent serves, and what
// [Directory].Keys takes. Keys that are not of the size of an Ed25519 key are left out.
func KeySet(keys ...ed25519.PublicKey) []byte {
	type jwk struct {
		KeyType    string `json:"kty"`
		Curve      string `json:"crv"`
		Thumbprint string `json:"kid"`
		X          string `json:"x"`
		Use        string `json:"use"`
	}
	set := struct {
		Keys []jwk `json:"keys"`
	}{[]jwk{}}
	for _, key := range keys {
		if len(key) == ed25519.PublicKeySize {
			set.Keys = append(set.Keys,
				jwk{"OKP", "Ed25519", Thumbprint(key), base64.RawURLEncoding.EncodeToString(key), "sig"})
		}
	}
	text, _ := json.Marshal(set) // cannot fail
	return text
}

// clone returns a copy of config for a Verifier to keep.
func (c Config) clone() Config {
	c.Directories, c.Authorities = slices.Clone(c.Directories), slices.Clone(c.Authorities)
	c.Components = slices.Clone(c.Components)
	slices.Sort(c.Components)
	c.Components = slices.Compact(c.Components)
	c.Scheme = cmp.Or(c.Scheme, "https")
	c.MaxLifetime = cmp.Or(c.MaxLifetime, defaultLifetime)
	c.MaxSkew = max(cmp.Or(c.MaxSkew, defaultSkew), 0)
	return c
}
