package conform

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// fakeHost is a host of servers in this process. Between sending, decision and answer passes a time by
// chance, up to late each.
type fakeHost struct {
	late   time.Duration
	open   func(shared *store, first bool) http.Handler // makes a server
	shared *store
	fault  fault

	mu     sync.Mutex
	random *rand.Rand
	first  *fakeInstance
}

// store is the shared store of fakes.
type store struct {
	mu   sync.Mutex
	away bool
	lost bool // it was away once
	data map[string]*window
	ever int // how many keys there were
}

func newStore() *store { return &store{data: make(map[string]*window)} }

type fakeInstance struct {
	host    *fakeHost
	mu      sync.Mutex
	handler http.Handler
	own     *store
}

func (h *fakeHost) start(context.Context) (instance, error) {
	s := &fakeInstance{host: h, own: newStore()}
	first := h.first == nil
	if first {
		h.first = s
	}
	s.open(first)
	return s, nil
}

func (s *fakeInstance) open(first bool) {
	used := s.own
	if s.host.shared != nil {
		used = s.host.shared
	}
	s.handler = s.host.open(used, first)
}

func (h *fakeHost) stopStore() error {
	h.shared.mu.Lock()
	defer h.shared.mu.Unlock()
	h.shared.away, h.shared.lost = true, true
	clear(h.shared.data)
	return nil
}

func (h *fakeHost) startStore(context.Context) error {
	if h.shared == nil {
		h.shared = newStore()
	}
	h.shared.mu.Lock()
	defer h.shared.mu.Unlock()
	h.shared.away = false
	return nil
}

func (h *fakeHost) close() {}

func (h *fakeHost) pause() {
	h.mu.Lock()
	d := time.Duration(h.random.Int64N(int64(h.late)))
	h.mu.Unlock()
	time.Sleep(d)
}

func (s *fakeInstance) url() string { return "http://127.0.0.1/" }

func (s *fakeInstance) memory() (int64, bool) {
	used := s.own
	if s.host.shared != nil {
		used = s.host.shared
	}
	used.mu.Lock()
	defer used.mu.Unlock()
	if s.host.fault == forgetsNothing {
		return 10e6 + keySize*int64(used.ever), true
	}
	return 10e6 + keySize*int64(min(used.ever, fewKeys)), true
}

func (s *fakeInstance) restart(context.Context) error {
	time.Sleep(200 * time.Millisecond)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.own = newStore()
	if s.host.fault == forgetsAtRestart {
		s.host.shared.mu.Lock()
		clear(s.host.shared.data)
		s.host.shared.mu.Unlock()
	}
	s.open(true)
	return nil
}

func (s *fakeInstance) from(local netip.Addr, http2 bool) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		s.host.pause()
		q := r.Clone(r.Context())
		if !local.IsValid() {
			local = netip.MustParseAddr("127.0.0.1")
		}
		q.RemoteAddr = netip.AddrPortFrom(local, 1234).String()
		q.RequestURI, q.Host, q.Body = "/", r.URL.Host, http.NoBody
		if http2 {
			q.Proto, q.ProtoMajor, q.ProtoMinor = "HTTP/2.0", 2, 0
		}
		s.mu.Lock()
		handler := s.handler
		s.mu.Unlock()
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, q)
		if err := r.Context().Err(); err != nil {
			return nil, err
		}
		s.host.pause()
		return w.Result(), nil
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

const (
	fewKeys = 3000  // in place of memoryKeys
	keySize = 10000 // bytes of a key
)

// fault is a mistake that a fake makes on purpose.
type fault string

