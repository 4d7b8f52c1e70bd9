package redisbackend_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
	"github.com/weir-go/weir/redisbackend"
)

// onlyScripter is a client that hides all but its scripts.
type onlyScripter struct{ redis.Scripter }

// throughLiar returns backends of all kinds of clients behind l.
func throughLiar(t *testing.T, l *liar) map[string]*redisbackend.Bare {
	t.Helper()
	options := func() *redis.Options {
		return &redis.Options{Addr: l.addr, ContextTimeoutEnabled: true, MaxRetries: -1, DialerRetries: 1, PoolSize: 4}
	}
	one, hidden := redis.NewClient(options()), redis.NewClient(options())
	cluster := redis.NewClusterClient(&redis.ClusterOptions{
		ContextTimeoutEnabled: true, MaxRetries: -1, DialerRetries: 1, PoolSize: 4,
		Addrs: []string{l.addr},
		ClusterSlots: func(context.Context) ([]redis.ClusterSlot, error) {
			return []redis.ClusterSlot{{Start: 0, End: 16383, Nodes: []redis.ClusterNode{{Addr: l.addr}}}}, nil
		},
	})
	t.Cleanup(func() {
		one.Close()
		hidden.Close()
		cluster.Close()
	})
	return map[string]*redisbackend.Bare{
		"a server":                newBare(one),
		"a Cluster, in pipelines": newBare(cluster),
		"a wrapped client": redisbackend.MustNewBare(
			onlyScripter{hidden}, redisbackend.BareOptions{HashTag: uniquePrefix()},
		),
	}
}

// A proxy that is out of step passes on the replies to other calls. Each of 16 keys has a limit of
// its own, so an answer for another key is seen.
func TestNoRequestGetsTheReplyToAnother(t *testing.T) {
	t.Parallel()
	// everyNth replaces each n-th reply.
	everyNth := func(n int64, lie func(reply string) []string) func(string) []string {
		var count atomic.Int64
		return func(reply string) []string {
			if count.Add(1)%n == 0 {
				return lie(reply)
			}
			return []string{reply}
		}
	}
	var mu sync.Mutex
	var before string
	earlier := func(reply string) []string {
		mu.Lock()
		defer mu.Unlock()
		reply, before = before, reply
		return []string{reply}
	}
	withEarlier := func(reply string) []string { return append(earlier(reply), reply) }
	twice := func(reply string) []string { return []string{reply, reply} }
	for _, tt := range []struct {
		name    string
		lie     func(reply string) []string
		decides bool // some calls
	}{
		{"each reply is that to the call before", earlier, false},
		{"some are those to earlier calls", everyNth(5, earlier), true},
		{"some are sent twice", everyNth(7, twice), true},
		{"some have that to an earlier call before them", everyNth(5, withEarlier), true},
		{"one is lost", everyNth(30, func(string) []string { return nil }), true},
	} {
		l := startLiar(t, miniredis.RunT(t).Addr())
		var allFailed int64 // go-redis itself notices some, if they come in time
		for name, b := range throughLiar(t, l) {
			l.tell(nil)
			take(t, b, charge("warm", "k", limits.FixedWindow(limits.PerDay(1)), 0))
			before = replyOf("1234567890", fmt.Sprint(time.Now().UnixMicro()), "1", "0", "0", "0", "0")
			l.tell(tt.lie)
			decided, failed := takeApart(t, b)
			if allFailed += failed; decided > 0 != tt.decides {
				t.Errorf("%s, %s: %d calls decided, %d failed", tt.name, name, decided, failed)
			}
			l.tell(nil)
			until(t, "it decides again", func() bool {
				_, failed := takeApart(t, b)
				return failed == 0
			})
		}
		if allFailed == 0 {
			t.Errorf("%s: no call failed: the test shows little", tt.name)
		}
	}
}

