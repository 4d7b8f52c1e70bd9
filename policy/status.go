package policy

import (
	"net/http"
	"sync"
	"time"
)

// Status reports on a policy while [Watch] follows its file, for pages and health checks. Make one
// with [Policy.Status] and set it in [Options]. It is safe for concurrent use. Its texts contain no
// key.
type Status struct {
	mu          sync.Mutex
	source      string
	digest      string
	applied     time.Time
	differences []string
	since       time.Time
	err         error
	loads       [2]int64 // applied, failed
	whyNot      func(rule string, r any) string
}

// put records that p came into force, with its changes.
func put[R any](s *Status, p *Policy[R], changes []Change) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.source, s.digest, s.applied = p.file.name, p.file.digest, time.Now()
	s.differences = make([]string, len(changes))
	for i, c := range changes {
		s.differences[i] = c.String()
	}
	s.since, s.err = time.Time{}, nil
	s.loads[0]++
	s.whyNot = func(rule string, r any) string {
		if r, ok := r.(R); ok {
			return p.WhyNot(rule, r)
		}
		return ""
	}
}

// fail records why the file is not in force. another tells whether the failure differs from the
// previous one.
func (s *Status) fail(err error, another bool) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil {
		s.since = time.Now()
	}
	if another {
		s.loads[1]++
	}
	s.err = err
}

// recover records that the file is in force again.
func (s *Status) recover() {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.since, s.err = time.Time{}, nil
}

// Source returns the name of the file.
func (s *Status) Source() string { s.mu.Lock(); defer s.mu.Unlock(); return s.source }

// Digest returns the digest of the policy in force: see [Policy.Digest].
func (s *Status) Digest() string { s.mu.Lock(); defer s.mu.Unlock(); return s.digest }

// Applied returns when the policy in force was applied.
func (s *Status) Applied() time.Time { s.mu.Lock(); defer s.mu.Unlock(); return s.applied }

// Differences returns one line for each [Change] that the policy in force made; nil if it is the
// first. Do not modify the slice.
func (s *Status) Differences() []string { s.mu.Lock(); defer s.mu.Unlock(); return s.differences }

// Failure returns why the current content of the file is not in force, and since when; nil if it is
// in force.
func (s *Status) Failure() (since time.Time, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.since, s.err
}

// Loads returns how many policies came into force, including the first, and how many loads failed.
// A failure that lasts counts once.
func (s *Status) Loads() (applied, failed int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.loads[0], s.loads[1]
}

// WhyNot is [Policy.WhyNot] of the policy in force. It returns "" for policies of another request
// type.
func (s *Status) WhyNot(rule string, r *http.Request) string {
	s.mu.Lock()
	whyNot := s.whyNot
	s.mu.Unlock()
	return whyNot(rule, r)
}
