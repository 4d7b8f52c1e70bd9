package redisbackend

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/weir/internal/ground/algorithm"
	"github.com/weir-go/weir/internal/ground/slot"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
	"github.com/weir-go/weir/redisbackend/internal/line"
	"github.com/weir-go/weir/redisbackend/internal/wire"
)

// BareOf returns the backend that asks Redis for b.
func BareOf(b *Backend) *Bare { return b.bare }

// WithClock makes b decide by now instead of the server's clock, by 2255 at the
// latest, which is 2^53 microseconds.
func WithClock(b *Bare, now func() time.Time) *Bare {
	latest := time.UnixMicro(1<<53 - 1)
	b.servers.now = func() time.Time {
		if t := now(); t.Before(latest) {
			return t
		}
		return latest
	}
	WaitForEver(b)
	return b
}

// HoldForEver has b hold units until they are released: a clock set by hand moves on
// without renewals.
func HoldForEver(b *Bare) *Bare {
	b.holds.holdTime = 250 * 366 * 24 * time.Hour
	b.servers.encoder.SetHoldTime(b.holds.holdTime)
	return b
}

// WaitForGiveBacks waits until no give-back of b is left.
func WaitForGiveBacks(b *Bare) { b.giveBacks.wait(context.Background()) }

// SlotOf is the hash slot of a name.
var SlotOf = slot.Of

// Name is the name in Redis of a state under a rate.
func Name(b *Bare, scope, key string) string {
	return b.servers.encoder.Name(algorithm.Rates, scope, key)
}

// Names are the names in Redis of the states of all kinds.
func Names(b *Bare, scope, key string) (names []string) {
	return append(b.servers.encoder.AllNames(scope, key), HeldName(b, scope, key))
}

// NameUnder is the name in Redis of a state under a limit.
func NameUnder(b *Bare, limit limits.Limit, scope, key string) string {
	return b.servers.encoder.Name(algorithm.Of(limit.Algorithm()).Kind, scope, key)
}

// JudgeIDs is what Check makes of the ids of the servers that answered, and of the one that then
// answers the first question again.
func JudgeIDs(answers []string, again string) error {
	return judgeIDs(answers, func() ([]string, error) { return []string{again}, nil }, "%d servers")
}

// Look has b ask which servers answer, as after a minute, and returns what decisions then fail with.
func Look(b *Bare) error {
	b.lookout.fallDue()
	_ = b.lookout.spreads()
	<-b.lookout.stopped
	return b.lookout.spreads()
}

// Judge is what Check makes of a server's INFO.
var Judge = judge

// Explain is what Check says of a server's error.
var Explain = howToAllow

// TakeToGiveBack takes c as one group of a request that is spread over several servers. It
// returns a function that gives it back and reports whether there was anything to give.
func TakeToGiveBack(
	ctx context.Context, b *Bare, c backends.Charge,
) (d limits.Decision, giveBack func() (bool, error), err error) {
	var r request
	m := wire.Mode{Instant: b.servers.instant()}
	if err := r.accounts.Charge(b.servers.encoder, []backends.Charge{c}, m); err != nil {
		return d, nil, err
	}
	if _, err := b.takings.step(ctx, &r.job, r.accounts.All, m); err != nil {
		return d, nil, err
	}
	return r.job.taking.Results[0].Enforced, func() (bool, error) {
		s := settleTask{ending: r.job.taking.GiveBacks()[0], out: new(limits.Settlement)}
		e := b.servers.settling(ctx, &s.ending)
		s.record(e, b.servers.lines.SendAll(ctx, []*line.Errand{e})[0])
		return s.out.Returned > 0, s.out.Err
	}, nil
}

// Apart reports whether the states of charges are kept in a partition each, of a Cluster unless
// b knows better.
func Apart(b *Bare, charges ...backends.Charge) bool {
	locate := b.servers.lines.Partition()
	seen := make(map[any]bool)
	for _, c := range charges {
		var partition any = slot.Of(NameUnder(b, c.Limit, c.Scope, c.Key))
		if locate != nil {
			partition, _, _ = locate(NameUnder(b, c.Limit, c.Scope, c.Key))
		}
		if seen[partition] {
			return false
		}
		seen[partition] = true
	}
	return true
}

// Spread is how many scopes b knows to be charged together with others.
func Spread(b *Bare) int {
	if scopes := b.takings.returnable.scopes.Load(); scopes != nil {
		return len(*scopes)
	}
	return 0
}