const (
	none               fault = ""
	racy               fault = "reads the count, and writes it later"
	oneTooMany         fault = "admits one too many"
	oneTooFew          fault = "admits one too few"
	halfPeriod         fault = "has windows of half the period"
	turnsLate          fault = "turns its windows a tenth of a second late"
	turnsEarly         fault = "turns its windows a tenth of a second early"
	losesCounts        fault = "loses every 50th count"
	retryEarly         fault = "tells a Retry-After a second early"
	countsDenied       fault = "begins a penalty with each denial"
	otherStatus        fault = "denies with 503"
	retryAlways        fault = "writes Retry-After into every answer"
	tokenName          fault = "names its policy without quotes"
	negative           fault = "tells what is left below zero"
	otherLimit         fault = "tells a limit that is one too high"
	otherWindow        fault = "tells a window of a minute"
	remainingHigh      fault = "tells one more than is left"
	remainingLow       fault = "tells one less than is left"
	leftInDenial       fault = "tells in denials that one is left"
	resetEarly         fault = "tells a reset a second early"
	wobbles            fault = "rounds its reset up and down in turn"
	freeHead           fault = "does not count HEAD"
	ownHTTP2           fault = "counts HTTP/2 apart"
	ignoresCase        fault = "ignores the case of keys"
	ownSpelling        fault = "counts by the text of an address"
	believesForwarded  fault = "believes X-Forwarded-For from anyone"
	believesLeft       fault = "believes the address on the left"
	skipsEmpty         fault = "skips requests without a key"
	cutsKeys           fault = "cuts keys after 64 characters"
	ownCounts          fault = "counts in each process"
	forgetsAtRestart   fault = "forgets all at a restart"
	neverReturns       fault = "does not go back to its store"
	forgetsNothing     fault = "keeps all keys"
	failsWithLongKeys  fault = "answers 500 after a long key"
	forgetsAtRest      fault = "forgets keys that rest for a quarter of the period"
	hashesKeys         fault = "counts by a hash of keys"
	resetEarlyDenied   fault = "tells a reset in denials alone, a second early"
	opensFree          fault = "has no limit for half a second after its start"
	anchorsAtEveryCall fault = "moves its window with each request"
)

// window is the count of a key.
type window struct {
	number  int64 // of the window
	used    int
	last    time.Time // request
	penalty time.Time // until which all is denied
}

// fake is a limiter by fixed windows, written in the plainest way.
type fake struct {
	profile *Profile
	fault   fault
	store   *store
	opened  time.Time
	answers int
	broken  bool
}

func (f *fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	status := f.decide(w.Header(), r)
	w.WriteHeader(status)
	fmt.Fprintln(w, "hello")
}

// key returns whom a request counts for; "": it is refused.
func (f *fake) key(r *http.Request) string {
	host, _, _ := net.SplitHostPort(r.RemoteAddr)
	switch key := f.profile.Key; key.From {
	case FromAddress:
		if forwarded := r.Header.Get("X-Forwarded-For"); f.fault == believesForwarded && forwarded != "" {
			return forwarded
		}
		return host
	case FromForwarded:
		all := strings.Split(strings.Join(r.Header.Values(key.Field), ","), ",")
		text := strings.TrimSpace(all[len(all)-1])
		if f.fault == believesLeft {
			text = strings.TrimSpace(all[0])
		}
		if f.fault == ownSpelling {
			return text
		}
		address, err := netip.ParseAddr(text)
		if err != nil {
			return ""
		}
		if address = address.Unmap(); address.Is6() {
			prefix, _ := address.Prefix(64)
			return prefix.String()
		}
		return address.String()
	case FromNothing:
		return "all"
	default:
		return r.Header.Get(key.Field)
	}
}

func (f *fake) decide(h http.Header, r *http.Request) (status int) {
	key := f.key(r)
	switch {
	case key == "" && f.fault == skipsEmpty:
		return 200
	case key == "":
		return 400
	}
	switch f.fault {
	case ignoresCase:
		key = strings.ToLower(key)
	case cutsKeys:
		key = key[:min(len(key), 64)]
	case hashesKeys:
		hash := int32(0)
		for i := range len(key) {
			hash = 31*hash + int32(key[i])
		}
		key = fmt.Sprint(hash)
	case ownHTTP2:
		key = fmt.Sprint(r.ProtoMajor, key)
	}
	s := f.store
	s.mu.Lock()
	defer s.mu.Unlock()
	if f.broken {
		return 500
	}
	if f.fault == failsWithLongKeys && len(key) > 1000 {
		f.broken = true
	}
	if s.away || s.lost && f.fault == neverReturns {
		return 200
	}
	f.answers++
	period, limit := f.profile.period(), f.profile.units()
	switch f.fault {
	case halfPeriod:
		period /= 2
	case oneTooMany:
		limit++
	case oneTooFew:
		limit--
	}
	now := time.Now()
	shifted := now
	switch f.fault {
	case turnsLate:
		shifted = now.Add(-100 * time.Millisecond)
	case turnsEarly:
		shifted = now.Add(100 * time.Millisecond)
	}
	number := shifted.UnixNano() / int64(period)
	end := time.Unix(0, (number+1)*int64(period)).Add(now.Sub(shifted))
	k := s.data[key]
	if k == nil {
		k = &window{number: number}
		s.data[key] = k
		s.ever++
	}
	if f.fault == forgetsAtRest && now.Sub(k.last) > period/4 {
		k.used = 0
	}
	if f.fault == opensFree && now.Sub(f.opened) < time.Second/2 {
		return 200
	}
	if k.number != number {
		k.number, k.used = number, 0
	}
	if f.fault == anchorsAtEveryCall && now.Sub(k.last) < period/4 {
		k.penalty = now.Add(period)
	}
	k.last = now
	if r.Method == http.MethodHead && f.fault == freeHead {
		f.tell(h, limit, limit-k.used, end.Sub(now), false)
		return 200
	}
	denied := k.used >= limit || now.Before(k.penalty)
	if f.fault == racy {
		s.mu.Unlock()
		time.Sleep(time.Millisecond)
		s.mu.Lock()
	}
	switch {
	case !denied && (f.fault != losesCounts || f.answers%50 != 0):
		k.used++
	case denied && f.fault == countsDenied:
		k.penalty = now.Add(period)
	}
	f.tell(h, limit, limit-k.used, end.Sub(now), denied)
	if f.fault == negative && denied {
		h.Set("RateLimit-Remaining", "-1")
	}
	switch {
	case denied && f.fault == otherStatus:
		return 503
	case denied:
		return f.profile.Denied
	}
	return 200
}

