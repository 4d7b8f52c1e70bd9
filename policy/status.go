package policy

import (
	"net/http"
	"sync"
	"time"

	"github.com/weir-go/weir/internal/files/follow"
)

// Status reports on a policy while [Watch] follows its file, for pages and health checks. Make one
// with [Policy.Status] and set it in [Options]. It is safe for concurrent use. Its texts contain no
// key.
type Status struct {
	record      follow.Record
	mu          sync.Mutex
	source      string
	differences []string
	whyNot      func(rule string, r any) string
}

// put records that p came into force, with its changes.
func put[R any](s *Status, p *Policy[R], changes []Change) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.source = p.file.name
	s.differences = make([]string, len(changes))
	for i, c := range changes {
		s.differences[i] = c.String()
	}
	s.whyNot = func(rule string, r any) string {
		if r, ok := r.(R); ok {
			return p.WhyNot(rule, r)
		}
		return ""
	}
	s.record.Apply(p.file.digest)
}

// fail records why the file is not in force. another tells whether the failure differs from the
// previous one.
func (s *Status) fail(err error, another bool) {
	if s != nil {
		s.record.Fail(err, another)
	}
}

// recover records that the file is in force again.
func (s *Status) recover() {
	if s != nil {
		s.record.Recover()
	}
}

// Source returns the name of the file.
func (s *Status) Source() string { s.mu.Lock(); defer s.mu.Unlock(); return s.source }

// Digest returns the digest of the policy in force: see [Policy.Digest].
func (s *Status) Digest() string { return s.record.Digest() }

// Applied returns when the policy in force was applied.
func (s *Status) Applied() time.Time { return s.record.Applied() }

// Differences returns one line for each [Change] that the policy in force made; nil if it is the
// first. Do not modify the slice.
func (s *Status) Differences() []string { s.mu.Lock(); defer s.mu.Unlock(); return s.differences }

// Failure returns why the current content of the file is not in force, and since when; nil if it is
// in force.
func (s *Status) Failure() (since time.Time, err error) { return s.record.Failure() }

// Loads returns how many policies came into force, including the first, and how many loads failed.
// A failure that lasts counts once.
func (s *Status) Loads() (applied, failed int64) { return s.record.Loads() }

// WhyNot is [Policy.WhyNot] of the policy in force. It returns "" for policies of another request
// type.
func (s *Status) WhyNot(rule string, r *http.Request) string {
	s.mu.Lock()
	whyNot := s.whyNot
	s.mu.Unlock()
	return whyNot(rule, r)
}