// takeApart has 16 callers take from keys that have a different limit each, and checks that each
// decision is that of its own.
func takeApart(t *testing.T, b *redisbackend.Bare) (decided, failed int64) {
	t.Helper()
	var ok, errs atomic.Int64
	var callers sync.WaitGroup
	key := uniquePrefix()
	for i := range int64(16) {
		callers.Go(func() {
			limit := 1000 * (i + 1)
			c := charge("s", fmt.Sprint(key, i), limits.FixedWindow(limits.PerDay(limit)), 1)
			for n := int64(1); n <= 20; n++ {
				out := make([]limits.Decision, 1)
				if b.Take(t.Context(), []backends.Charge{c}, out) != nil {
					errs.Add(1) // the unit may have been taken
					continue
				}
				ok.Add(1)
				if d := out[0]; !d.Allowed || d.Remaining >= limit || d.Remaining < limit-n {
					t.Errorf("key %d: after %d takings of %d: %+v", i, n, limit, d)
				}
			}
		})
	}
	callers.Wait()
	return ok.Load(), errs.Load()
}

// What no script replies is an error, and the last reply of its connection. The next call has
// another.
func TestAReplyThatIsNotBelievedIsTheLastOfItsConnection(t *testing.T) {
	t.Parallel()
	const foreign, impossible = "the reply is not that of this call", "a number that the script never computes"
	// A reply has the number of its call, the instant, whether it is allowed, and of the window the start,
	// the units in it, 0, and what it owes.
	part := func(i int, text string) func(reply string) []string {
		return func(reply string) []string {
			parts := partsOf(reply)
			parts[i] = text
			return []string{replyOf(parts...)}
		}
	}
	now := func(by time.Duration) func(reply string) []string {
		return func(reply string) []string {
			us, _ := strconv.ParseInt(partsOf(reply)[1], 10, 64)
			return part(1, fmt.Sprint(us+by.Microseconds()))(reply)
		}
	}
	first := func(n int) func(reply string) []string {
		return func(reply string) []string { return []string{replyOf(partsOf(reply)[:n]...)} }
	}
	more := func(text string) func(reply string) []string {
		return func(reply string) []string { return []string{replyOf(append(partsOf(reply), text)...)} }
	}
	whole := func(text string) func(string) []string { return func(string) []string { return []string{text} } }
	for _, tt := range []struct {
		name string
		lie  func(reply string) []string
		want string
	}{
		{"another number", part(0, "1234567890"), foreign},
		{"no number", part(0, ""), foreign},
		{"a part is missing", first(6), foreign},
		{"all but the number is missing", first(1), foreign},
		{"a part is left over", more("0"), foreign},
		{"a space is left over", more(""), foreign},
		{"an error is left over", more("!ERR too much\n"), foreign},
		{"an error, and numbers behind it", part(2, "!ERR no\n"), foreign},
		{"an error without an end", part(2, "!ERR no"), foreign},
		{"no text", whole("$-1\r\n"), foreign},
		{"an empty text", whole("$0\r\n\r\n"), foreign},
		{"a text of no memory", whole("$9223372036854775807\r\n"), foreign},
		{"a text of much memory", whole("$1099511627776\r\n"), foreign},
		{"a list instead of a text", whole("*1\r\n$2\r\n12\r\n"), foreign},
		{"a status instead of a text", whole("+OK\r\n"), foreign},
		{"a number instead of a text", whole(":1\r\n"), foreign},
		{"nothing instead of a text", whole("_\r\n"), foreign},
		{"a map instead of a text", whole("%1\r\n:1\r\n:2\r\n"), foreign},
		{"a message instead of a text", whole(">2\r\n+message\r\n:1\r\n"), foreign},
		{"a fraction", part(3, "1.5"), foreign},
		{"a number of 20 digits", part(3, "99999999999999999999"), foreign},
		{"no digits", part(3, ""), foreign},
		{"no line", whole("\r\n"), "redis: invalid reply"}, // of go-redis
		{"neither allowed nor denied", part(2, "2"), impossible},
		{"denied, though it fits", part(2, "0"), impossible},
		{"allowed, though nothing is left", part(4, "10"), impossible},
		{"less than nothing is in use", part(4, "-1"), impossible},
		{"more than numbers are", part(4, "9007199254740992"), impossible},
		{"the window starts in 200 years", part(3, "9007199254740991"), impossible},
		{"the window starts before all instants", part(3, "-9223372036854775808"), impossible},
		{"an instant two days ahead", now(48 * time.Hour), "the server's clock has jumped"},
		{"an instant two days ago", now(-48 * time.Hour), "the server's clock has jumped"},
		{"no instant", part(1, "0"), "the server's clock has jumped"},
		{"the last instant", part(1, "9223372036854775807"), "the server's clock has jumped"},
	} {
		synctest.Test(t, func(t *testing.T) {
			l, client := startQuietLiar(t)
			b := redisbackend.MustNewBare(client, redisbackend.BareOptions{})
			c := charge("s", "k", limits.FixedWindow(limits.PerDay(10)), 1)
			take(t, b, c)
			connections := l.connections.Load()
			l.once(tt.lie)
			out := make([]limits.Decision, 1)
			err := b.Take(t.Context(), []backends.Charge{c}, out)
			if err == nil || !strings.Contains(err.Error(), tt.want) || len(err.Error()) > 120 {
				t.Errorf("%s: %+v, %v; want an error that says %q", tt.name, out[0], err, tt.want)
			}
			if d := take(t, b, c)[0]; d.Remaining != 7 {
				t.Errorf("%s: then %+v, want 7 that remain", tt.name, d)
			}
			if n := l.connections.Load() - connections; n != 1 {
				t.Errorf("%s: %d more connections, want 1", tt.name, n)
			}
		})
	}
}