// Waiting is how many requests wait in the lanes of b.
func Waiting(b *Bare) (n int) { return line.Waiting(b.servers.lines) }

// WaitForEver has b never take a server for silent, nor end a call: the machine may be slow.
func WaitForEver(b *Bare) { WaitFor(b, 1000*time.Hour) }

// WaitFor has b take a server for silent after a time.
func WaitFor(b *Bare, patience time.Duration) {
	line.SetPatience(b.servers.lines, patience)
	if b.lookout != nil {
		b.lookout.timeout = max(lookTimeout, patience)
	}
}

// OneCall has b make one call at a time to each server.
func OneCall(b *Bare) { line.SetMaxCalls(b.servers.lines, 1) }

// Client is the client that b works with.
func Client(b *Bare) redis.Scripter { return b.client }

// RunOnce calls a script that must not be repeated, and replies the number of its call and anything
// more, in one pipeline if it is called for several keys: all of each call are the same. The
// call can be sent in parts, or not. It returns the latest error.
func RunOnce(ctx context.Context, client redis.Scripter, source string, parts bool, of ...[]string) (err error) {
	var calls []*line.ScriptCall
	s := line.NewScript(source)
	for _, keys := range of {
		calls = append(calls, &line.ScriptCall{
			Script: &s, Keys: keys, Once: true, Divisible: parts, Receiver: anything{}, Most: line.MaxText,
		})
	}
	line.Run(ctx, client, calls...)
	for _, c := range calls {
		if c.Err != nil {
			err = c.Err
		}
	}
	return err
}

// anything is a receiver that believes each reply of its call.
type anything struct{}

func (anything) Receive(*line.Reply) error { return nil }

// RenewAll renews all that b holds, at once, and waits until it is done. Units that Redis had lost are
// renewed a second time: RenewAll waits for that, too, or it would cross what the test does next.
func RenewAll(b *Bare) {
	h := b.holds
	h.mu.Lock()
	defer h.mu.Unlock()
	waitForRenewals := func() {
		for h.renewingLocked() > 0 {
			h.answered.Wait()
		}
	}
	waitForRenewals()
	now := time.Now()
	for n := h.due.First; n != nil; n = n.Next {
		n.Of.dueAt = now
	}
	for n := h.retries.First; n != nil; n = n.Next {
		if !n.Of.isForRelease() {
			n.Of.dueAt = now
		}
	}
	h.runLocked(now)
	waitForRenewals()
	for h.due.First != nil && !h.due.First.Of.dueAt.After(time.Now()) && !h.closed {
		h.runLocked(time.Now())
		waitForRenewals()
	}
}

// HeldName is the name in Redis of what is held.
func HeldName(b *Bare, scope, key string) string { return b.servers.encoder.HeldName(scope, key) }

// Forget has b neither renew nor release what it holds.
func Forget(b *Bare, c backends.Charge, d limits.Decision) {
	b.holds.forget(idRange{key: HeldName(b, c.Scope, c.Key), first: d.Ticket, count: c.Cost})
}

// Holding is how many charges b holds units for, and how many units it has yet to release.
func Holding(b *Bare) (charges int, unreleased int64) {
	h := b.holds
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.running), h.unreleased
}

// WaitForReleases waits until ReleasesAreDone.
func WaitForReleases(b *Bare) {
	h := b.holds
	h.mu.Lock()
	defer h.mu.Unlock()
	for !h.areReleasesDoneLocked() {
		h.answered.Wait()
	}
}

// ReleasesAreDone reports whether nothing is being sent, and b has no units left to release,
// except for a second time.
func ReleasesAreDone(b *Bare) bool {
	h := b.holds
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.areReleasesDoneLocked()
}

func (h *holds) areReleasesDoneLocked() bool { return len(h.inFlight) == 0 && h.retries.First == nil }

// SettleDigest is the digest of the script that settles.
var SettleDigest = settleScript.Digest

// RenewDigest is the digest of the script that renews.
var RenewDigest = renewScript.Digest

// ReleaseDigest is the digest of the script that releases.
var ReleaseDigest = releaseScript.Digest

// Renewing is how many charges of b are being renewed.
func Renewing(b *Bare) (n int) {
	h := b.holds
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.renewingLocked()
}

