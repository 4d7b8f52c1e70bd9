package client

import "time"

// paths finds the paths of a host that have limits of their own: their requests are denied again
// and again, and requests for other paths are not. Such a path gets its own bucket, so that it does
// not slow down the host.
//
//	/a is denied at 1 s, /b allowed at 2 s, /a denied at 3 s: /a is apart
type paths struct {
	apart    map[string]bool
	suspects map[string]*suspect
}

// suspect is a path whose latest answers are denials that ask for no wait.
type suspect struct {
	first, last instant // when the first and the last of these denials arrived
	denied      int     // denials; those of requests in flight together count as one
	allowed     int     // requests for other paths, sent after the first denial and not denied
}

const (
	maxApart    = 64 // paths of one host
	maxSuspects = 16
	suspicion   = 5 * time.Minute // after the last denial
)

// suspect reports whether the latest answers for a path are denials.
func (p *paths) suspect(path string) bool { return p != nil && p.suspects[path] != nil }

// observe learns from the answer to a request that was sent at an instant. silent says that it asks
// for no wait. observe reports whether the path is apart, and whether this answer has shown that.
func (p *paths) observe(path string, now, at instant, denied, silent bool) (apart, anew bool) {
	if p.apart[path] || denied && !silent {
		return p.apart[path], false
	}
	if !denied {
		for other, s := range p.suspects {
			switch {
			case other == path && at > s.first, at-s.last > suspicion:
				delete(p.suspects, other)
			case at > s.first:
				s.allowed++
			}
		}
		return false, false
	}
	s := p.suspects[path]
	if s == nil {
		if len(p.suspects) == maxSuspects {
			return false, false
		}
		s = &suspect{first: now}
		p.suspects[path] = s
	}
	if at > s.last || s.denied == 0 {
		s.last = now
		s.denied++
	}
	if s.denied < 2 || s.allowed < s.denied-1 || len(p.apart) == maxApart {
		return false, false
	}
	delete(p.suspects, path)
	p.apart[path] = true
	return true, true
}
