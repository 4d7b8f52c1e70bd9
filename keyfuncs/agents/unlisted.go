package agents

import (
	"cmp"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/net/publicsuffix"

	"github.com/weir-go/weir/keyfuncs/agents/internal/directory"
)

// unlistedPrefix begins the names of agents whose directories are not listed, so that no stranger
// shares the name, the limit or the plan of an agent that is.
const unlistedPrefix = "unlisted:"

const (
	unlistedFetches = 4         // that may run at once
	unlistedRest    = time.Hour // a directory that was not used for so long makes room
)

// unlisted are the directories that requests have named.
type unlisted struct {
	most    int
	options directory.Options

	mu   sync.Mutex
	byID map[string]*guest
}

// guest is an unlisted directory.
type guest struct {
	source
	used atomic.Int64 // in seconds of Unix time
}

func newUnlisted(most int, transport http.RoundTripper, onFetch func(string, int, error)) *unlisted {
	if most > 0 && transport == nil {
		transport = directory.NewTransport() // one for all
	}
	return &unlisted{most: most, byID: make(map[string]*guest), options: directory.Options{
		Transport: transport, OnFetch: onFetch, Tickets: make(chan struct{}, unlistedFetches),
	}}
}

// find returns the directory at place, which is then kept.
func (u *unlisted) find(place directory.Place) (*source, error) {
	if u.most == 0 || !place.IsPublic() {
		return nil, errUnlisted
	}
	now := time.Now()
	u.mu.Lock()
	defer u.mu.Unlock()
	g := u.byID[place.ID]
	if g == nil {
		domain, ok := registered(place.Host)
		if !ok {
			return nil, errUnlisted
		}
		name := unlistedPrefix + domain
		if len(u.byID) >= u.most && !u.makeRoom(now, name) {
			return nil, errNoRoom
		}
		g = &guest{source: source{name: name, id: place.ID, remote: directory.New(place, u.options)}}
		u.byID[place.ID] = g
	}
	g.used.Store(now.Unix())
	return &g.source, nil
}

// makeRoom forgets a directory that has no keys, or was not used for long. It looks at a few. If
// there are no such ones, it forgets one of the domain that has most of these, if a directory of name
// would then have no more: a domain costs money, and its subdomains nothing.
func (u *unlisted) makeRoom(now time.Time, name string) bool {
	const most = 16
	ids, names := make([]string, 0, most), make(map[string]int, most)
	for id, g := range u.byID { // in random order
		if g.remote.Idle(now) || now.Unix()-g.used.Load() > int64(unlistedRest/time.Second) {
			delete(u.byID, id)
			return true
		}
		ids = append(ids, id)
		if names[g.name]++; len(ids) == most {
			break
		}
	}
	victim := slices.MaxFunc(ids, func(a, b string) int {
		return cmp.Compare(names[u.byID[a].name], names[u.byID[b].name])
	})
	if names[u.byID[victim].name] < names[name]+2 {
		return false
	}
	delete(u.byID, victim)
	return true
}

// registered returns the domain of a host that someone has registered, and paid for. That of
// a.github.io is github.io, though the public suffix list has it among those below which other people
// have names: these cost nothing, so each would be one more budget.
func registered(host string) (domain string, ok bool) {
	for name := host; ; {
		suffix, isPrivate := suffixOf(name)
		if !isPrivate {
			domain, err := publicsuffix.EffectiveTLDPlusOne(name)
			return domain, err == nil && !strings.Contains(host, "..")
		}
		_, rest, _ := strings.Cut(suffix, ".")
		if above, isPrivate := suffixOf(rest); above == rest && !isPrivate {
			return suffix, !strings.Contains(host, "..")
		}
		name = rest
	}
}

// suffixOf returns the public suffix of a name, and whether someone has registered a domain for it.
func suffixOf(name string) (suffix string, isPrivate bool) {
	suffix, isManaged := publicsuffix.PublicSuffix(name)
	return suffix, !isManaged && strings.IndexByte(suffix, '.') > 0
}
