package conform

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/weir-go/weir/internal/proof/testrun"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/memory"
)

// habits are those of a correct server that a check must not blame.
type habits struct {
	limit  limits.Limit
	ahead  time.Duration // its clock, of ours
	coarse time.Duration // what its clock counts; 0: all
	stale  time.Duration // after which it computes a new Date; 0: it sends none
	late   func() time.Duration
	stalls bool // all of it stands still for 300 ms at times
	status int  // of what is admitted; 0: 200
	denied int  // 0: 429
	tell   func(h http.Header, limit limits.Limit, d limits.Decision)
	noHead bool // the page has no HEAD

	freeHead bool // the limiter does not count HEAD
}

// odd is a server with odd habits.
type odd struct {
	habits

	mu      sync.Mutex
	bound   *memory.Bound
	date    time.Time
	dateTil time.Time
}

func (o *odd) now() time.Time {
	now := time.Now().Add(o.ahead)
	if o.coarse > 0 {
		now = now.Truncate(o.coarse)
	}
	return now
}

func (o *odd) open(*store, bool) http.Handler {
	m, err := memory.New(memory.Options{MaxKeys: 1 << 17, Clock: o.now})
	if err != nil {
		panic(err)
	}
	if o.bound, err = m.Bind("odd", o.limit); err != nil {
		panic(err)
	}
	return o
}

func (o *odd) pause() {
	if o.late != nil {
		time.Sleep(o.late() / 2)
	}
	if !o.stalls {
		return
	}
	// It stands still at the beginning of each span of 1.13 s.
	const span = 1130 * time.Millisecond
	if into := time.Duration(time.Now().UnixNano() % int64(span)); into < 300*time.Millisecond {
		time.Sleep(300*time.Millisecond - into)
	}
}

func (o *odd) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	o.pause()
	defer o.pause()
	if o.stale > 0 {
		o.mu.Lock()
		now := time.Now().Add(o.ahead)
		if now.After(o.dateTil) {
			o.date, o.dateTil = now, now.Truncate(o.stale).Add(o.stale)
			if o.stale == time.Second { // like a timer that began at any time
				o.dateTil = now.Add(o.stale)
			}
		}
		w.Header().Set("Date", o.date.UTC().Format(http.TimeFormat))
		o.mu.Unlock()
	}
	key := r.Header.Get("X-API-Key")
	if key == "" {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	if r.Method == http.MethodHead && o.freeHead {
		if o.noHead {
			w.WriteHeader(http.StatusMethodNotAllowed)
		}
		return
	}
	d, err := o.bound.Take(key, 1)
	if err != nil {
		panic(err)
	}
	if o.tell != nil {
		o.tell(w.Header(), o.limit, d)
	}
	switch {
	case !d.Allowed:
		w.WriteHeader(cmp.Or(o.denied, http.StatusTooManyRequests))
	case r.Method == http.MethodHead && o.noHead:
		w.WriteHeader(http.StatusMethodNotAllowed)
	default:
		w.WriteHeader(cmp.Or(o.status, http.StatusOK))
	}
}

// up returns d in seconds, rounded up.
func up(d time.Duration) int64 { return int64((d + time.Second - 1) / time.Second) }

// at returns an instant that is after a decision, by the clock of the server, in seconds and rounded up.
func at(d limits.Decision, after time.Duration) int64 {
	return (d.At + after.Microseconds() + 1e6 - 1) / 1e6
}

// tellings are ways to tell a decision, with what a profile says of them.
var tellings = []struct {
	fields string
	tell   func(h http.Header, limit limits.Limit, d limits.Decision)
}{
	{"[]", nil},
	{"[retry-after, x-ratelimit]", func(h http.Header, limit limits.Limit, d limits.Decision) {
		if !d.Allowed {
			h.Set("Retry-After", time.Unix(at(d, d.RetryAfter), 0).UTC().Format(http.TimeFormat))
		}
		h.Set("X-RateLimit-Limit", fmt.Sprint(limit.Burst()))
		h.Set("X-RateLimit-Remaining", fmt.Sprint(d.Remaining))
		h.Set("X-RateLimit-Reset", fmt.Sprint(at(d, d.ResetAfter)))
	}},
	{"[x-ratelimit]", func(h http.Header, limit limits.Limit, d limits.Decision) {
		h.Set("X-Rate-Limit-Limit", fmt.Sprint(limit.Rate().Units))
		h.Set("X-Rate-Limit-Remaining", fmt.Sprint(d.Remaining))
		h.Set("X-Rate-Limit-Reset", fmt.Sprint((d.At+d.ResetAfter.Microseconds()+999)/1000))
	}},
	{"[retry-after, draft-11]", func(h http.Header, limit limits.Limit, d limits.Decision) {
		if !d.Allowed {
			h.Set("Retry-After", fmt.Sprintf("00%d", up(d.RetryAfter)))
		}
		h.Add("RateLimit", `"day\"s";  r=99999;t=86400;x=:aGk=:`)
		h.Add("RateLimit", fmt.Sprintf(`"a \"b\" \\";t=%d;  r=%d;pk=:aGk=:,"b";r=1000000`, up(d.ResetAfter), d.Remaining))
		h.Add("RateLimit-Policy", `"b";q=1;w=1;qu="content-bytes", "day\"s";w=86400;q=100000`)
		h.Add("RateLimit-Policy", fmt.Sprintf(`"a \"b\" \\";comment="x";w=%d; q=%d`, up(limit.Rate().Period),
			limit.Rate().Units))
	}},
	{"draft-7", func(h http.Header, limit limits.Limit, d limits.Decision) {
		h.Add("RateLimit", fmt.Sprintf("reset=%d ,\tremaining=%d;x", up(d.ResetAfter), d.Remaining))
		h.Add("RateLimit", fmt.Sprintf("other=(1 2), limit=%d", limit.Rate().Units))
		h.Add("RateLimit-Policy", fmt.Sprintf("100000;w=86400,%d;burst=1;w=%d", limit.Rate().Units,
			up(limit.Rate().Period)))
	}},
	{"draft-6", func(h http.Header, limit limits.Limit, d limits.Decision) {
		h.Set("RateLimit-Limit", fmt.Sprintf("%d;x", limit.Rate().Units))
		h.Set("RateLimit-Remaining", fmt.Sprint(d.Remaining))
		h.Set("RateLimit-Reset", fmt.Sprint(up(d.ResetAfter)))
		h.Add("RateLimit-Policy", "100000;w=86400")
		h.Add("RateLimit-Policy", fmt.Sprintf("%d;w=%d", limit.Rate().Units, up(limit.Rate().Period)))
	}},
}

