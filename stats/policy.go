package stats

import (
	"time"

	"github.com/weir-go/weir/internal/ground/isnil"
)

// PolicyStatus is what becomes of a policy file: the Status of package policy has these
// methods. They must be quick and safe for concurrent use.
type PolicyStatus interface {
	Digest() string                        // of the content in force
	Applied() time.Time                    // since when it is in force
	Failure() (since time.Time, err error) // why newer content is not in force; nil: there is none
	Loads() (applied, failed int64)        // a failure that lasts is one
}

// WatchPolicy has snapshots show what becomes of a policy file. The name is a label of
// metrics. A later call with the same name watches another file instead, or none if
// status is nil.
func (s *Stats) WatchPolicy(name string, status PolicyStatus) {
	s.mu.Lock()
	defer s.mu.Unlock()
	watch(s.policies, name, status, isnil.Of(status))
}

func policySnapshot(name string, status PolicyStatus) PolicySnapshot {
	shot := PolicySnapshot{Name: name, Digest: status.Digest(), AppliedAt: status.Applied()}
	shot.Applied, shot.Failed = status.Loads()
	since, err := status.Failure()
	if err != nil {
		shot.FailingSince, shot.Failure = since, err.Error()
	}
	return shot
}
