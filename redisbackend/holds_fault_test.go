package redisbackend_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
	"github.com/weir-go/weir/redisbackend"
)

// holdsNothing waits until nothing is held on the key of c.
func holdsNothing(t *testing.T, b backends.Peeker, c backends.Charge) {
	t.Helper()
	until(t, "nothing is held", func() bool { return held(t, b, c) == 0 })
}

// The client repeats what it has no reply to; such a taking must not be repeated.
func TestATakingWhoseReplyIsLostHoldsNothing(t *testing.T) {
	t.Parallel()
	var lose atomic.Bool
	server := startRedis(t)
	client := redis.NewClient(&redis.Options{Addr: server.addr, Dialer: loser(&lose), ContextTimeoutEnabled: true})
	defer client.Close()
	clients := pipeliners(t, client)
	type embedding struct{ *redis.Client }
	clients["plain"], clients["embedded"] = client, embedding{client}
	looks := redisbackend.MustNewBare(newClient(t, server.addr), redisbackend.BareOptions{})
	c := charge("uploads", "ann", limits.Concurrent(1), 1)
	rate := charge("rate", "ann", limits.FixedWindow(limits.PerDay(10)), 1)
	for kind, client := range clients {
		for how, deadline := range map[string]bool{"inline": false, "by a worker": true} {
			name := kind + ", " + how
			for range 20 {
				b := redisbackend.MustNewBare(client, redisbackend.BareOptions{})
				ctx, cancel := context.Background(), context.CancelFunc(func() {})
				if deadline {
					ctx, cancel = context.WithCancel(ctx)
				}
				end(t, b, c, take(t, b, c)[0])
				lose.Store(true)
				err := b.Take(ctx, []backends.Charge{c, rate}, make([]limits.Decision, 2))
				cancel()
				if err == nil || lose.Load() {
					t.Fatalf("%s: the reply was lost: %v", name, err)
				}
				holdsNothing(t, looks, c)
				if charges, _ := redisbackend.Holding(b); charges != 0 {
					t.Errorf("%s: the process believes that it holds %d", name, charges)
				}
				ok(t, b.Close()) // it would release again a second later, and lose the reply to that
				ok(t, looks.Reset(t.Context(), rate.Scope, rate.Key))
			}
		}
	}
}

func TestATakingOfACallerWhoHasLeftHoldsNothing(t *testing.T) {
	t.Parallel()
	client, g := startGate(t)
	b := redisbackend.MustNewBare(client, redisbackend.BareOptions{})
	redisbackend.WaitForEver(b)
	c := charge("uploads", "ann", limits.Concurrent(1000), 3)
	take(t, b, charge("other", "k", limits.Concurrent(1), 1)) // the server learns the script
	for range 10 {
		g.close()
		const callers = 40
		var wg sync.WaitGroup
		var took sync.Map
		var n atomic.Int64
		ctx, leave := context.WithCancel(t.Context())
		for i := range callers {
			wg.Go(func() {
				c, mine := c, ctx
				if c.Shadow = i%5 == 4; i%2 == 0 {
					mine = context.Background()
				}
				out := make([]limits.Decision, 1)
				switch err := b.Take(mine, []backends.Charge{c}, out); {
				case err == nil:
					took.Store(i, out[0])
					n.Add(1)
				case !errors.Is(err, context.Canceled):
					t.Error(err)
				}
			})
		}
		until(t, "a call is held up", func() bool { return g.held.Load() > 0 })
		go g.open() // while callers leave
		leave()
		wg.Wait()
		until(t, "only what callers know of is held", func() bool { return held(t, b, c) == 3*n.Load() })
		took.Range(func(_, d any) bool { end(t, b, c, d.(limits.Decision)); return true })
		holdsNothing(t, b, c)
	}
}

