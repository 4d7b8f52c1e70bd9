// Package follow has what following files needs: reading them, finding out whether their content
// has changed and is whole, and a record of what is in force.
package follow

import (
	"context"
	"time"
)

// Every is how often files are read, unless a program says otherwise.
const Every = 2 * time.Second

// Run calls look now, at each interval and for each value of reload, until ctx ends, and returns
// the error of ctx. look is told whether reload asked for it. Run compares content and needs no
// events of the file system, so it follows swapped symbolic links (ConfigMaps of Kubernetes),
// editors that rename, and network file systems.
func Run(
	ctx context.Context, every time.Duration, reload <-chan struct{}, look func(reload bool),
) error {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for asked := false; ; {
		look(asked)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
			asked = false
		case _, open := <-reload:
			if asked = open; !open {
				reload = nil // a closed channel would always be ready
			}
		}
		if err := ctx.Err(); err != nil { // ctx may have ended at the same time
			return err
		}
	}
}

// Follower decides what a look at files leads to. It knows contents by their digests. The files
// themselves are those of its owner, which is not to use it from two goroutines at once.
type Follower struct {
	inForce string // digest
	last    string // digest of the last look; "": the files could not be read
	refused string // digest of a content with mistakes
	failure string // the reason that was reported last
	failing bool
}

// NewFollower returns a Follower of files whose content with this digest is in force.
func NewFollower(digest string) *Follower { return &Follower{inForce: digest} }

// Found is what a look has found.
type Found uint8

// What a look may find.
const (
	Nothing Found = iota // the content has just changed, or is refused already
	Same                 // the content in force
	Back                 // the content in force, after another one or none
	New                  // a content to be put into force: call Applied, Failed or Refused
)

// Forget makes failures that were reported be reported again: a person has asked for a look.
func (f *Follower) Forget() { f.refused, f.failure = "", "" }

// Saw tells f the digest of a content. A content that only one look has seen may be half written:
// it is New only once two looks agree, or if it is believed, since who asked has written it.
func (f *Follower) Saw(digest string, believed bool) Found {
	agreed := believed || f.last == digest
	f.last = digest
	switch {
	case digest == f.inForce && f.failing:
		f.failing = false
		f.Forget()
		return Back
	case digest == f.inForce:
		return Same
	case agreed && digest != f.refused:
		return New
	}
	return Nothing
}

// Applied tells f that a content is in force.
func (f *Follower) Applied(digest string) { *f = Follower{inForce: digest, last: f.last} }

// Failed tells f why a content is not in force, and reports whether the reason is another than the
// last one. The content is New again at the next look, since the cause may pass. digest is "" if
// the files could not be read.
func (f *Follower) Failed(digest string, err error) (another bool) {
	if digest == "" { // report the same mistakes again once the files can be read again
		f.last, f.refused = "", ""
	}
	reason := digest + " " + err.Error()
	another = reason != f.failure
	f.failure, f.failing = reason, true
	return another
}

// Refused is Failed for a content that has mistakes: it is not New until it changes.
func (f *Follower) Refused(digest string, err error) (another bool) {
	f.refused = digest
	return f.Failed(digest, err)
}
