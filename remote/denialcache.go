package remote

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/weir-go/weir/internal/ground/algorithm"
	"github.com/weir-go/weir/internal/ground/arith"
	"github.com/weir-go/weir/internal/ground/endings"
	"github.com/weir-go/weir/internal/ground/isnil"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
)

// DenialCacheOptions are the options of [NewDenialCache]. The zero value is
// ready to use.
type DenialCacheOptions struct {
	// MaxEntries is how many denials are remembered. A new one then replaces the one that expires
	// soonest among the four in its set. A denial costs 130 bytes, in sets of four that are made
	// when denials come. 0: 16,384, of 32 KiB at first and 2 MiB at most.
	MaxEntries int

	// MaxAge is how long a denial is believed at most while the inner backend answers. So a reset,
	// or a limit that was changed elsewhere, is soon seen. While the inner backend fails, its
	// denials are believed for all of their RetryAfter. Around a [LeaseCache] MaxAge is a lease at
	// most for limits that are leased, since units that lie idle elsewhere return by then. 0: 10s.
	MaxAge time.Duration

	// Announcer tells the denial caches of other processes of denials that last a second or more,
	// and this one of theirs. Such a denial answers as if this process had asked, for MaxAge at
	// most, even while the inner backend fails. It is announced once. If the announcement is lost,
	// the other process asks the inner backend itself.
	//
	// A process that can announce can have requests denied, for MaxAge after each announcement.
	// The cache ignores announcements with a wait that the limit never causes, or a cost that
	// never fits. An announcement shortens no denial, and replaces none that this process has
	// asked for and still believes. nil: denials stay in this process.
	Announcer backends.Announcer
}

// DenialCache is a [backends.Backend] in front of another. It remembers denials. A charge that was
// denied is answered from memory, without asking the inner backend, until the denial's RetryAfter
// has passed. A client that goes on after a denial then costs a look-up in local memory. That pays
// off where the inner backend is far away, such as Redis.
//
// A denial answers charges of the same scope, key, limit and cost, and counts from the moment the
// question was sent. Charges with a cost of 0, shadow charges, and charges under a limit that
// counts values always go to the inner backend. Waits count down. When the cache answers one charge
// of a request, the others are marked [limits.SourceNotAsked].
//
// A denial that is [limits.Decision].Transient is not remembered, because it may end at any
// moment. When the inner backend returns an error, and the context has not ended, a denial older
// than MaxAge answers instead of the error.
type DenialCache struct {
	wrapper
	denials   denialTable
	leases    *LeaseCache        // within inner; nil: none
	returning *endings.Backend   // endings on their way to inner
	announcer backends.Announcer // nil: nothing is announced
}

const (
	defaultDenials = 1 << 14
	mostDenials    = 1 << 30
	defaultMaxAge  = 10 * time.Second
)

// NewDenialCache returns a cache in front of inner, or an error that reports every mistake in the
// arguments.
func NewDenialCache(inner backends.Backend, options DenialCacheOptions) (*DenialCache, error) {
	if err := errors.Join(validateInner(inner), options.validate()); err != nil {
		return nil, err
	}
	if options.MaxEntries == 0 {
		options.MaxEntries = defaultDenials
	}
	if options.MaxAge == 0 {
		options.MaxAge = defaultMaxAge
	}
	c := &DenialCache{
		wrapper:   wrapper{inner},
		denials:   newDenialTable(options.MaxEntries, options.MaxAge),
		leases:    leasesIn(inner),
		returning: endings.Of(inner),
		announcer: options.Announcer,
	}
	if c.leases != nil {
		c.denials.leased = &c.leases.terms
	}
	if c.announcer != nil {
		c.announcer.Listen(c.hear)
	}
	return c, nil
}

// MustNewDenialCache is [NewDenialCache] for arguments that the program sets. It panics if they
// have a mistake.
func MustNewDenialCache(inner backends.Backend, options DenialCacheOptions) *DenialCache {
	return must(NewDenialCache(inner, options))
}

func (o *DenialCacheOptions) validate() error {
	var errs []error
	if o.MaxEntries < 0 || o.MaxEntries > mostDenials {
		errs = append(errs, fmt.Errorf(
			"remote: max entries: must be 1 to %d, or 0 for %d (got %d)",
			mostDenials, defaultDenials, o.MaxEntries))
	}
	if o.MaxAge < 0 {
		errs = append(errs, fmt.Errorf(
			"remote: max age: must be positive, or 0 for %v (got %v)", defaultMaxAge, o.MaxAge))
	}
	return errors.Join(append(errs, validateAnnouncer(o.Announcer))...)
}

func validateAnnouncer(a backends.Announcer) error {
	if a != nil && isnil.Of(a) {
		return fmt.Errorf("remote: announcer: is a nil %T: leave Announcer nil", a)
	}
	return nil
}

// Take implements [backends.Backend].
func (c *DenialCache) Take(
	ctx context.Context, charges []backends.Charge, out []limits.Decision,
) error {
	if len(charges) != len(out) {
		return errCacheLengths
	}
	sent := c.denials.now()
	answered, aged := c.recallAny(charges, out, sent, false)
	if answered {
		return nil
	}
	if err := c.inner.Take(ctx, charges, out); err != nil {
		if aged && ctx.Err() == nil {
			if answered, _ := c.recallAny(charges, out, c.denials.now(), true); answered {
				return nil
			}
		}
		return err
	}
	for i := range out {
		if aged && cacheable(charges, i) {
			c.denials.forget(&charges[i], sent) // the answer replaces it
		}
		if cacheable(charges, i) {
			c.remember(&charges[i], &out[i], sent)
		}
	}
	return nil
}