func TestAReleaseWhoseReplyIsLostIsRepeated(t *testing.T) {
	t.Parallel()
	var lose atomic.Bool
	client := redis.NewClient(&redis.Options{Addr: startRedis(t).addr, Dialer: loser(&lose), MaxRetries: -1})
	defer client.Close()
	b := redisbackend.MustNewBare(client, redisbackend.BareOptions{})
	c := charge("uploads", "ann", limits.Concurrent(5), 2)
	end(t, b, c, take(t, b, c)[0]) // the server learns the script
	d := take(t, b, c)[0]
	lose.Store(true)
	end(t, b, c, d)
	if lose.Load() {
		t.Error("no reply was lost")
	}
	holdsNothing(t, b, c)
	until(t, "nothing waits", func() bool { return redisbackend.ReleasesAreDone(b) })
}

func TestARenewalWhoseReplyIsLostIsRepeated(t *testing.T) {
	t.Parallel()
	var lose atomic.Bool
	client := redis.NewClient(&redis.Options{Addr: startRedis(t).addr, Dialer: loser(&lose), MaxRetries: -1})
	defer client.Close()
	var log logged
	b := newStepped(client, redisbackend.BareOptions{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	c := charge("uploads", "ann", limits.Concurrent(5), 2)
	d := take(t, b, c)[0]
	redisbackend.RenewAll(b.Bare) // the server learns the script
	for range 3 {
		b.after(29 * time.Second)
		lose.Store(true)
		redisbackend.RenewAll(b.Bare)
		redisbackend.RenewAll(b.Bare)
		if n := held(t, b, c); n != 2 || lose.Load() {
			t.Fatalf("%d are held, want 2", n)
		}
	}
	if log.count("lost") != 0 {
		t.Error("a lost reply is logged as lost units")
	}
	lose.Store(true)
	redisbackend.RenewAll(b.Bare)
	end(t, b, c, d)
	holdsNothing(t, b, c)
}

// delayed is a hook that holds up renewals while told to.
type delayed struct{ holding }

func (h *delayed) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if gate := h.gate.Load(); gate != nil && cmd.Args()[1] == redisbackend.RenewDigest {
			<-*gate
		}
		return next(ctx, cmd)
	}
}