// tell writes all dialects.
func (f *fake) tell(h http.Header, limit, left int, wait time.Duration, denied bool) {
	left = max(left, 0)
	retry := int((wait + time.Second - 1) / time.Second)
	reset := retry
	window := int(f.profile.period() / time.Second)
	switch f.fault {
	case retryEarly:
		retry = max(retry-1, 0)
	case resetEarly:
		reset = max(reset-1, 0)
	case wobbles:
		reset -= f.answers % 2
	case otherLimit:
		limit++
	case otherWindow:
		window = 60
	case remainingHigh:
		if !denied {
			left++
		}
	case remainingLow:
		left = max(left-1, 0)
	case leftInDenial:
		left = max(left, 1)
	}
	if f.fault != leftInDenial && denied {
		left = 0
	}
	if denied || f.fault == retryAlways {
		h.Set("Retry-After", strconv.Itoa(retry))
	}
	h.Set("X-RateLimit-Limit", strconv.Itoa(limit))
	h.Set("X-RateLimit-Remaining", strconv.Itoa(left))
	if f.fault == resetEarlyDenied && denied {
		h.Set("X-RateLimit-Reset", strconv.Itoa(reset-1))
	}
	h.Set("RateLimit-Limit", strconv.Itoa(limit))
	h.Set("RateLimit-Remaining", strconv.Itoa(left))
	h.Set("RateLimit-Reset", strconv.Itoa(reset))
	name := `"default"`
	if f.fault == tokenName {
		name = "default limit"
	}
	h.Set("RateLimit", fmt.Sprintf("%s;r=%d;t=%d", name, left, reset))
	h.Set("RateLimit-Policy", fmt.Sprintf("%s;q=%d;w=%d", name, limit, window))
}

// fakeProfile is the profile of a fake.
func fakeProfile(t testing.TB, changes ...string) *Profile {
	t.Helper()
	text := "name: fake\nurl: http://127.0.0.1:$PORT/\nstart: fake\nlimit: 10 per 2s\nalgorithm: fixed-window\n" +
		"key: header X-API-Key\nfields: [retry-after, x-ratelimit, draft-11]\ncounts-denied: false\n"
	for _, change := range changes {
		name, _, _ := strings.Cut(change, ":")
		var kept []string
		for line := range strings.Lines(text) {
			if !strings.HasPrefix(line, name+":") {
				kept = append(kept, line)
			}
		}
		if text = strings.Join(kept, ""); change != name+":" { // otherwise the field is left out
			text += change + "\n"
		}
	}
	p, err := Parse("profile.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// runFake makes checks of a fake with a fault.
func runFake(t *testing.T, p *Profile, f fault, only ...string) (report *Report) {
	t.Helper()
	return runServer(t, p, f, func(s *store, first bool) http.Handler {
		if f == ownCounts && !first {
			s = newStore()
		}
		return &fake{profile: p, fault: f, store: s, opened: time.Now()}
	}, only...)
}

// runServer makes checks of servers that open returns, in a bubble.
func runServer(t *testing.T, p *Profile, f fault, open func(s *store, first bool) http.Handler, only ...string,
) (report *Report) {
	t.Helper()
	h := &fakeHost{open: open, fault: f, random: rand.New(rand.NewPCG(1, 2)), late: time.Millisecond}
	return runHost(t, p, h, Options{Seed: 1, Only: only})
}

// runHost makes checks of a host, in a bubble.
func runHost(t *testing.T, p *Profile, h *fakeHost, options Options) (report *Report) {
	t.Helper()
	options.memoryKeys = fewKeys
	synctest.Test(t, func(t *testing.T) {
		var err error
		if report, err = run(t.Context(), p, h, options); err != nil {
			t.Fatal(err)
		}
	})
	return report
}
