package descriptors

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/weir-go/weir/internal/files/follow"
)

// Watcher follows files of limits, and puts their changes into force. Make one with
// [NewWatcher], and run it. It has the methods of a stats.PolicyStatus, and is safe for
// concurrent use.
type Watcher struct {
	service *Service
	paths   []string
	logger  *slog.Logger
	record  follow.Record

	looking  sync.Mutex // held by a look
	follower *follow.Follower
	policies []string // policy files beside the limits
}

// NewWatcher loads the limits of files and directories, and returns a service for them with
// the watcher that follows them. The error reports every mistake.
func NewWatcher(paths []string, o Options) (*Service, *Watcher, error) {
	files, policies, err := read(paths)
	if err != nil {
		return nil, nil, err
	}
	config, err := Parse(files...)
	if err != nil {
		return nil, nil, err
	}
	service, err := New(config, o)
	if err != nil {
		return nil, nil, err
	}
	digest := digestOf(files)
	w := &Watcher{
		service: service, paths: slices.Clone(paths), logger: o.Logger,
		follower: follow.NewFollower(digest), policies: policies,
	}
	w.record.Apply(digest)
	return service, w, nil
}

// Run looks at the files every two seconds until ctx ends, and returns its error. It compares
// content and needs no events of the file system, so it follows the swapped links of a
// ConfigMap. What two successive reads agree on is put into force. If it has a mistake, or
// a file cannot be read, the limits in force stay, and one line is logged.
func (w *Watcher) Run(ctx context.Context) error {
	return follow.Run(ctx, follow.Every, nil, w.look)
}

// Reload reads the files at once, and puts them into force although only this read has seen
// them: who asks has written them. If they have a mistake, the limits in force stay, and one
// line is logged, again if there was one.
func (w *Watcher) Reload() {
	w.look(true)
}

// look reads the files once.
func (w *Watcher) look(reload bool) {
	w.looking.Lock()
	defer w.looking.Unlock()
	if reload {
		w.follower.Forget()
	}
	files, policies, err := read(w.paths)
	if err != nil {
		w.fail(err, w.follower.Failed("", err))
		return
	}
	w.notePolicies(policies)
	digest := digestOf(files)
	switch w.follower.Saw(digest, reload) {
	case follow.Back:
		w.record.Recover()
		w.log().Info("descriptors: the files have the limits in force again", "digest", digest)
	case follow.New:
		w.load(files, digest)
	}
}

// notePolicies logs a line for each policy file that has come into a directory. A watcher reads
// limits alone: which file is the policy was found out before.
func (w *Watcher) notePolicies(policies []string) {
	for _, name := range policies {
		if !slices.Contains(w.policies, name) {
			w.log().Warn("descriptors: a policy file is new beside files of limits, and has no effect: "+
				"move its rules into the policy file that the program has, or restart a program that has none",
				"file", name)
		}
	}
	w.policies = policies
}

func (w *Watcher) load(files []File, digest string) {
	config, err := Parse(files...)
	if err != nil {
		w.fail(err, w.follower.Refused(digest, err))
		return
	}
	w.service.Replace(config)
	w.follower.Applied(digest)
	w.record.Apply(digest)
	w.log().Info("descriptors: applied", "digest", digest, "domains", config.Domains())
}

// fail notes why the limits in force stay, and logs it if it is another reason than before.
func (w *Watcher) fail(err error, another bool) {
	w.record.Fail(err, another)
	if another {
		w.log().Error("descriptors: not applied, the limits in force stay", "error", err)
	}
}

func (w *Watcher) log() *slog.Logger {
	if w.logger != nil {
		return w.logger
	}
	return slog.Default()
}

// digestOf returns the SHA-256 of names and texts in hexadecimal.
func digestOf(files []File) string {
	h := sha256.New()
	for _, f := range files {
		fmt.Fprintf(h, "%d %s\n%d\n", len(f.Name), f.Name, len(f.Text))
		h.Write(f.Text)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// Digest returns the digest of the files in force.
func (w *Watcher) Digest() string { return w.record.Digest() }

// Applied returns since when the files in force are so.
func (w *Watcher) Applied() time.Time { return w.record.Applied() }

// Failure returns why the files are not in force as they are now, and since when; nil if
// they are.
func (w *Watcher) Failure() (since time.Time, err error) { return w.record.Failure() }

// Loads returns how many times files came into force, the first included, and how often they
// could not, where a failure that lasts is one.
func (w *Watcher) Loads() (applied, failed int64) { return w.record.Loads() }