func TestAReleaseDuringARenewalIsRepeatedAfterIt(t *testing.T) {
	t.Parallel()
	server := startRedis(t)
	client := redis.NewClient(&redis.Options{Addr: server.addr})
	defer client.Close()
	hook := new(delayed)
	client.AddHook(hook)
	var log logged
	b := redisbackend.MustNewBare(client, redisbackend.BareOptions{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	c := charge("uploads", "ann", limits.Concurrent(5), 2)
	d, other := take(t, b, c)[0], take(t, b, charge("uploads", "bob", limits.Concurrent(5), 1))[0]
	redisbackend.RenewAll(b)
	gate := make(chan struct{})
	hook.gate.Store(&gate)
	renewed := make(chan struct{})
	go func() { redisbackend.RenewAll(b); close(renewed) }()
	until(t, "the renewal is under way", func() bool { return redisbackend.Renewing(b) == 2 })
	end(t, b, c, d)
	if n := held(t, b, c); n != 0 {
		t.Errorf("%d are held after the end", n)
	}
	hook.gate.Store(nil)
	close(gate)
	<-renewed
	holdsNothing(t, b, c)
	if n := held(t, b, charge("uploads", "bob", limits.Concurrent(5), 1)); n != 1 {
		t.Errorf("%d of another key are held, want 1", n)
	}
	_ = other
	if log.count("lost") != 0 {
		t.Error("a unit that was released during its renewal is logged as lost")
	}
}

// breakable dials connections that fail while broken is set.
func breakable(broken *atomic.Bool) func(ctx context.Context, network, addr string) (net.Conn, error) {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		if broken.Load() {
			return nil, &net.OpError{Op: "dial", Err: errors.New("refused")}
		}
		conn, err := new(net.Dialer).DialContext(ctx, network, addr)
		return &brokenConn{conn, broken}, err
	}
}

type brokenConn struct {
	net.Conn
	broken *atomic.Bool
}

func (c *brokenConn) Write(p []byte) (int, error) {
	if c.broken.Load() {
		c.Conn.Close()
		return 0, net.ErrClosed
	}
	return c.Conn.Write(p)
}

func TestWhatEndsWhileRedisIsAwayIsReleasedWhenItIsBack(t *testing.T) {
	t.Parallel()
	var away atomic.Bool
	server := startRedis(t)
	client := redis.NewClient(&redis.Options{
		Addr: server.addr, Dialer: breakable(&away), MaxRetries: -1, DialerRetries: 1,
	})
	defer client.Close()
	b := redisbackend.MustNewBare(client, redisbackend.BareOptions{})
	c := charge("uploads", "ann", limits.Concurrent(100), 2)
	var all []limits.Decision
	for range 50 {
		all = append(all, take(t, b, c)[0])
	}
	away.Store(true)
	for _, d := range all {
		end(t, b, c, d) // at once, and without an error
	}
	if charges, units := redisbackend.Holding(b); charges != 0 || units == 0 {
		t.Errorf("%d charges are held and %d units wait, want 0 and some", charges, units)
	}
	away.Store(false)
	holdsNothing(t, redisbackend.MustNewBare(newClient(t, server.addr), redisbackend.BareOptions{}), c)
}

func TestReleasesThatWaitAreBounded(t *testing.T) {
	t.Parallel()
	var away atomic.Bool
	server := startRedis(t)
	client := redis.NewClient(&redis.Options{
		Addr: server.addr, Dialer: breakable(&away), MaxRetries: -1, DialerRetries: 1,
	})
	defer client.Close()
	b := redisbackend.MustNewBare(client, redisbackend.BareOptions{Logger: slog.New(slog.DiscardHandler)})
	c := charge("uploads", "ann", limits.Concurrent(100_000), 64)
	var endings []backends.Ending
	for range 1100 {
		endings = append(endings, ending(c, take(t, b, c)[0]))
	}
	away.Store(true)
	out := make([]limits.Settlement, len(endings))
	ok(t, b.Settle(t.Context(), endings, out))
	for i, s := range out {
		if beyond := i >= 65_536/64; (s.Err != nil) != beyond {
			t.Fatalf("ending %d, of 64 units each, while 65,536 may wait: %+v", i, s)
		}
	}
	if _, units := redisbackend.Holding(b); units > 65_536 {
		t.Errorf("%d units wait", units)
	}
	away.Store(false)
	looks := redisbackend.MustNewBare(newClient(t, server.addr), redisbackend.BareOptions{})
	// on a slow machine more: holds that nobody renews expire
	until(t, "most are released", func() bool { return held(t, looks, c) <= 70_400-65_536 })
}

func TestAHundredThousandUnitsAreHeld(t *testing.T) {
	t.Parallel()
	client := newClient(t, startRedis(t).addr)
	b := newStepped(client, redisbackend.BareOptions{})
	const most = 100_000
	c := charge("uploads", "ann", limits.Concurrent(most), 50)
	var endings []backends.Ending
	for range most / 50 {
		endings = append(endings, ending(c, take(t, b, c)[0]))
	}
	if d := take(t, b, charge("uploads", "ann", limits.Concurrent(most), 1))[0]; d.Allowed {
		t.Error("100,001 are held")
	}
	before := client.MemoryUsage(t.Context(), redisbackend.HeldName(b.Bare, c.Scope, c.Key)).Val()
	ok(t, client.ConfigResetStat(t.Context()).Err())
	for range 2 {
		b.after(29 * time.Second)
		redisbackend.RenewAll(b.Bare)
	}
	if n := held(t, b, c); n != most {
		t.Errorf("%d are held", n)
	}
	t.Logf("%d bytes a unit; %s", before/most, client.Info(t.Context(), "commandstats").Val())
	for len(endings) > 0 {
		n := min(1024, len(endings))
		ok(t, b.Settle(t.Context(), endings[:n], make([]limits.Settlement, n)))
		endings = endings[n:]
	}
	if n := held(t, b, c); n != 0 {
		t.Errorf("%d are held after all have ended", n)
	}
}

// scripted is a server that replies to renewals and releases, in virtual time. It allows each
// taking.
type scripted struct {
	redis.Scripter
	away  atomic.Bool
	slow  atomic.Int64 // how long a release takes
	mu    sync.Mutex
	calls []string
	since time.Time
}

func (s *scripted) EvalSha(ctx context.Context, digest string, keys []string, args ...any) *redis.Cmd {
	what, reply := "release", redis.NewCmd(ctx)
	number := args[0]
	switch digest {
	case redisbackend.RenewDigest:
		what = "renew"
	case redisbackend.ReleaseDigest:
		time.Sleep(time.Duration(s.slow.Load()))
	default:
		reply.SetVal(fmt.Sprint(number, time.Now().UnixMicro(), " 1 0 0 0"))
		return reply
	}
	if reply.SetVal(fmt.Sprint(number, strings.Repeat(" 0", len(keys)))); s.away.Load() {
		what += " in vain"
		reply.SetErr(errors.New("no answer"))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	what = fmt.Sprintf("%.2f: %s ", time.Since(s.since).Seconds(), what)
	n, last := len(keys), len(s.calls)-1
	if last >= 0 { // how many calls one instant has is up to the scheduler
		if before, err := strconv.Atoi(strings.TrimPrefix(s.calls[last], what)); err == nil {
			n += before
			s.calls = s.calls[:last]
		}
	}
	s.calls = append(s.calls, what+strconv.Itoa(n))
	return reply
}

func (s *scripted) expect(t *testing.T, want ...string) {
	t.Helper()
	synctest.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	if fmt.Sprint(s.calls) != fmt.Sprint(want) {
		t.Errorf("%q\nwant %q", s.calls, want)
	}
	s.calls, s.since = nil, time.Now()
}

// expectRenewals fails unless one was made in every stretch of a length until now.
func (s *scripted) expectRenewals(t *testing.T, every, until time.Duration) {
	t.Helper()
	synctest.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	last := time.Duration(0)
	for _, call := range append(s.calls, fmt.Sprintf("%.2f: end", until.Seconds())) {
		text, _, _ := strings.Cut(call, ":")
		seconds, err := strconv.ParseFloat(text, 64)
		ok(t, err)
		if at := time.Duration(seconds * float64(time.Second)); at-last > every {
			t.Errorf("no renewal between %v and %v", last, at)
		} else {
			last = at
		}
	}
}

func TestRenewalsAreMadeInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &scripted{since: time.Now()}
		b := redisbackend.MustNewBare(server, redisbackend.BareOptions{HashTag: "one"})
		c := charge("uploads", "ann", limits.Concurrent(5), 1)
		var all []limits.Decision
		for i := range 3 {
			c.Key = fmt.Sprint(i)
			all = append(all, take(t, b, c)[0])
		}
		time.Sleep(22 * time.Second)
		server.expect(t, "10.50: renew 3", "21.00: renew 3")
		// It is away from 9 s after the last renewal on, and is back soon enough.
		time.Sleep(8 * time.Second)
		server.away.Store(true)
		time.Sleep(3 * time.Second)
		server.away.Store(false)
		time.Sleep(time.Second)
		server.expect(t, "9.50: renew in vain 3", "10.50: renew in vain 3", "11.50: renew 3")
		// Ends while it is away: only until the units have ended by themselves.
		server.away.Store(true)
		for i, d := range all {
			c.Key = fmt.Sprint(i)
			end(t, b, c, d)
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		if _, units := redisbackend.Holding(b); units != 0 || len(server.calls) < 20 || len(server.calls) > 50 {
			t.Errorf("%d units wait, after %d attempts", units, len(server.calls))
		}
		if !redisbackend.ReleasesAreDone(b) {
			t.Error("a goroutine is left")
		}
	})
}

