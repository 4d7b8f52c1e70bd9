package conform

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"
)

// Options are the options of [Run]. The zero value makes all checks with a new seed.
type Options struct {
	// Seed determines what is sent: keys, gaps and instants within a period. 0: a new one.
	Seed uint64

	// Only names the checks to make. nil: all.
	Only []string

	// Log gets what the commands of the profile print, and a line when a check has ended. nil:
	// nothing.
	Log io.Writer

	keys int // of each half of the check of memory; 0: manyKeys
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
	server  instance
	options Options
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
	r := &runner{profile: profile, host: h, options: options}
	if profile.Store != "" {
		if err := h.startStore(ctx); err != nil {
			return nil, err
		}
	}
	var err error
	if r.server, err = h.start(ctx); err != nil {
		return nil, err
	}
	report := &Report{
		Name: profile.Name, Limit: limitText(profile), Key: profile.Key.String(), Store: profile.Store,
		Fields: profile.Fields, Seed: options.Seed, Began: time.Now().UTC(),
	}
	if err := r.first(ctx); err != nil {
		return nil, err
	}
	results := make([]Result, len(checks))
	var chosen []int
	for i := range checks {
		if options.Only == nil || slices.Contains(options.Only, checks[i].Name) {
			chosen = append(chosen, i)
		}
	}
	var running sync.WaitGroup
	for _, i := range chosen {
		switch {
		case checks[i].part == alone || !profile.manyKeys() || checks[i].Name == "burst":
			running.Wait()
			results[i] = r.check(ctx, i)
		default:
			running.Go(func() { results[i] = r.check(ctx, i) })
		}
	}
	running.Wait()
	if ctx.Err() != nil {
		return nil, interrupted(ctx)
	}
	for _, i := range chosen {
		report.Results = append(report.Results, results[i])
	}
	report.Took = time.Since(report.Began)
	return report, nil
}

// first asks once, so that a wrong profile is told from a wrong limiter.
func (r *runner) first(ctx context.Context) error {
	t := newTrial(ctx, "first", r.options.Seed, r)
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

// check makes check i.
func (r *runner) check(ctx context.Context, i int) (result Result) {
	c := &checks[i]
	t := newTrial(ctx, c.Name, r.options.Seed, r)
	began := time.Now()
	o := c.run(t)
	result = Result{
		Check: c.Name, Verdict: o.verdict, Says: c.Says, Found: o.text, Evidence: o.evidence,
		Source: c.Source, Requests: t.sent.Load(), Took: time.Since(began),
	}
	if log := r.options.Log; log != nil {
		fmt.Fprintf(log, "%s: %s\n", c.Name, o.verdict)
	}
	return result
}

func checkNames() (names []string) {
	for i := range checks {
		names = append(names, checks[i].Name)
	}
	return names
}

// limitText returns the promise as a report has it.
func limitText(p *Profile) string {
	rate := p.Limit.Rate()
	text := fmt.Sprintf("%d per %v", rate.Units, rate.Period)
	if p.Named {
		text = p.Limit.String()
	}
	return strings.TrimSpace(text)
}