func (h *holds) renewingLocked() (n int) {
	for k := range h.inFlight {
		if !k.isForRelease() {
			n++
		}
	}
	return n
}

// EncodeAnnouncements returns the message of a process.
func EncodeAnnouncements(all []backends.Announcement, now time.Time) string {
	message, err := encodeAnnouncements([instanceSize]byte{}, all, now)
	if err != nil {
		panic(err)
	}
	return string(message)
}

// DecodeAnnouncements reads a message that has arrived at an instant.
func DecodeAnnouncements(message string, arrived time.Time) ([]backends.Announcement, error) {
	_, all, err := decodeAnnouncements(message, arrived)
	return all, err
}

// MostAtOnce is the weight of requests up to which one call sends all that wait.
const MostAtOnce = line.MaxWeight - line.MaxWeight/8

// Form returns the form of a request, which two requests share if they differ in their keys only,
// and the weight of the request.
func Form(b *Bare, charges []backends.Charge, peeks bool) (form string, weight int) {
	var r wire.Accounts
	m := wire.Mode{Peeks: peeks, Instant: b.servers.instant()}
	if err := r.Charge(b.servers.encoder, charges, m); err != nil {
		panic(err)
	}
	var t wire.Taking
	t.Begin(r.All, m)
	return t.Form(), t.Weight
}

var JudgeClock = judgeClock

// RunLate has b find, for a second, that this process runs late while other replies of its only server
// come in.
func RunLate(b *Bare) { line.RunLate(b.servers.lines) }

// Product is the name and version of a server in what Check says.
var Product = product

// SetClockWrong has b believe that servers are ahead of this process's clock.
func SetClockWrong(b *Bare, by time.Duration) {
	b.servers.encoder.Learn(fmt.Errorf("WEIR asks again at %d:", time.Now().Add(by).UnixMicro()))
}

// ReadReply has a call for groups of charges read a reply, in pieces of a size, as go-redis passes
// it on. The reply is that to a number of a call. The server has told the instant now before.
func ReadReply(
	b *Bare, groups [][]backends.Charge, now int64, size int, reply func(number int64) string,
) ([][]limits.Decision, []error) {
	requests, jobs := make([]request, len(groups)), []*line.Job(nil)
	for i, charges := range groups {
		r := &requests[i]
		if err := r.accounts.Charge(b.servers.encoder, charges, wire.Mode{}); err != nil {
			panic(err)
		}
		r.job.prepare(context.Background(), b.giveBacks, r.accounts.All, wire.Mode{})
		jobs = append(jobs, &r.job.Job)
	}
	line.ReadReply(jobs, now, size, reply)
	decisions, errs := make([][]limits.Decision, len(groups)), make([]error, len(groups))
	for i := range requests {
		r := &requests[i]
		if errs[i] = r.job.Err; errs[i] != nil {
			continue
		}
		decisions[i] = make([]limits.Decision, len(groups[i]))
		r.accounts.Decide(groups[i], r.job.taking.Results, decisions[i])
	}
	return decisions, errs
}

// Sources are the scripts that decide and end, by digest.
func Sources() map[string]string {
	all := make(map[string]string)
	for _, s := range []line.Script{takeScript, settleScript, renewScript, releaseScript} {
		all[s.Digest] = s.Source
	}
	return all
}

// Beats makes b a member that beats when it is told to. beat makes b count for a time, or with 0 no
// more, and returns how many backends count. key is the name of the set.
func Beats(b *Bare) (beat func(context.Context, time.Duration) (int64, error), key string) {
	h := newHeartbeat(b.servers)
	return h.send, h.key
}

// BeatLasts is how long a beat counts.
const BeatLasts = beatLasts

// WithCommands is the error of a beat in the log.
var WithCommands = withCommands

// TextOf is a limit as states name it.
func TextOf(l limits.Limit) string {
	e := wire.NewEncoder("", "", nil, time.Second)
	ending := must(e.Ending(&backends.Ending{Limit: l}, 0))
	text, _, _ := strings.Cut(ending.Arguments()[0].(string), " ")
	return text
}

var zeroOfState = regexp.MustCompile(`^((?:<.*>)?[a-ce-fh-z]\d+/\S+ \d+ \d+) 0(\+.*)?$`)

// WithoutZero is a state as Redis keeps it, without its b if that is 0.
func WithoutZero(state string) string { return zeroOfState.ReplaceAllString(state, "$1$2") }