// Ends of requests have the backend look at what is due. Each would renew a unit by itself.
func TestEndsLeaveRenewalsTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &scripted{since: time.Now()}
		b := redisbackend.MustNewBare(server, redisbackend.BareOptions{HashTag: "one"})
		c := charge("uploads", "ann", limits.Concurrent(5), 1)
		for range 4 {
			take(t, b, c)
			time.Sleep(100 * time.Millisecond)
		}
		time.Sleep(9 * time.Second)
		server.expect(t)
		for range 20 {
			end(t, b, c, limits.Decision{Ticket: -1})
			time.Sleep(100 * time.Millisecond)
		}
		synctest.Wait()
		server.mu.Lock()
		renewals := slices.DeleteFunc(server.calls, func(call string) bool { return !strings.Contains(call, "renew") })
		server.mu.Unlock()
		if want := []string{"1.10: renew 4"}; !slices.Equal(renewals, want) {
			t.Errorf("%q\nwant %q", renewals, want)
		}
		ok(t, b.Close())
	})
}

// Units that are renewed later than HoldTime after their last renewal are given to others,
// while the requests that hold them still run.
func TestSlowReleasesDelayNoRenewal(t *testing.T) {
	for name, of := range map[string]struct {
		takes time.Duration // one call for 500 units
		away  bool          // and in vain
	}{
		"slow":                              {takes: 900 * time.Millisecond},
		"silent":                            {takes: time.Second, away: true},
		"silent, and its client is patient": {takes: 12 * time.Second, away: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				busy, server := &scripted{since: time.Now()}, &scripted{since: time.Now()}
				both := &twoServers{renews: server, releases: busy}
				b := redisbackend.MustNewBare(both, redisbackend.BareOptions{HashTag: "one", HoldTime: 3 * time.Second})
				c := charge("uploads", "ann", limits.Concurrent(5), 1)
				d := take(t, b, c)[0]
				busy.away.Store(true)
				many := charge("uploads", "bob", limits.Concurrent(100_000), 64)
				for i := range int64(100) {
					end(t, b, many, limits.Decision{Ticket: 1000 * i})
				}
				synctest.Wait() // the first release is answered
				busy.slow.Store(int64(of.takes))
				busy.away.Store(of.away)
				if _, units := redisbackend.Holding(b); units != 6400 {
					t.Fatalf("%d units wait for their release", units)
				}
				time.Sleep(21*time.Second + time.Millisecond)
				server.expectRenewals(t, 2100*time.Millisecond, 21*time.Second)
				end(t, b, c, d)
				busy.slow.Store(0)
				busy.away.Store(false)
				time.Sleep(time.Minute)
				synctest.Wait()
				if !redisbackend.ReleasesAreDone(b) {
					t.Error("a goroutine is left")
				}
			})
		})
	}
}