// Recall sets out to the denial of ch and returns true if c believes one. It asks no backend. So a
// caller whose charges do not deny each other asks for the others alone; ch.Shadow has no meaning.
// failing says that the inner backend has just failed: then denials older than MaxAge answer, too.
func (c *DenialCache) Recall(ch *backends.Charge, out *limits.Decision, failing bool) bool {
	return lasts(ch) && c.denials.recall(ch, out, c.denials.now(), failing) == recalled
}

// Remember keeps d, the decision on ch, if it is a denial that Take would keep. The caller had
// asked by the instant sent. ch.Shadow has no meaning.
func (c *DenialCache) Remember(ch *backends.Charge, d *limits.Decision, sent time.Time) {
	if lasts(ch) {
		c.remember(ch, d, sent.Sub(c.denials.base).Microseconds())
	}
}

func (c *DenialCache) remember(ch *backends.Charge, d *limits.Decision, sent int64) {
	if d.Allowed || d.Transient || c.mayBeLifted(ch) {
		return
	}
	c.denials.remember(ch, d, sent)
	c.announce(ch, d, sent)
}

// recallAny answers charges if the cache has a denial of one of them that it may believe. While
// inner is failing it may believe any. aged reports whether a denial older than MaxAge would have
// answered.
func (c *DenialCache) recallAny(
	charges []backends.Charge, out []limits.Decision, now int64, failing bool,
) (answered, aged bool) {
	for i := range charges {
		out[i] = limits.Decision{Source: limits.SourceNotAsked, Allowed: true}
		if !cacheable(charges, i) {
			continue
		}
		switch c.denials.recall(&charges[i], &out[i], now, failing) {
		case recalled:
			answered = true
		case tooOld:
			aged = true
		}
	}
	return answered, aged
}

// cacheable reports whether the decision on charges[i] depends on that charge alone and, if it is
// a denial, denies the request.
func cacheable(charges []backends.Charge, i int) bool {
	return !charges[i].Shadow && lasts(&charges[i]) && isAlone(charges, i)
}

// lasts reports whether a denial of ch lasts until its RetryAfter. The denial of one value says
// nothing about other values of the key.
func lasts(ch *backends.Charge) bool {
	traits := &algorithm.Of(ch.Limit.Algorithm()).Traits
	return !traits.Held && !traits.Values && (ch.Cost > 0 || traits.Bans)
}

// mayBeLifted reports whether a denial of ch may be over soon: this process has sent endings for
// its key, and the inner backend has not answered them.
func (c *DenialCache) mayBeLifted(ch *backends.Charge) bool {
	return c.returning.Waits(ch.Scope, ch.Key)
}

// Settle implements [backends.Settler] if the inner backend does. Denials of a key that gets units
// back are forgotten.
func (c *DenialCache) Settle(
	ctx context.Context, endings []backends.Ending, out []limits.Settlement,
) error {
	defer func() { // even after an error the units may be back
		for i := range endings {
			if e := &endings[i]; e.Final < e.Taken && !algorithm.Of(e.Limit.Algorithm()).Held {
				c.denials.forgetKey(e.Scope, e.Key)
			}
		}
	}()
	return backends.Settle(ctx, c.inner, endings, out)
}

// Reset implements [backends.Resetter] if the inner backend does.
func (c *DenialCache) Reset(ctx context.Context, scope, key string) error {
	defer c.denials.forgetKey(scope, key) // afterwards, to forget denials that came in meanwhile
	return backends.Reset(ctx, c.inner, scope, key)
}

var errCacheLengths = errors.New("remote: denial cache: charges and decisions differ in length")

// announce tells other processes of the denial of ch, which was asked for at the instant sent.
func (c *DenialCache) announce(ch *backends.Charge, d *limits.Decision, sent int64) {
	if c.announcer == nil || d.RetryAfter < leastAnnounced || d.RetryAfter == limits.Never {
		return
	}
	asked := c.denials.base.Add(arith.Wait(sent))
	c.announcer.Announce(backends.Announcement{
		Scope: ch.Scope, Key: ch.Key, Limit: ch.Limit, Cost: ch.Cost, Asked: asked, Decision: *d,
	})
}

// hear remembers a denial that another process has announced, if its limit can cause it.
func (c *DenialCache) hear(a backends.Announcement) {
	ch := backends.Charge{Scope: a.Scope, Key: a.Key, Limit: a.Limit, Cost: a.Cost}
	if a.Decision.Allowed || a.Decision.Transient || ch.Limit.Validate() != nil ||
		!cacheable([]backends.Charge{ch}, 0) {
		return
	}
	now := time.Now()
	if a.Asked.After(now) { // otherwise it would replace answers to later questions
		a.Asked = now
	}
	d, possible := bounded(&a)
	if !possible || !a.Asked.Add(a.Decision.RetryAfter).After(now) || c.mayBeLifted(&ch) {
		return
	}
	if c.leases != nil && c.leases.table.mayHold(&ch) {
		return // this process need not ask
	}
	c.denials.rememberHeard(&ch, &d, a.Asked.Sub(c.denials.base).Microseconds())
}
