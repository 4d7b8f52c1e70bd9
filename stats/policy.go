package stats

import "time"

// PolicyStatus reports on a policy file. The Status of package policy implements it. The methods
// must be quick and safe for concurrent use.
type PolicyStatus interface {
	Digest() string     // digest of the content in force
	Applied() time.Time // when the content in force was applied
	// why newer content is not in force; nil if none
	Failure() (since time.Time, err error)
	Loads() (applied, failed int64) // a failure that lasts counts once
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