// While one server is silent, the renewals of others wait for it, and for the next attempt.
func TestRenewalsAreTriedAgainWithinAThirtiethOfHoldTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &scripted{since: time.Now()}
		b := redisbackend.MustNewBare(server, redisbackend.BareOptions{HashTag: "one", HoldTime: 3 * time.Second})
		c := charge("uploads", "ann", limits.Concurrent(5), 1)
		d := take(t, b, c)[0]
		server.away.Store(true)
		time.Sleep(1500 * time.Millisecond)
		const again = ": renew in vain 1"
		server.expect(t, "1.05"+again, "1.15"+again, "1.25"+again, "1.35"+again, "1.45"+again)
		server.away.Store(false)
		time.Sleep(time.Second)
		end(t, b, c, d)
	})
}

// twoServers answers releases by one server, and all else by another.
type twoServers struct {
	redis.Scripter
	renews, releases *scripted
}

func (s *twoServers) EvalSha(ctx context.Context, digest string, keys []string, arguments ...any) *redis.Cmd {
	if digest == redisbackend.ReleaseDigest {
		return s.releases.EvalSha(ctx, digest, keys, arguments...)
	}
	return s.renews.EvalSha(ctx, digest, keys, arguments...)
}

func TestHoldTimeHasARange(t *testing.T) {
	for _, wrong := range []time.Duration{-1, 1, 3*time.Second - 1, time.Hour + 1} {
		if _, err := redisbackend.Open("redis://127.0.0.1:1", redisbackend.Options{HoldTime: wrong}); err == nil {
			t.Errorf("%v is accepted", wrong)
		}
	}
	for _, right := range []time.Duration{0, 3 * time.Second, time.Hour} {
		b, err := redisbackend.Open("redis://127.0.0.1:1", redisbackend.Options{HoldTime: right})
		ok(t, err)
		ok(t, b.Close())
	}
}

