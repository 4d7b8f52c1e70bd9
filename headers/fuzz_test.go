package headers_test

import (
	"encoding/binary"
	"math/rand/v2"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/dunglas/httpsfv"
	"github.com/google/go-cmp/cmp"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/headers"
	"github.com/weir-go/weir/internal/proof/testrun"
	"github.com/weir-go/weir/limits"
)

// source draws numbers from bytes. After the last byte it draws zeros.
type source struct{ data []byte }

// below returns a number in [0, n), small ones as likely as large.
func (s *source) below(n int64) int64 {
	if len(s.data) == 0 {
		return 0
	}
	size := min(int(s.data[0]%9), len(s.data)-1)
	var raw [8]byte
	copy(raw[:], s.data[1:1+size])
	s.data = s.data[1+size:]
	return int64(binary.LittleEndian.Uint64(raw[:]) % uint64(n))
}

func (s *source) chance() bool { return s.below(2) == 1 }

// wait returns a legal wait that is not 0.
func (s *source) wait() time.Duration {
	return time.Duration(1+s.below(200*365*24*3600*1_000_000)) * time.Microsecond
}

// name returns a legal name, unique by its index.
func (s *source) name(index int) string {
	b := []byte{'a' + byte(index)}
	for range s.below(63) {
		b = append(b, byte(0x20+s.below(95)))
	}
	return string(b)
}

func (s *source) limit() limits.Limit {
	rate := limits.Per(1+s.below(1_000_000_000),
		time.Duration(1000+s.below(366*24*3600*1_000_000-1000))*time.Microsecond)
	burst := 1 + s.below(1_000_000_000)
	choices := []limits.Limit{
		limits.SlidingWindow(rate), limits.FixedWindow(rate), limits.SlidingLog(rate), limits.AnchoredWindow(rate),
		limits.TokenBucket(rate, burst), limits.LeakyBucket(rate, burst), limits.LeakyQueue(rate, burst),
		limits.Concurrent(1 + burst%100_000), limits.Ban(rate, time.Duration(burst)*time.Millisecond),
		limits.Ban(rate, time.Millisecond).Growing(time.Duration(burst) * time.Millisecond),
		limits.Calendar(1+burst%1_000_000_000, limits.Month.From(1+int(uint64(burst)%31))),
	}
	l := choices[s.below(int64(len(choices)))]
	if l.Validate() != nil {
		return limits.TokenBucket(limits.PerMinute(100), 100)
	}
	return l
}

func (s *source) decision(l limits.Limit) limits.Decision {
	d := limits.Decision{
		Allowed:         !s.chance(),
		Remaining:       s.below(l.Burst() + 1),
		ResetAfter:      time.Duration(s.below(100*365*24*3600*1_000_000)) * time.Microsecond,
		EffectiveWindow: s.wait(),
		At:              s.below(1 << 53),
	}
	switch s.below(8) {
	case 1:
		d.Source = limits.SourceDenialCache
	case 2:
		d.Source = limits.SourceFallback
	case 5:
		d.Source = limits.SourceLocal
	case 3:
		return limits.Decision{Allowed: true, Source: limits.SourceOpen}
	case 4:
		return limits.Decision{Allowed: true, Source: limits.SourceNotAsked}
	}
	if !d.Allowed {
		d.RetryAfter = s.wait()
		if s.below(8) == 1 {
			d.RetryAfter = limits.Never
		}
		d.EffectiveWindow = d.RetryAfter
	}
	if l.Algorithm().Holds() {
		d.EffectiveWindow, d.ResetAfter = limits.Never, 0
		if !d.Allowed && d.RetryAfter != limits.Never {
			d.RetryAfter = time.Second
		}
	}
	return d
}