// A number that is not possible is an error of its request. The others of the call are decided.
func TestAnImpossibleNumberIsAnErrorOfItsRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, client := startQuietLiar(t)
		g := new(gate)
		client.AddHook(g)
		b := redisbackend.MustNewBare(client, redisbackend.BareOptions{})
		var groups [][]backends.Charge
		for i := range 4 {
			groups = append(groups, []backends.Charge{charge("s", fmt.Sprint(i), limits.FixedWindow(limits.PerDay(10)), 1)})
		}
		decisions, errs, wait := queue(t, t.Context(), b, g, groups)
		l.tell(func(reply string) []string {
			parts := partsOf(reply)
			if len(parts) == 2+4*5 { // the number, the instant, and five for each of four
				parts[2+1*5] = "7"
				parts[3+2*5] = "9007199254740991"
			}
			return []string{replyOf(parts...)}
		})
		g.open()
		wait()
		for i := range groups {
			if isWrong := i == 1 || i == 2; isWrong != (errs[i] != nil) || !isWrong && decisions[i][0].Remaining != 9 {
				t.Errorf("request %d: %+v, %v", i, decisions[i], errs[i])
			}
		}
	})
}

// The clock of a server that has been set costs a call an error. Then it is believed, and so is
// each step of less than a day. Two servers behind one address that are days apart do not become
// one clock.
func TestAClockThatHasJumpedIsBelievedOnceTheNextReplyAgrees(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const day = 24 * time.Hour
		l, client := startQuietLiar(t)
		b := redisbackend.MustNewBare(client, redisbackend.BareOptions{})
		c := charge("s", "k", limits.TokenBucket(limits.PerDay(1000), 1000), 1)
		var by time.Duration
		l.tell(func(reply string) []string {
			parts := partsOf(reply)
			us, _ := strconv.ParseInt(parts[1], 10, 64)
			parts[1] = fmt.Sprint(us + by.Microseconds())
			return []string{replyOf(parts...)}
		})
		for i, step := range []struct {
			by      time.Duration
			decides bool
		}{
			{0, true}, {23 * time.Hour, true}, {46 * time.Hour, true}, {23 * time.Hour, true}, {0, true},
			{400 * day, false}, {400 * day, true}, {400*day + 23*time.Hour, true}, // it was set
			{0, false}, {-time.Hour, true}, // and back
			{2 * day, false}, {0, true}, {2 * day, false}, {0, true}, // two servers
			{2 * day, false}, {4 * day, false}, {6 * day, false}, {6 * day, true}, // no clock at all, until it goes again
		} {
			by = step.by
			err := b.Take(t.Context(), []backends.Charge{c}, make([]limits.Decision, 1))
			if step.decides != (err == nil) {
				t.Errorf("step %d, by %v: %v", i, step.by, err)
			}
		}
	})
}