// A request that one server denies holds nothing on the others.
func holdsNothingForDeniedGroups(t *testing.T, client redis.UniversalClient) {
	b := newStepped(client, redisbackend.BareOptions{Prefix: uniquePrefix()})
	spent := charge("spent", "k", limits.FixedWindow(limits.PerDay(1)), 1)
	take(t, b, spent)
	var charges []backends.Charge
	for i := range 8 { // on all servers
		charges = append(charges, charge("uploads", fmt.Sprint(i), limits.Concurrent(5), 2))
	}
	kept := make([]limits.Decision, 8)
	ok(t, b.Take(t.Context(), charges, kept))
	for range 5 {
		ok(t, b.Take(t.Context(), append(charges, spent), make([]limits.Decision, 9)))
	}
	until(t, "releases are done", func() bool { return redisbackend.ReleasesAreDone(b.Bare) })
	for i, c := range charges {
		if n := held(t, b, c); n != 2 {
			t.Errorf("%d are held, want 2", n)
		}
		b.after(time.Second)
		end(t, b, c, kept[i])
		if n := held(t, b, c); n != 0 {
			t.Errorf("%d are held after the end", n)
		}
	}
}

// A renewal without a reply may reach the server after the release. Time stands still
// here, so units do not end by themselves.
func TestARenewalThatArrivesAfterTheReleaseHoldsNothing(t *testing.T) {
	t.Parallel()
	client := redis.NewClient(&redis.Options{Addr: startRedis(t).addr, MaxRetries: -1})
	defer client.Close()
	late := new(lateRenewal)
	client.AddHook(late)
	b := newStepped(client, redisbackend.BareOptions{Logger: slog.New(slog.DiscardHandler)})
	c := charge("uploads", "ann", limits.Concurrent(5), 2)
	for _, renewedAgain := range []bool{false, true} {
		until(t, "the renewal arrives between two releases", func() bool {
			d := take(t, b, c)[0]
			redisbackend.RenewAll(b.Bare) // the server learns the script
			late.on.Store(true)
			redisbackend.RenewAll(b.Bare)
			late.on.Store(false)
			if renewedAgain {
				redisbackend.RenewAll(b.Bare)
			}
			before := late.releases.Load()
			end(t, b, c, d)
			ok(t, client.Do(t.Context(), late.args...).Err())
			return late.releases.Load() == before+1 // otherwise the machine is slow
		})
		holdsNothing(t, b, c)
		until(t, "nothing waits", func() bool { return redisbackend.ReleasesAreDone(b.Bare) })
	}
}

// lateRenewal is a hook that keeps renewals instead of sending them.
type lateRenewal struct {
	holding
	on       atomic.Bool
	releases atomic.Int64
	args     []any
}

func (h *lateRenewal) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if h.on.Load() && len(cmd.Args()) > 1 && cmd.Args()[1] == redisbackend.RenewDigest {
			h.args = cmd.Args()
			cmd.SetErr(context.DeadlineExceeded)
			return context.DeadlineExceeded
		}
		if len(cmd.Args()) > 1 && cmd.Args()[1] == redisbackend.ReleaseDigest {
			h.releases.Add(1)
		}
		return next(ctx, cmd)
	}
}

