package policy

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/weir-go/weir/core"
)

// Options configures [Watch]. The zero value of every field is a usable default.
type Options struct {
	// Every is how often the file is read. A change is applied once two successive reads
	// agree on it. 0: 2 seconds.
	Every time.Duration

	// Logger gets one line for each policy that is applied, one for each distinct reason
	// why none is, and one for each override that ends. No line names a key. nil:
	// slog.Default().
	Logger *slog.Logger

	// Observe is called once for each [Event], on the goroutine of Watch, and not while the
	// file stays as it is. nil: nothing.
	Observe func(Event)

	// Status is kept up to date, and is for this Watch alone: see [Policy.Status]. nil:
	// nothing.
	Status *Status
}

// Event is one load of a watched file: a policy that was applied, or a failure. A failure
// that lasts is one event. If it passes because the file has the policy in force again,
// that is an event without Changes.
type Event struct {
	File    string
	Digest  string   // of the content; "": it could not be read
	Changes []Change // from the policy before, if the content is a policy
	Expired []string // overrides that have ended: see [Policy.Expired]
	Err     error    // why the policy was not applied; nil: it is in force
}

// Watch applies the file of p again whenever it changes: it makes a policy of the new
// content and calls apply with its rules, such as the Replace of a limiter. It returns
// when ctx ends, with the error of ctx, so run it in a goroutine of its own. It first
// compares the file with p, whose rules are in force when Watch is called: a change
// between Load and Watch is not lost.
//
// Watch compares content, every two seconds, and needs no events of the file system: it
// follows swapped symbolic links (ConfigMaps of Kubernetes), editors that rename, and
// network file systems. If the file is missing, cannot be read, has a mistake, or apply
// returns an error or panics, the policy of before stays in force, and Watch goes on trying. A
// content that only one read has seen is never applied, since it may be half written.
//
// Watch returns at once if p or apply is nil, or Every is negative. It passes on the rules
// alone; [WatchPolicy] is for files that also say how load is shed.
func Watch[R any](ctx context.Context, p *Policy[R], apply func([]core.Rule[R]) error, options Options) error {
	if apply == nil {
		return errors.New("policy: apply is nil: pass a function that takes the rules, such as Replace of a limiter")
	}
	return WatchPolicy(ctx, p, func(p *Policy[R]) error { return apply(p.Rules()) }, options)
}

// WatchPolicy is [Watch] with a function that takes all of a policy: its Rules, and what
// its Shed returns for a shedder.
func WatchPolicy[R any](ctx context.Context, p *Policy[R], apply func(*Policy[R]) error, options Options) error {
	switch {
	case p == nil:
		return errors.New("policy: the policy to watch is nil: make one with Load")
	case apply == nil:
		return errors.New("policy: apply is nil: pass a function that takes the policy")
	case options.Every < 0:
		return fmt.Errorf("policy: Options.Every must not be negative (got %v)", options.Every)
	case options.Every == 0:
		options.Every = 2 * time.Second
	}
	if options.Logger == nil {
		options.Logger = slog.Default()
	}
	w := &watcher[R]{options: options, current: p, apply: apply}
	ticker := time.NewTicker(options.Every)
	defer ticker.Stop()
	for {
		w.look()
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
		}
		if err := ctx.Err(); err != nil { // both may have happened
			return err
		}
	}
}

// watcher is the state of Watch.
type watcher[R any] struct {
	options  Options
	current  *Policy[R] // in force
	apply    func(*Policy[R]) error
	last     []byte // what the read before has seen; nil: it failed
	refused  string // the digest of a content with mistakes
	failure  string // the reason that was reported last
	lastLook time.Time
}

// look reads the file and applies what two reads agree on.
func (w *watcher[R]) look() {
	w.reportExpired()
	text, err := readAll(w.current.file.name)
	if err != nil {
		w.last, w.refused = nil, "" // what was refused is worth a line when it is back
		w.fail(Event{Err: err})
		return
	}
	agreed := w.last != nil && bytes.Equal(w.last, text)
	w.last = text
	digest := digest(text)
	switch {
	case digest == w.current.file.digest:
		w.options.Status.recover()
		if w.failure != "" {
			w.failure, w.refused = "", ""
			w.options.Logger.Info("policy: the file has the policy in force again", "file", w.current.file.name, "digest", digest)
			w.observe(Event{Digest: digest, Expired: w.current.Expired(time.Now())})
		}
	case agreed && digest != w.refused:
		w.load(text, digest)
	}
}

// load applies text.
func (w *watcher[R]) load(text []byte, digest string) {
	p, err := Parse(w.current.file.name, text, w.current.names)
	if err != nil {
		w.refused = digest
		w.fail(Event{Digest: digest, Err: err})
		return
	}
	event := Event{Digest: digest, Changes: p.Changes(w.current), Expired: p.Expired(time.Now())}
	if event.Err = w.applySafely(p); event.Err != nil {
		w.fail(event) // and again at the next look: the reason may pass
		return
	}
	w.current, w.failure, w.refused = p, "", ""
	put(w.options.Status, p, event.Changes)
	changes := make([]string, len(event.Changes))
	for i, c := range event.Changes {
		changes[i] = c.String()
	}
	w.options.Logger.Info("policy: applied", "file", p.file.name, "digest", digest, "changes", changes)
	w.lastLook = time.Time{} // report what has ended in the new file
	w.observe(event)
}

// applySafely calls apply and turns a panic in it into an error: a change of the file must
// not end the program.
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

// fail reports why the policy in force stays, unless that was reported last.
func (w *watcher[R]) fail(event Event) {
	reason := event.Digest + " " + event.Err.Error()
	w.options.Status.fail(event.Err, reason != w.failure)
	if reason == w.failure {
		return
	}
	w.failure = reason
	w.options.Logger.Error("policy: not applied, the policy in force stays", "file", w.current.file.name, "error", event.Err)
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