// What a script says of a settlement is at most what was to be settled.
func TestSettlementsThatAreNotPossibleAreErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, client := startQuietLiar(t)
		b := redisbackend.MustNewBare(client, redisbackend.BareOptions{})
		c := lasting("s", "k", limits.FixedWindow(limits.PerDay(1000)), 10)
		held := charge("held", "k", limits.Concurrent(100), 3)
		for _, lie := range []func(reply string) []string{
			func(reply string) []string { return []string{replyOf(partsOf(reply)[0], "-1")} },
			func(reply string) []string { return []string{replyOf(partsOf(reply)[0], "9")} },
			func(reply string) []string { return []string{replyOf("1234567890", partsOf(reply)[1])} },
			func(reply string) []string { return []string{replyOf(append(partsOf(reply), "0")...)} },
			func(string) []string { return []string{":1\r\n"} },
		} {
			for name, final := range map[string]int64{"a refund": 2, "a charge": 18} { // of eight units
				l.tell(nil)
				e := ending(c, take(t, b, c)[0])
				e.Final = final
				settle(t, b, ending(c, take(t, b, c)[0])) // the server knows the script
				l.once(lie)
				if out := settle(t, b, e)[0]; out.Err == nil {
					t.Errorf("%s: %+v", name, out)
				}
			}
			l.tell(nil)
			d := take(t, b, held)[0]
			l.once(lie)
			settle(t, b, ending(held, d))
			redisbackend.WaitForReleases(b)
			if n := client.ZCard(t.Context(), redisbackend.HeldName(b, "held", "k")).Val(); n != 0 {
				t.Errorf("%d units are held", n)
			}
			l.once(lie)
			if err := b.Reset(t.Context(), "s", "k"); err == nil {
				t.Error("a reset is believed")
			}
		}
	})
}

// A server may say that its clock is in none of the periods that it was sent. Where it says an
// instant that none is, or the wrong one, the next request learns the right one.
func TestARefusalOfACalendarDoesNoHarm(t *testing.T) {
	t.Parallel()
	l := startLiar(t, miniredis.RunT(t).Addr())
	client := newClient(t, l.addr)
	var count commands
	client.AddHook(&count)
	b := redisbackend.MustNewBare(client, redisbackend.BareOptions{})
	take(t, b, charge("s", "k", limits.Calendar(1000, limits.Day), 1)) // the server knows the script
	for instant, calls := range map[string]int64{                      // of the next decision
		"1": 2, "9007199254740991": 2,
		"-9223372036854775808": 1, "-5": 1, "0": 1, "9007199254740992": 1, "9223372036854775807": 1,
		"99999999999999999999": 1, "": 1, "now": 1,
	} {
		c := charge("s", instant, limits.Calendar(1000, limits.Day), 1)
		l.tell(func(reply string) []string {
			parts := partsOf(reply)
			return []string{replyOf(parts[0], parts[1], "!WEIR asks again at "+instant+": the clock\n")}
		})
		if err := b.Take(t.Context(), []backends.Charge{c}, make([]limits.Decision, 1)); err == nil {
			t.Errorf("%q: it decides", instant)
		}
		l.tell(nil)
		before := count.scripts.Load()
		c.Key += " another" // what is stored for a key says in which period it is
		if take(t, b, c); count.scripts.Load()-before != calls {
			t.Errorf("%q: then %d calls for a decision, want %d", instant, count.scripts.Load()-before, calls)
		}
	}
}

// answers is a hook that answers in place of the server.
type answers struct{ err error }