// A type that embeds a client was taken for one that does not repeat commands.
func TestATakingByATypeThatEmbedsAClientIsNotRepeated(t *testing.T) {
	t.Parallel()
	var lose atomic.Bool
	type embedding struct{ *redis.Client }
	server := startRedis(t)
	options := redis.Options{Addr: server.addr, Dialer: loser(&lose), ContextTimeoutEnabled: true}
	client := embedding{redis.NewClient(&options)}
	defer client.Close()
	b := redisbackend.MustNewBare(client, redisbackend.BareOptions{})
	c := charge("uploads", "ann", limits.Concurrent(1), 1)
	end(t, b, c, take(t, b, c)[0]) // the server learns the script
	lose.Store(true)
	out := make([]limits.Decision, 1)
	if err := b.Take(t.Context(), []backends.Charge{c}, out); err == nil || lose.Load() {
		t.Errorf("the reply was lost: %+v, %v", out, err)
	}
	holdsNothing(t, redisbackend.MustNewBare(newClient(t, server.addr), redisbackend.BareOptions{}), c)
}

// tryAgain is the reply of a server to a call for several keys of a slot that is half moved.
type tryAgain struct{}

func (tryAgain) Error() string { return "TRYAGAIN Multiple keys request during rehashing of slot" }
func (tryAgain) RedisError()   {}

// halfMoved is a hook that refuses renewals and releases of several keys, as a server does
// whose slot is half moved.
type halfMoved struct{ holding }

func (h *halfMoved) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		args := cmd.Args()
		if len(args) > 2 && fmt.Sprint(args[2]) > "1" && (args[1] == redisbackend.RenewDigest ||
			args[1] == redisbackend.ReleaseDigest) {
			cmd.SetErr(tryAgain{})
			return tryAgain{}
		}
		return next(ctx, cmd)
	}
}

// A slot may be half moved for longer than units are held.
func TestWhileASlotIsHalfMovedItsUnitsAreRenewedAndReleased(t *testing.T) {
	t.Parallel()
	client := redis.NewClient(&redis.Options{Addr: startRedis(t).addr})
	defer client.Close()
	client.AddHook(new(halfMoved))
	b := newStepped(client, redisbackend.BareOptions{HashTag: "moving", Logger: slog.New(slog.DiscardHandler)})
	var charges []backends.Charge
	var endings []backends.Ending
	for i := range 5 {
		c := charge("uploads", fmt.Sprint(i), limits.Concurrent(5), 2)
		for range 2 {
			endings = append(endings, ending(c, take(t, b, c)[0]))
		}
		charges = append(charges, c)
	}
	for range 3 {
		b.after(29 * time.Second)
		redisbackend.RenewAll(b.Bare)
	}
	for i, c := range charges {
		if n := held(t, b, c); n != 4 {
			t.Errorf("%d: %d are held, want 4", i, n)
		}
	}
	ok(t, b.Settle(t.Context(), endings, make([]limits.Settlement, len(endings))))
	if !redisbackend.ReleasesAreDone(b.Bare) {
		t.Error("some units wait to be released")
	}
	for i, c := range charges {
		if n := held(t, b, c); n != 0 {
			t.Errorf("%d: %d are held after the end", i, n)
		}
	}
}

// A hook that panics or ends its goroutine harms neither what is settled later nor the process.
func TestAHookThatMisbehavesInAnEndIsAnError(t *testing.T) {
	t.Parallel()
	client, g := startGate(t)
	b := redisbackend.MustNewBare(client, redisbackend.BareOptions{})
	held := charge("uploads", "ann", limits.Concurrent(5), 1)
	rate := lasting("rate", "ann", limits.FixedWindow(limits.PerDay(10)), 3)
	for name, before := range map[string]func(){"panic": func() { panic("hook") }, "exit": runtime.Goexit} {
		out := take(t, b, held, rate)
		endings := []backends.Ending{ending(held, out[0]), endingOf(rate, out[1], 1)}
		g.setBefore(before)
		s := settle(t, b, endings...)
		until(t, name+": the release is tried again", func() bool { return g.scripts.Load() > 6 })
		g.setBefore(nil)
		if s[0].Err != nil || s[1].Err == nil || !strings.Contains(s[1].Err.Error(), "hook") {
			t.Errorf("%s: %+v", name, s)
		}
		holdsNothing(t, b, held)
		if s := settle(t, b, endings[1])[0]; s.Err != nil || s.Returned != 2 {
			t.Errorf("%s: afterwards %+v", name, s)
		}
		g.scripts.Store(0)
	}
}
