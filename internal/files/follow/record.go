package follow

import (
	"sync"
	"time"
)

// Record says what is in force, and why the files are not if they are not. It is safe for
// concurrent use.
type Record struct {
	mu              sync.Mutex
	digest          string
	applied         time.Time
	since           time.Time // zero: the files are in force
	err             error
	loads, failures int64
}

// Apply records that the content with a digest came into force now.
func (r *Record) Apply(digest string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.digest, r.applied, r.since, r.err = digest, time.Now(), time.Time{}, nil
	r.loads++
}

// Fail records why the files are not in force. another tells whether the reason differs from the
// previous one: a failure that lasts counts once.
func (r *Record) Fail(err error, another bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err == nil {
		r.since = time.Now()
	}
	if another {
		r.failures++
	}
	r.err = err
}

// Recover records that the files are in force again.
func (r *Record) Recover() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.since, r.err = time.Time{}, nil
}

// Digest returns the digest of what is in force.
func (r *Record) Digest() string { r.mu.Lock(); defer r.mu.Unlock(); return r.digest }

// Applied returns when what is in force was applied.
func (r *Record) Applied() time.Time { r.mu.Lock(); defer r.mu.Unlock(); return r.applied }

// Failure returns why the files are not in force as they are, and since when; nil if they are.
func (r *Record) Failure() (since time.Time, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.since, r.err
}

// Loads returns how many contents came into force, the first included, and how many loads failed.
func (r *Record) Loads() (applied, failed int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.loads, r.failures
}
