package conform

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Options are the options of [Run]. The zero value makes all checks with a new seed.
type Options struct {
	// Seed determines what is sent: keys, gaps and instants within a period. A server that runs already gets
	// keys that are new in each run. 0: a new one.
	Seed uint64

	// Only names the checks to make. nil: all.
	Only []string

	// Log gets what the commands of the profile print, and a line when a check has ended. nil:
	// nothing.
	Log io.Writer

	memoryKeys int // of each half of the check of memory; 0: that constant
}

// Run starts the server of a profile, makes the checks and ends the server. It takes about a minute.
// An error means that nothing could be judged: a command fails, the server does not answer, or it
// answers the first request with neither 2xx nor 3xx.
func Run(ctx context.Context, profile *Profile, options Options) (*Report, error) {
	if options.Log != nil {
		options.Log = &lockedWriter{w: options.Log}
	}
	h := newLocalHost(profile, options.Log)
	defer h.close()
	if err := h.prepare(ctx); err != nil {
		return nil, err
	}
	return run(ctx, profile, h, options)
}

// runner makes the checks of one run.
type runner struct {
	profile *Profile
	host    host
	server  instance    // the first, which most checks ask
	options Options     // with a seed
	keys    uint64      // in all keys; the seed, unless the server may remember another run
	clock   clock       // of the server
	late    atomic.Bool // a check was blind, since answers did not come in time
}

// run makes the checks against a host.
func run(ctx context.Context, profile *Profile, h host, options Options) (*Report, error) {
	for _, name := range options.Only {
		if indexOf(name) < 0 {
			return nil, fmt.Errorf("there is no check %.80q: the checks are %s", name, listed(checkNames()))
		}
	}
	if options.Seed == 0 {
		options.Seed = rand.Uint64()>>32 | 1 // short enough to be typed
	}
	if profile.Store != "" {
		if err := h.startStore(ctx); err != nil {
			return nil, err
		}
	}
	server, err := h.start(ctx)
	if err != nil {
		return nil, err
	}
	r := &runner{profile: profile, host: h, server: server, options: options, keys: options.Seed}
	if profile.Start == "" {
		r.keys = rand.Uint64() >> 32
	}
	began := time.Now()
	if err := r.askOnce(ctx); err != nil {
		return nil, err
	}
	results := r.checkAll(ctx)
	if ctx.Err() != nil {
		return nil, interrupted(ctx)
	}
	if r.late.Load() {
		if x := newTrial(ctx, "first", r).client().get(); x.err != nil {
			return nil, fmt.Errorf("the server does not answer any more: %w", x.err)
		}
	}
	return &Report{
		Name: profile.Name, Limit: profile.promise(), Key: profile.Key.String(), Store: profile.Store,
		Fields: profile.Fields, Seed: options.Seed, Began: began.UTC(), Took: time.Since(began), Results: results,
	}, nil
}

// askOnce sends one request, so that a wrong profile is told from a wrong limiter.
func (r *runner) askOnce(ctx context.Context) error {
	t := newTrial(ctx, "first", r)
	x := t.client().get()
	switch {
	case ctx.Err() != nil:
		return interrupted(ctx)
	case x.err != nil:
		return fmt.Errorf("the server does not answer: %w: check url and start of the profile", x.err)
	case x.denied():
		return fmt.Errorf("the first request is denied: %s has a limit for all its clients that others use, "+
			"or key of the profile is not what it counts by", r.profile.Name)
	case !x.admitted():
		return fmt.Errorf("the first request is answered %d: give url a path that answers 200", x.status)
	}
	return nil
}

// checkAll makes the checks that the options name, in the order of reports.
func (r *runner) checkAll(ctx context.Context) []Result {
	var chosen []*Check
	for i := range checks {
		if r.options.Only == nil || slices.Contains(r.options.Only, checks[i].Name) {
			chosen = append(chosen, &checks[i])
		}
	}
	results := make([]Result, len(chosen))
	var running sync.WaitGroup
	for i, c := range chosen {
		if c.timing == parallel && r.profile.manyKeys() {
			running.Go(func() { results[i] = r.check(ctx, c) })
			continue
		}
		running.Wait()
		results[i] = r.check(ctx, c)
	}
	running.Wait()
	return results
}

// check makes one check.
func (r *runner) check(ctx context.Context, c *Check) Result {
	t := newTrial(ctx, c.Name, r)
	began := time.Now()
	o := c.run(t)
	if n := t.late.Load(); n > 0 && o.verdict == Fails {
		o = skips("%d of %d requests have no answer within %v, so this is not certain: %s", n, t.sent.Load(), answerTime,
			o.text).with(o.evidence...)
		r.late.Store(true)
	}
	if log := r.options.Log; log != nil {
		fmt.Fprintf(log, "%s: %s\n", c.Name, o.verdict)
	}
	return Result{
		Check: c.Name, Verdict: o.verdict, Says: c.Says, Found: o.text, Evidence: o.evidence,
		Source: c.Source, Requests: t.sent.Load(), Took: time.Since(began),
	}
}

// lockedWriter is a writer for several goroutines.
type lockedWriter struct {
	mu sync.Mutex
	w  io.Writer
}

// Write implements io.Writer.
func (l *lockedWriter) Write(text []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(text)
}
