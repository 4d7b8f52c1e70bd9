package agents

import (
	"net/http"
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
		domain, err := publicsuffix.EffectiveTLDPlusOne(place.Host)
		if err != nil {
			return nil, errUnlisted
		}
		if len(u.byID) >= u.most && !u.makeRoom(now) {
			return nil, errNoRoom
		}
		g = &guest{source: source{
			name: unlistedPrefix + domain, id: place.ID, remote: directory.New(place, u.options),
		}}
		u.byID[place.ID] = g
	}
	g.used.Store(now.Unix())
	return &g.source, nil
}

// makeRoom forgets a directory that has no keys, or was not used for long. It looks at a few.
func (u *unlisted) makeRoom(now time.Time) bool {
	tries := 16
	for id, g := range u.byID { // in random order
		if g.remote.Idle(now) || now.Unix()-g.used.Load() > int64(unlistedRest/time.Second) {
			delete(u.byID, id)
			return true
		}
		if tries--; tries == 0 {
			break
		}
	}
	return false
}
