package main

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/weir-go/weir/internal/proof/testrun"
	"github.com/weir-go/weir/keyfuncs/agents"
	"github.com/weir-go/weir/keyfuncs/agents/agentstest"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
	"github.com/weir-go/weir/memory"
	"github.com/weir-go/weir/redisbackend"
)

// The site answers 100 requests a second. Crawlers send twenty times as many.
const (
	workers  = 20
	work     = 200 * time.Millisecond
	capacity = float64(workers) * float64(time.Second) / float64(work)

	crawlers = 50
	excess   = 20
	visitors = 200 // people
	patience = time.Second
	page     = 6 // requests of one page: the text and its pictures

	alone = 20 * time.Second // before the crawlers come
	rush  = 2 * time.Second  // in which crawlers that come at once use up their bursts
)

var flood = flag.Duration("flood", 0,
	"for how `long` crawlers come, in virtual time; 0: as long as this run of the tests allows")

// crowd is what happens to a site: who comes, and how the crawlers behave.
type crowd struct {
	name      string
	unlimited bool          // the site has no rules
	within    time.Duration // crawlers begin one after the other within this time
	rotate    bool          // crawlers take a network of their own for each request
}

var crowds = []crowd{
	{name: "without rules", unlimited: true},
	{name: "crawlers that come within a minute", within: time.Minute},
	{name: "crawlers that come at once"},
	{name: "crawlers with a network for each request", rotate: true},
}

// TestACrowdOfCrawlersTakesNothingFromOthers floods the site in virtual time.
func TestACrowdOfCrawlersTakesNothingFromOthers(t *testing.T) {
	for _, store := range []string{"memory", "Redis"} {
		for _, c := range crowds {
			if store == "Redis" && c.unlimited { // which asks no store
				continue
			}
			seconds := testrun.Sized(30, 60)
			if store == "Redis" && c.rotate { // each request asks it
				seconds = testrun.Sized(5, 15)
			}
			lasts := alone + cmp.Or(*flood, time.Duration(seconds)*time.Second)
			t.Run(store+", "+c.name, func(t *testing.T) {
				if store == "Redis" {
					testrun.NeedsMiniredis(t)
				}
				seed := testrun.Seed(t)
				synctest.Test(t, func(t *testing.T) {
					var backend backends.Backend = memory.MustNew(memory.Options{})
					if store == "Redis" {
						redis := startRedis(t)
						defer redis.end()
						backend = redis
					}
					c.check(t, c.come(t, seed, backend, lasts))
				})
			})
		}
	}
}

// check fails the test unless people and agents got what they are promised.
func (c crowd) check(t *testing.T, all *tallies) {
	t.Log(all)
	everyone := all.of("members").and(all.of("newcomers"))
	if c.within > 0 {
		everyone = everyone.and(all.of("newcomers in the rush"))
	}
	if c.unlimited {
		if everyone.share() > 0.5 || all.of("agents").share() > 0.5 {
			t.Error("the crawlers do no harm, so the other cases show nothing")
		}
		return
	}
	if agents := all.of("agents"); agents.share() < 1 {
		t.Errorf("agents within their plans: %v", agents)
	}
	if members := all.of("members"); members.share() < 0.999 {
		t.Errorf("people who are signed in: %v", members)
	}
	if !c.rotate && everyone.share() < 0.98 { // otherwise newcomers look like crawlers
		t.Errorf("people: %v", everyone)
	}
}

// tallies count the requests of each group.
type tallies struct {
	mu     sync.Mutex
	groups map[string]*tally
}

// tally counts requests, and those that were answered in time.
type tally struct{ asked, answered int }

func (t tally) share() float64    { return float64(t.answered) / float64(t.asked) }
func (t tally) and(o tally) tally { return tally{t.asked + o.asked, t.answered + o.answered} }
func (t tally) String() string    { return fmt.Sprintf("%.2f%% of %d", 100*t.share(), t.asked) }

func (a *tallies) of(group string) tally {
	if t := a.groups[group]; t != nil {
		return *t
	}
	return tally{}
}

func (a *tallies) count(group string, answered bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.groups[group] == nil {
		a.groups[group] = new(tally)
	}
	a.groups[group].asked++
	if answered {
		a.groups[group].answered++
	}
}

func (a *tallies) String() string {
	text := "answered in time:"
	for _, group := range []string{"agents", "members", "newcomers", "newcomers in the rush", "crawlers"} {
		if a.groups[group] != nil {
			text += fmt.Sprintf(" %s %v;", group, a.of(group))
		}
	}
	return text
}

// busy is a site with few workers.
type busy struct{ places chan struct{} }

func (b *busy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	select {
	case b.places <- struct{}{}:
	case <-r.Context().Done():
		http.Error(w, "the site is busy", http.StatusServiceUnavailable)
		return
	}
	time.Sleep(work)
	<-b.places
	w.WriteHeader(http.StatusOK)
}

