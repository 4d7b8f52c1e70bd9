package stats

import (
	"time"

	"github.com/weir-go/weir/internal/ground/isnil"
)

// PolicyStatus reports on a policy file. The Status of package policy implements it. The methods
// must be quick and safe for concurrent use.
type PolicyStatus interface {
	Digest() string     // digest of the content in force
	Applied() time.Time // when the content in force was applied
	// why newer content is not in force; nil if none
	Failure() (since time.Time, err error)
	Loads() (applied, failed int64) // a failure that lasts counts once
}

// WatchPolicy adds a policy file to snapshots. The name is a label of metrics. A later call with
// the same name replaces the file, or removes it if status is nil.
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