func (answers) DialHook(next redis.DialHook) redis.DialHook { return next }
func (a answers) ProcessHook(redis.ProcessHook) redis.ProcessHook {
	return func(context.Context, redis.Cmder) error { return a.err }
}
func (answers) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func TestAHookThatAnswersInPlaceOfTheServerDecidesNothing(t *testing.T) {
	client := newClient(t, miniredis.RunT(t).Addr())
	b := redisbackend.MustNewBare(client, redisbackend.BareOptions{})
	c := charge("s", "k", limits.FixedWindow(limits.PerDay(10)), 1)
	take(t, b, c)
	client.AddHook(answers{})
	if err := b.Take(t.Context(), []backends.Charge{c}, make([]limits.Decision, 1)); err == nil {
		t.Error("it decides")
	}
}

// leaver is a hook that does not wait for the reply.
type leaver struct {
	leaves  atomic.Bool
	replied sync.WaitGroup
}

func (*leaver) DialHook(next redis.DialHook) redis.DialHook { return next }
func (l *leaver) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if !l.leaves.Load() {
			return next(ctx, cmd)
		}
		l.replied.Go(func() { _ = next(context.WithoutCancel(ctx), cmd) })
		return errors.New("it left")
	}
}
func (*leaver) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// A reply that comes after its call is over is dropped, though the memory of the call is in use
// again. The race detector sees it if not.
func TestALateReplyIsDropped(t *testing.T) {
	client := newClient(t, miniredis.RunT(t).Addr())
	hook := new(leaver)
	client.AddHook(hook)
	b := redisbackend.MustNewBare(client, redisbackend.BareOptions{})
	taken := func(key string, most int64) backends.Charge {
		return charge("s", key, limits.FixedWindow(limits.PerDay(most)), 1)
	}
	for i := range int64(100) {
		hook.leaves.Store(true)
		if err := b.Take(t.Context(), []backends.Charge{taken("left", 1000)}, make([]limits.Decision, 1)); err == nil {
			t.Error("a call without a reply decides")
		}
		hook.leaves.Store(false)
		if d := take(t, b, taken("other", 500))[0]; d.Remaining != 499-i {
			t.Errorf("%+v, want %d that remain", d, 499-i)
		}
	}
	hook.replied.Wait()
}

// breaker is a connection that breaks in the middle of a reply when told to.
type breaker struct {
	net.Conn
	breaks *atomic.Bool
}

func (c breaker) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if n > 20 && ofScript.Match(p[:n]) && c.breaks.CompareAndSwap(true, false) {
		c.Conn.Close()
		n -= 5
	}
	return n, err
}

// A client that repeats calls reads the reply to the second from its start.
func TestAReplyThatBreaksOffIsReadAnew(t *testing.T) {
	breaks := new(atomic.Bool)
	dial := func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, network, addr)
		return breaker{conn, breaks}, err
	}
	client := redis.NewClient(&redis.Options{Addr: miniredis.RunT(t).Addr(), Dialer: dial})
	defer client.Close()
	b := redisbackend.MustNewBare(client, redisbackend.BareOptions{})
	c := charge("s", "k", limits.FixedWindow(limits.PerDay(10)), 1)
	take(t, b, c)
	breaks.Store(true)
	if d := take(t, b, c)[0]; d.Remaining != 7 || breaks.Load() { // it was taken twice
		t.Errorf("%+v", d)
	}
}

// Numbers of calls are not those of other processes, and of all sizes alike.
func TestEachCallHasANumberOfItsOwn(t *testing.T) {
	t.Parallel()
	l := startLiar(t, miniredis.RunT(t).Addr())
	client := newClient(t, l.addr)
	b := redisbackend.MustNewBare(client, redisbackend.BareOptions{})
	var numbers []string
	l.tell(func(reply string) []string {
		numbers = append(numbers, partsOf(reply)[0])
		return []string{reply}
	})
	for range 100 {
		take(t, b, charge("s", "k", limits.FixedWindow(limits.PerDay(1000)), 1))
	}
	slices.Sort(numbers)
	if n := len(slices.Compact(numbers)); n < 99 {
		t.Errorf("100 calls have %d numbers", n)
	}
}