// limiter returns policies for a writer and an outcome under them. Some policies
// have no fixed limit.
func (s *source) limiter(t *testing.T) ([]published, *core.Outcome) {
	var decisions []limits.Decision
	var actual, known []published
	for i := range 1 + s.below(5) {
		p := published{Name: s.name(int(i)), Limit: s.limit()}
		if i > 0 && s.below(4) == 1 {
			p.Limit = actual[0].Limit
		}
		if s.chance() && !p.Limit.Algorithm().Holds() {
			p.Unit = core.Unit(s.below(int64(core.Money) + 1))
		}
		actual = append(actual, p)
		if s.below(4) == 1 {
			p.Limit = limits.Limit{}
		}
		known = append(known, p)
		decisions = append(decisions, s.decision(actual[i].Limit))
	}
	key := "client"
	if s.below(4) == 1 {
		key = ""
	}
	rules := rulesOf(actual...)
	for i := range rules {
		rules[i].DenyAs503 = s.below(4) == 1
		rules[i].Hidden = s.below(6) == 1
	}
	return known, decidedFor(t, key, rules, decisions...)
}

func (s *source) options() headers.Options {
	var o headers.Options
	switch s.below(4) {
	case 0:
		o.Formats = append(o.Formats, headers.IETF)
		o.CapPace = s.chance()
		if s.chance() {
			o.PartitionKey = headers.Digest
		}
	case 1:
		o.Formats = append(o.Formats, headers.Draft7)
	}
	if s.chance() {
		o.Formats = append(o.Formats, headers.Draft6)
	}
	if x := s.below(5); x > 0 || o.Formats == nil {
		o.Formats = append(o.Formats,
			[]headers.Format{headers.GitHub, headers.GitHub, headers.DeltaSeconds, headers.Discord,
				headers.EpochSeconds}[x])
	}
	for _, f := range []headers.Format{headers.OpenAI, headers.Anthropic} {
		if s.below(3) == 1 {
			o.Formats = slices.Insert(o.Formats, 0, f)
		}
	}
	if s.below(4) == 1 {
		o.RetryAfter = headers.Window
	}
	if s.below(4) == 1 {
		o.Show = headers.Show(s.below(3))
	}
	if s.below(4) == 1 && !slices.Contains(o.Formats, headers.Discord) {
		o.MaxRetryAfter = time.Duration(1+s.below(100_000)) * time.Second
	}
	return o
}

// checkWrite writes an outcome that data describes, alone or inside an outer limiter
// that allowed the request, and compares the header with the oracle.
func checkWrite(t *testing.T, data []byte) {
	s := &source{data}
	options := s.options()
	model := &oracle{options: options}
	got := http.Header{}
	policies, o := s.limiter(t)
	if s.chance() {
		outerPolicies, outer := s.limiter(t)
		if outer.Allowed() {
			if s.chance() {
				model.options.Show = headers.Show(s.below(3))
			}
			writer(t, model.options, outerPolicies...).Write(got, outer)
			model.tell(outer)
			model.options = options
		}
	}
	if len(options.Formats) > 0 && options.Formats[len(options.Formats)-1] == headers.Discord {
		options.DiscordScopes = map[string]headers.DiscordScope{policies[0].Name: headers.DiscordShared}
		if len(policies) > 1 {
			options.DiscordScopes[policies[1].Name] = headers.DiscordGlobal
		}
		model.options = options
	}
	before := got.Clone()
	writer(t, options, policies...).Write(got, o)
	model.tell(o)
	wellFormed(t, got)
	if diff := cmp.Diff(model.header(), sent(got)); diff != "" {
		t.Fatalf("options %+v: fields differ (-oracle +got):\n%s", options, diff)
	}
	options.Jitter = time.Duration(1 + s.below(int64(24*time.Hour)))
	jittered := before
	writer(t, options, policies...).Write(jittered, o)
	wellFormed(t, jittered)
	checkJitter(t, got, jittered, options.Jitter, model.shown(o))
}