// come lets the crowd come for a time, and returns what was answered.
func (c crowd) come(t *testing.T, seed uint64, backend backends.Backend, lasts time.Duration) *tallies {
	var site http.Handler = &busy{make(chan struct{}, workers)}
	signing := newSigning(t)
	if !c.unlimited {
		limited, err := newHandler(signing.verifier, limits.TokenBucket(limits.PerMinute(20), 10), backend, site)
		if err != nil {
			t.Fatal(err)
		}
		site = limited
	}
	begun := time.Now()
	over, stop := context.WithTimeout(t.Context(), lasts)
	defer stop()
	all := &tallies{groups: make(map[string]*tally)}
	var group sync.WaitGroup
	each := func(i int, f func(random *rand.Rand)) {
		group.Go(func() { f(rand.New(rand.NewPCG(seed, uint64(i)))) })
	}
	ask := func(who string, r *http.Request) {
		group.Go(func() {
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			defer cancel()
			a := &answer{header: make(http.Header)}
			site.ServeHTTP(a, r.WithContext(ctx))
			all.count(who, a.status == http.StatusOK && ctx.Err() == nil)
		})
	}
	for i := range visitors {
		each(i, func(random *rand.Rand) {
			who, cookie, address := "members", newSession(fmt.Sprint("user", i), time.Now()), address(i)
			if i%2 == 1 {
				who, cookie = "newcomers", ""
			}
			pause(over, time.Duration(random.Int64N(int64(time.Minute))))
			for over.Err() == nil {
				group := who
				if age := time.Since(begun); cookie == "" && age > alone && age < alone+rush {
					group += " in the rush"
				}
				for range page {
					ask(group, request(address, cookie))
				}
				pause(over, 30*time.Second+time.Duration(random.Int64N(int64(time.Minute))))
			}
		})
	}
	for i, agent := range signing.all {
		each(visitors+i, func(*rand.Rand) {
			for over.Err() == nil {
				r := request(address(visitors+i), "")
				agent.Sign(r)
				ask("agents", r)
				pause(over, agent.every)
			}
		})
	}
	for i := range crawlers {
		each(visitors+len(signing.all)+i, func(random *rand.Rand) {
			from := address(1000 + i)
			pause(over, alone)
			if c.within > 0 {
				pause(over, time.Duration(random.Int64N(int64(c.within))))
			}
			every := time.Duration(float64(time.Second) * crawlers / (excess * capacity))
			for over.Err() == nil {
				if c.rotate {
					from = address(1000 + random.IntN(1<<20))
				}
				ask("crawlers", request(from, ""))
				pause(over, every)
			}
		})
	}
	group.Wait()
	return all
}

// signing are agents, and the verifier that knows them.
type signing struct {
	verifier *agents.Verifier
	all      []agent
}

// agent signs requests, and uses its plan in full.
type agent struct {
	*agentstest.Signer
	every time.Duration // the time between two requests
}

func newSigning(t *testing.T) *signing {
	t.Helper()
	s := &signing{}
	config := agents.Config{Authorities: []string{host}}
	for _, name := range []string{"search.example", "archive.example", "a.example", "b.example", "c.example"} {
		plan, err := planOf(nil, name)
		if err != nil {
			t.Fatal(err)
		}
		signer := agentstest.New("https://" + name)
		s.all = append(s.all, agent{signer, plan.Rate().Period / time.Duration(plan.Rate().Units)})
		config.Directories = append(config.Directories, agents.Directory{URL: signer.Directory, Keys: signer.KeySet()})
	}
	var err error
	if s.verifier, err = agents.New(config); err != nil {
		t.Fatal(err)
	}
	return s
}

// pause sleeps, or until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// address returns an address in the network of a number, of which there are 2^22.
func address(number int) string {
	n := uint32(number)<<8 + 11<<24 + 7
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte{
		byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n),
	}), 4711).String()
}

// request returns a request for a page.
func request(from, cookie string) *http.Request {
	r := &http.Request{
		Method: http.MethodGet, Host: host, URL: &url.URL{Path: "/wiki/Weir"}, RequestURI: "/wiki/Weir",
		Header: make(http.Header), RemoteAddr: from, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Body: http.NoBody,
	}
	if cookie != "" {
		r.Header.Set("Cookie", "session="+cookie)
	}
	return r
}

const host = "wiki.example"

// answer notes the status of an answer.
type answer struct {
	header http.Header
	status int
}

func (a *answer) Header() http.Header         { return a.header }
func (a *answer) Write(p []byte) (int, error) { a.WriteHeader(http.StatusOK); return len(p), nil }

func (a *answer) WriteHeader(status int) {
	if a.status == 0 {
		a.status = status
	}
}

// onRedis is a backend on a server in the bubble.
type onRedis struct {
	*redisbackend.Backend
	client *redis.Client
	server *miniredis.Miniredis

	closing sync.Mutex // held by a dial
	closed  bool
}

func startRedis(t *testing.T) *onRedis {
	t.Helper()
	server := miniredis.NewMiniRedis()
	server.ClockTTL(true)
	first, err := server.Dial() // after which it serves others
	if err != nil {
		t.Fatal(err)
	}
	first.Close()
	r := &onRedis{server: server}
	r.client = redis.NewClient(&redis.Options{
		Addr: "198.51.100.1:6379", MaxRetries: -1, DialerRetries: 1, ContextTimeoutEnabled: true,
		Dialer: func(context.Context, string, string) (net.Conn, error) {
			r.closing.Lock()
			defer r.closing.Unlock()
			if r.closed {
				return nil, net.ErrClosed
			}
			client, served := net.Pipe()
			server.Server().ServeConn(served)
			return client, nil
		},
	})
	r.Backend = redisbackend.MustNew(r.client, redisbackend.Options{Logger: slog.New(slog.DiscardHandler)})
	return r
}

func (r *onRedis) end() {
	r.Backend.Close()
	r.client.Close()
	r.closing.Lock()
	r.closed = true // a client may still dial
	r.closing.Unlock()
	r.server.Close()
	time.Sleep(2 * time.Second) // of the bubble, until goroutines of the client see that it is closed
}