// pick returns one of several by chance.
func pick[T any](random *rand.Rand, all ...T) T { return all[random.IntN(len(all))] }

// drawOdd draws an odd server, and what its profile says.
func drawOdd(t *testing.T, random *rand.Rand) (o *odd, p *Profile, text string) {
	t.Helper()
	period := pick(random, 100*time.Millisecond, time.Second, 1500*time.Millisecond, 2*time.Second, 2*time.Second,
		2*time.Second, 10*time.Second)
	units := pick[int64](random, 1, 2, 3, 10, 10, 10, 10, 30, 100)
	kind := random.IntN(7)
	o = &odd{habits: habits{limit: []limits.Limit{
		limits.FixedWindow(limits.Per(units, period)), limits.AnchoredWindow(limits.Per(units, period)),
		limits.SlidingWindow(limits.Per(units, period)), limits.SlidingLog(limits.Per(units, period)),
		limits.TokenBucket(limits.Per(units, period), units), limits.TokenBucket(limits.Per(units, period), 2*units),
		limits.LeakyBucket(limits.Per(units, period), (units+1)/2),
	}[kind]}}
	changes := []string{fmt.Sprintf("limit: %d per %v", units, period)}
	named := kind > 4 || random.IntN(3) > 0
	o.denied = pick(random, 0, 0, 503)
	changes = append(changes, fmt.Sprintf("denied: %d", cmp.Or(o.denied, 429)))
	o.status = pick(random, 0, 204, 301, 304)
	o.noHead = random.IntN(5) == 0
	how := tellings[random.IntN(len(tellings))]
	o.tell = how.tell
	changes = append(changes, "fields: "+how.fields)
	o.ahead = pick(random, 0, 0, 300*time.Millisecond, -300*time.Millisecond, 100*time.Second, -100*time.Second)
	o.stale = pick(random, time.Millisecond, time.Millisecond, time.Second)
	if o.ahead == 0 {
		o.stale = pick(random, 0, time.Millisecond, time.Second)
	}
	o.coarse = pick(random, 0, time.Millisecond, time.Millisecond, time.Second/64)
	if named = named || kind > 4; named || how.fields == "[x-ratelimit]" { // to the millisecond it is another limit
		o.coarse = min(o.coarse, time.Millisecond)
	}
	o.stalls = random.IntN(4) == 0
	delay := ""
	switch random.IntN(6) {
	case 0:
		o.late, delay = func() time.Duration { return time.Duration(50+rand.IntN(750)) * time.Millisecond }, "50-800ms"
	case 1:
		fixed := time.Duration(1+random.IntN(250)) * time.Millisecond
		o.late, delay = func() time.Duration { return fixed }, fixed.String()
	case 2:
		o.late, delay = func() time.Duration { return time.Duration(rand.IntN(50)) * time.Millisecond }, "to 50ms"
	}
	if random.IntN(4) == 0 {
		changes = append(changes, "url: http://limiter.example:$PORT/")
	}
	p = fakeProfile(t, changes...)
	p.Limit = o.limit
	if p.Named = named; !named {
		p.Limit = limits.SlidingWindow(limits.Per(units, period)) // as Parse has it
	}
	if random.IntN(4) == 0 {
		p.CountsDenied = Silent
	}
	return o, p, fmt.Sprintf("%v, named: %v, url: %s, fields: %s, status: %d, denied: %d, ahead: %v, Date: %v, "+
		"coarse: %v, stalls: %v, late: %s, no HEAD: %v", o.limit, named, p.URL, how.fields, o.status, o.denied,
		o.ahead, o.stale, o.coarse, o.stalls, delay, o.noHead)
}

func TestOddServersAreNotBlamed(t *testing.T) {
	seed := testrun.Seed(t)
	random := rand.New(rand.NewPCG(seed, 0))
	var only []string
	for _, c := range Checks() {
		if c.Name != "memory" {
			only = append(only, c.Name)
		}
	}
	for range testrun.Sized(10, 300) {
		o, p, text := drawOdd(t, random)
		h := &fakeHost{open: o.open, random: random, late: time.Millisecond}
		for _, r := range runHost(t, p, h, Options{Seed: random.Uint64(), Only: only}).Results {
			if r.Verdict == Fails {
				t.Errorf("%s: %s: %s\n%q", text, r.Check, r.Found, r.Evidence)
			}
		}
	}
}