// checkJitter checks that jitter moves Retry-After, and t of the rules that
// stood in the way, by no more than it may, and nothing else of RateLimit.
func checkJitter(t *testing.T, plain, jittered http.Header, most time.Duration, ds []*core.RuleDecision) {
	t.Helper()
	room := int64((most + time.Second - 1) / time.Second)
	if headers.TooLong(jittered) { // jitter has made it so, or it was before
		return
	}
	if (plain.Get("Retry-After") == "") != (jittered.Get("Retry-After") == "") {
		t.Fatalf("Retry-After %q became %q", plain.Get("Retry-After"), jittered.Get("Retry-After"))
	}
	retry := int64(-1)
	if plain.Get("Retry-After") != "" {
		least := integer(t, plain.Get("Retry-After"))
		if retry = integer(t, jittered.Get("Retry-After")); retry < least || retry > least+room {
			t.Fatalf("Retry-After %d became %d, jitter %v", least, retry, most)
		}
	}
	if value := plain.Get("RateLimit"); value == "" || value[0] != '"' {
		return
	}
	was, now := parse(t, plain), parse(t, jittered)
	if len(was) != len(now) || len(was) < len(ds) {
		t.Fatalf("%d members became %d", len(was), len(now))
	}
	for i := range was {
		d := &core.RuleDecision{Decision: limits.Decision{Allowed: true}}
		if ours := i - (len(was) - len(ds)); ours >= 0 {
			d = ds[ours]
		}
		a, _ := was[i].Params.Get("t")
		b, _ := now[i].Params.Get("t")
		if a == nil || d.Allowed {
			if a != b {
				t.Fatalf("t of an allowed rule, or none: %v became %v", a, b)
			}
			continue
		}
		if b.(int64) < a.(int64) || b.(int64) > a.(int64)+room || retry >= 0 && b.(int64) > retry {
			t.Fatalf("t %v became %v, jitter %v, Retry-After %d", a, b, most, retry)
		}
	}
}

func integer(t *testing.T, value string) int64 {
	t.Helper()
	item, err := httpsfv.UnmarshalItem([]string{value})
	if err != nil {
		t.Fatal(err)
	}
	return item.Value.(int64)
}

func parse(t *testing.T, h http.Header) (items []httpsfv.Item) {
	t.Helper()
	list, err := httpsfv.UnmarshalList(h["Ratelimit"])
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range list {
		items = append(items, m.(httpsfv.Item))
	}
	return items
}

func TestArbitraryDecisionsAreWrittenAsTheOracleSays(t *testing.T) {
	random := testrun.Random(t)
	for range 500 {
		data := make([]byte, 600)
		for i := range data {
			data[i] = byte(random.Uint32())
		}
		checkWrite(t, data)
	}
}

func FuzzWrite(f *testing.F) {
	f.Add([]byte{})
	for seed := range uint64(20) {
		random := rand.New(rand.NewPCG(seed, seed))
		data := make([]byte, 300)
		for i := range data {
			data[i] = byte(random.Uint32())
		}
		f.Add(data)
	}
	f.Fuzz(checkWrite)
}

// The header may already have any text. Write never panics, and if that text does not
// begin as a list of the right type, the result of Write parses.
func FuzzWriteOverForeignFields(f *testing.F) {
	f.Add(uint8(0), `"a";r=1`, "5", "1.5")
	f.Add(uint8(1), "limit=1, remaining=5, reset=2", "x", "-1")
	f.Add(uint8(2), "10;w=1, 20;w=2", "99999999999999999999", ".")
	f.Fuzz(func(t *testing.T, which uint8, text, remaining, reset string) {
		h := http.Header{
			"Ratelimit": {text}, "Ratelimit-Policy": {text},
			"X-Ratelimit-Remaining": {remaining}, "X-Ratelimit-Reset": {reset},
			"Ratelimit-Remaining": {remaining}, "Ratelimit-Reset": {reset},
		}
		w := writer(t, headers.Options{Formats: everyFormat[int(which)%len(everyFormat)]}, perMinute)
		w.Write(h, decided(t, []published{perMinute}, denied(0, 30*time.Second, time.Minute)))
		if h.Get("Retry-After") != "30" {
			t.Errorf("got %v", h)
		}
		for _, key := range []string{"Ratelimit", "Ratelimit-Policy"} {
			if values := h[key]; len(values) > 0 && values[0] != text && !mergeable(text) {
				wellFormed(t, http.Header{key: values})
			}
		}
	})
}

// mergeable reports whether text begins as a member of a list we may join.
func mergeable(text string) bool {
	for i := range len(text) {
		if c := text[i]; c != ' ' && c != '\t' {
			return c == '"' || c >= '0' && c <= '9'
		}
	}
	return false
}
