package agents

import (
	"hash/maphash"
	"net/http"
	"sync"
	"time"
	"weak"
)

const (
	settledFor  = 5 * time.Second // longer than the rules of a request take
	mostSettled = 1 << 12         // entries of a generation: with the one before it about a megabyte
)

// settled remembers of requests that they are no agent's, though they could become one's in a moment:
// a directory answers, or an instant comes. All rules of a request must see the same. Otherwise the
// rule of agents would not count it yet, and that of strangers no more. It keeps no request alive.
type settled struct {
	seed maphash.Seed

	mu       sync.Mutex
	now, old map[weak.Pointer[http.Request]]refusal // old is the generation before now; nil: none
	until    time.Time                              // the last instant of all refusals
}

// refusal is why a request is no agent's, until an instant.
type refusal struct {
	why   error
	sum   uint64 // of what was refused, since programs use requests again
	until time.Time
}

// mayPass reports whether a signature that was refused may be good in a moment.
func mayPass(why error) bool {
	return why == errFuture || why == errUnavailable || why == errNoKey || why == errNoRoom
}

// find returns why r was refused a moment ago, or nil.
func (s *settled) find(r *http.Request) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.now == nil {
		return nil
	}
	now := time.Now()
	if !now.Before(s.until) {
		s.now, s.old = nil, nil
		return nil
	}
	at := weak.Make(r)
	known, ok := s.now[at]
	if !ok {
		known, ok = s.old[at]
	}
	if !ok || !now.Before(known.until) || known.sum != s.sum(r) {
		return nil
	}
	return known.why
}

// add remembers why r is refused.
func (s *settled) add(r *http.Request, why error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.now == nil || len(s.now) >= mostSettled {
		s.now, s.old = make(map[weak.Pointer[http.Request]]refusal), s.now
	}
	s.until = time.Now().Add(settledFor)
	s.now[weak.Make(r)] = refusal{why, s.sum(r), s.until}
}

// sum returns a digest of the signatures of r.
func (s *settled) sum(r *http.Request) uint64 {
	var h maphash.Hash
	h.SetSeed(s.seed)
	h.WriteString(r.Host)
	for _, name := range [...]string{"Signature-Input", "Signature", "Signature-Agent"} {
		h.WriteByte('\n')
		for _, line := range r.Header[name] {
			h.WriteString(line)
			h.WriteByte('\n')
		}
	}
	return h.Sum64()
}
