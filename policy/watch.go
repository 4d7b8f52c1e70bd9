package policy

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/internal/files/follow"
)

// Options are the options of [Watch]. The zero value is ready to use.
type Options struct {
	// Every is the interval between reads of the file. A change is applied once two successive
	// reads agree. 0: 2 seconds.
	Every time.Duration

	// Reload makes Watch read the file at once for each value, and apply it although only this
	// read has seen it: who asks has written the file. A mistake that was reported is reported
	// again. nil: none.
	Reload <-chan struct{}

	// Logger gets one line for each policy that is applied, one for each distinct failure, and one
	// for each override that ends. The lines contain no key. nil: slog.Default().
	Logger *slog.Logger

	// Observe is called for each [Event], on the goroutine of Watch. It is not called while the
	// file stays unchanged. nil: no calls.
	Observe func(Event)

	// Status is updated by this Watch and must not be shared with another: see [Policy.Status].
	// nil: none.
	Status *Status
}

// Event is one load of a watched file: a policy that was applied, or a failure. A failure that
// lasts is one event. If a failure ends because the file holds the policy in force again, that is
// an event without Changes.
type Event struct {
	File    string
	Digest  string   // digest of the content; "": the file could not be read
	Changes []Change // changes from the previous policy, if the content is a policy
	Expired []string // overrides that have ended: see [Policy.Expired]
	Err     error    // why the policy was not applied; nil: it is in force
}

// Watch reloads the file of p whenever it changes: it parses the new content and calls apply with
// its rules. apply is usually the Replace of a limiter. Watch blocks until ctx ends and returns the
// error of ctx, so run it in a goroutine of its own. It first compares the file with p, whose rules
// must be in force, so a change between Load and Watch is not lost.
//
// Watch compares content, every two seconds by default, and needs no file system events. It works
// with swapped symbolic links (ConfigMaps of Kubernetes), editors that rename, and network file
// systems. The previous policy stays in force, and Watch keeps trying, if the file is missing,
// cannot be read or has a mistake, or if apply returns an error or panics. Content that only one
// read has seen is never applied, since it may be half written, unless Options.Reload asks for it.
//
// Watch returns at once if p or apply is nil, or if Every is negative. It passes on the rules
// alone; use [WatchPolicy] for files with a shed section.
func Watch[R any](
	ctx context.Context, p *Policy[R], apply func([]core.Rule[R]) error, options Options,
) error {
	if apply == nil {
		return errors.New("policy: apply is nil: pass a function that takes the rules, such as " +
			"Replace of a limiter")
	}
	return WatchPolicy(ctx, p, func(p *Policy[R]) error { return apply(p.Rules()) }, options)
}

// WatchPolicy is [Watch] with a function that gets the whole policy: its Rules, and its Shed for a
// shedder.
func WatchPolicy[R any](
	ctx context.Context, p *Policy[R], apply func(*Policy[R]) error, options Options,
) error {
	switch {
	case p == nil:
		return errors.New("policy: the policy to watch is nil: make one with Load")
	case apply == nil:
		return errors.New("policy: apply is nil: pass a function that takes the policy")
	case options.Every < 0:
		return fmt.Errorf("policy: Options.Every must not be negative (got %v)", options.Every)
	case options.Every == 0:
		options.Every = follow.Every
	}
	if options.Logger == nil {
		options.Logger = slog.Default()
	}
	w := &watcher[R]{
		options: options, follower: follow.NewFollower(p.file.digest), current: p, apply: apply,
	}
	return follow.Run(ctx, options.Every, options.Reload, w.look)
}

// watcher is the state of Watch.
type watcher[R any] struct {
	options  Options
	follower *follow.Follower
	current  *Policy[R] // in force
	apply    func(*Policy[R]) error
	lastLook time.Time
}

// look reads the file, and applies content that two reads agree on, or any if reload is set.
func (w *watcher[R]) look(reload bool) {
	if reload {
		w.follower.Forget()
	}
	w.reportExpired()
	text, err := follow.Read(w.current.file.name, maxSize)
	if err != nil {
		err = fmt.Errorf("policy: %w", err)
		w.fail(Event{Err: err}, w.follower.Failed("", err))
		return
	}
	digest := digest(text)
	switch w.follower.Saw(digest, reload) {
	case follow.Same:
		w.options.Status.recover()
	case follow.Back:
		w.options.Status.recover()
		w.options.Logger.Info("policy: the file has the policy in force again", "file",
			w.current.file.name, "digest", digest)
		w.observe(Event{Digest: digest, Expired: w.current.Expired(time.Now())})
	case follow.New:
		w.load(text, digest)
	}
}

// load applies text.
func (w *watcher[R]) load(text []byte, digest string) {
	p, err := Parse(w.current.file.name, text, w.current.names)
	if err != nil {
		w.fail(Event{Digest: digest, Err: err}, w.follower.Refused(digest, err))
		return
	}
	event := Event{Digest: digest, Changes: p.Changes(w.current), Expired: p.Expired(time.Now())}
	if event.Err = w.applySafely(p); event.Err != nil {
		w.fail(event, w.follower.Failed(digest, event.Err))
		return
	}
	w.current = p
	w.follower.Applied(digest)
	put(w.options.Status, p, event.Changes)
	changes := make([]string, len(event.Changes))
	for i, c := range event.Changes {
		changes[i] = c.String()
	}
	w.options.Logger.Info("policy: applied", "file", p.file.name, "digest", digest, "changes",
		changes)
	w.lastLook = time.Time{} // report overrides of the new file that have ended
	w.observe(event)
}

// applySafely calls apply and turns a panic into an error: a change of the file must not end the
// program.
func (w *watcher[R]) applySafely(p *Policy[R]) (err error) {
	returned := false
	defer func() {
		if !returned {
			err = fmt.Errorf("policy: apply: panic: %v", recover())
		}
	}()
	err = w.apply(p)
	returned = true
	return err
}

// fail reports why the current policy stays in force, unless it reported the same reason last.
func (w *watcher[R]) fail(event Event, another bool) {
	w.options.Status.fail(event.Err, another)
	if !another {
		return
	}
	w.options.Logger.Error("policy: not applied, the policy in force stays", "file",
		w.current.file.name, "error", event.Err)
	w.observe(event)
}

func (w *watcher[R]) observe(event Event) {
	if w.options.Observe != nil {
		event.File = w.current.file.name
		w.options.Observe(event)
	}
}

// reportExpired logs the overrides that have ended since the last look.
func (w *watcher[R]) reportExpired() {
	now := time.Now()
	for _, line := range w.current.file.expired(w.lastLook, now) {
		w.options.Logger.Warn("policy: " + line)
	}
	w.lastLook = now
}