// Whatever the reply, no decision is outside the bounds of its limit. It does not matter in which
// pieces the reply comes.
func FuzzReply(f *testing.F) {
	const now = 1_795_534_892_512_308
	lasts := lasting("s", "lasts", limits.TokenBucket(limits.PerMinute(10), 10), 1)
	shadow := charge("s", "shadow", limits.Ban(limits.PerMinute(10), time.Hour), 1)
	shadow.Shadow = true
	queued := charge("s", "k", limits.LeakyQueue(limits.PerMinute(10), 10), 1)
	groups := [][][]backends.Charge{
		{{charge("s", "k", limits.FixedWindow(limits.PerMinute(10)), 1)}},
		{{queued, shadow}, {lasts}},
		{{charge("s", "k", limits.Concurrent(10), 1)}, {charge("s", "k", limits.SlidingLog(limits.PerMinute(10)), 11)}},
	}
	replies := []string{
		"NUMBER 1795534892512308 1 1795534860000000 3 0 0",
		"NUMBER 1795534892512309 1 1795534892512309 6000000 0 0 0 0 0 1795534892512309 60000000 0 131071",
		"NUMBER 1795534892512308 1 0 3 0 !WEIR no\n",
		"NUMBER 1795534892512308 1 0 3 0 0 1795534892512308 10 60000000",
	}
	for i, reply := range replies {
		for which := range groups {
			f.Add(byte(which), byte(1), reply)
		}
		f.Add(byte(i), byte(7), strings.Replace(reply, " 3", " 11", 1))
		f.Add(byte(i), byte(7), strings.Replace(reply, "NUMBER", "1234567890", 1))
		f.Add(byte(i), byte(200), reply+" 1")
	}
	for _, raw := range []string{"-OOM command not allowed|", "$9223372036854775807|", "$2|12|", "$3|12|", "$|", "|"} {
		f.Add(byte(0), byte(0), raw)
	}
	f.Fuzz(func(t *testing.T, which, size byte, text string) {
		b := redisbackend.MustNewBare(unconnected, redisbackend.BareOptions{})
		groups := groups[int(which)%len(groups)]
		reply := func(number int64) string {
			text := strings.ReplaceAll(strings.ReplaceAll(text, "|", "\r\n"), "NUMBER", fmt.Sprint(number))
			if strings.Contains(text, "\r\n") { // it says its length, or is no string
				return text
			}
			return replyOf(text)
		}
		decisions, errs := redisbackend.ReadReply(b, groups, now, 1+int(size), reply)
		whole, wholeErrs := redisbackend.ReadReply(b, groups, now, 1<<20, reply)
		for i, charges := range groups {
			if (errs[i] == nil) != (wholeErrs[i] == nil) || fmt.Sprint(decisions[i]) != fmt.Sprint(whole[i]) {
				t.Errorf("in pieces %v, %v; as a whole %v, %v", decisions[i], errs[i], whole[i], wholeErrs[i])
			}
			for j, d := range decisions[i] {
				if !isWithin(charges[j], d) || time.UnixMicro(d.At).Sub(time.UnixMicro(now)).Abs() > 25*time.Hour {
					t.Errorf("%+v: %+v", charges[j], d)
				}
			}
		}
	})
}

// isWithin reports whether a decision is within the bounds of its limit.
func isWithin(c backends.Charge, d limits.Decision) bool {
	longest := 203 * 366 * 24 * time.Hour
	if c.Limit.Algorithm().Holds() {
		longest, d.EffectiveWindow = time.Second, 0
	}
	if d.RetryAfter == limits.Never && c.Cost > c.Limit.Burst() {
		d.RetryAfter, d.EffectiveWindow = 1, 0
	}
	return d.Remaining >= 0 && d.Remaining <= c.Limit.Burst() && d.Ticket >= 0 && d.Allowed == (d.RetryAfter == 0) &&
		min(d.RetryAfter, d.ResetAfter, d.EffectiveWindow, d.Delay) >= 0 &&
		max(d.RetryAfter, d.ResetAfter, d.EffectiveWindow, d.Delay) <= longest
}

// unconnected is a client that is not asked.
var unconnected = redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"})
