package xds_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/envoyproxy/go-control-plane/pkg/cache/types"
	"github.com/envoyproxy/go-control-plane/pkg/cache/v3"
	"github.com/envoyproxy/go-control-plane/pkg/resource/v3"
	server "github.com/envoyproxy/go-control-plane/pkg/server/v3"
	ratelimit "github.com/envoyproxy/go-control-plane/ratelimit/config/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/test/bufconn"

	"github.com/weir-go/weir/cmd/weir/internal/xds"
	"github.com/weir-go/weir/gateway/descriptors"
)

// management is the management server of go-control-plane, as Envoy Gateway runs it.
type management struct {
	t     *testing.T
	cache cache.SnapshotCache
	stop  func()

	mu       sync.Mutex
	listener *bufconn.Listener // nil: it is away
	dialled  int
	asked    []*discovery.DiscoveryRequest
}

func (m *management) begin() {
	m.cache = cache.NewSnapshotCache(false, cache.IDHash{}, nil)
	listener := bufconn.Listen(1 << 16)
	ctx, cancel := context.WithCancel(context.Background())
	g := grpc.NewServer()
	discovery.RegisterAggregatedDiscoveryServiceServer(g, server.NewServer(ctx, m.cache, server.CallbackFuncs{
		StreamRequestFunc: func(_ int64, r *discovery.DiscoveryRequest) error {
			m.mu.Lock()
			defer m.mu.Unlock()
			m.asked = append(m.asked, r)
			return nil
		},
	}))
	go g.Serve(listener)
	m.listen(listener)
	m.stop = func() {
		m.listen(nil)
		cancel()
		g.Stop()
		synctest.Wait()
	}
}

func (m *management) listen(listener *bufconn.Listener) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.listener = listener
}

func (m *management) dial(ctx context.Context) (net.Conn, error) {
	m.mu.Lock()
	listener := m.listener
	m.dialled++
	m.mu.Unlock()
	if listener == nil {
		return nil, errors.New("connection refused")
	}
	return listener.DialContext(ctx)
}

// counts returns how often it was dialled and asked.
func (m *management) counts() (dialled, asked int) {
	synctest.Wait()
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.dialled, len(m.asked)
}

// set has the server send these limits to the node, and waits until they have arrived.
func (m *management) set(version string, configs ...types.Resource) {
	m.t.Helper()
	snapshot, err := cache.NewSnapshot(version,
		map[resource.Type][]types.Resource{resource.RateLimitConfigType: configs})
	if err == nil {
		err = m.cache.SetSnapshot(context.Background(), "weir-1", snapshot)
	}
	if err != nil {
		m.t.Fatal(err)
	}
	synctest.Wait()
}

// last returns the last request as the versions and the mistake that it has.
func (m *management) last() (version, nonce, mistake string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.asked[len(m.asked)-1]
	return r.GetVersionInfo(), r.GetResponseNonce(), r.GetErrorDetail().GetMessage()
}

// limited returns limits of a domain: so many requests a day for each tenant.
func limited(domain string, requests uint32) *ratelimit.RateLimitConfig {
	return &ratelimit.RateLimitConfig{
		Name: domain, Domain: domain,
		Descriptors: []*ratelimit.RateLimitDescriptor{{Key: "tenant", RateLimit: aDay(requests)}},
	}
}

// asking is a client that runs.
type asking struct {
	*xds.Client
	t       *testing.T
	service *descriptors.Service
	log     *bytes.Buffer
	stop    func()
}

func ask(t *testing.T, m *management, state string) *asking {
	t.Helper()
	a := &asking{t: t, log: new(bytes.Buffer)}
	a.service = descriptors.MustNew(descriptors.Awaited(), descriptors.Options{})
	a.Client = xds.New(xds.Config{
		Address: "passthrough:///server", Node: "weir-1", State: state, Service: a.service,
		Logger: slog.New(slog.NewTextHandler(a.log, nil)),
	})
	a.DialBy(m.dial)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		a.Run(ctx)
		close(ended)
	}()
	a.stop = func() { cancel(); <-ended }
	synctest.Wait()
	return a
}

// limits returns what a tenant of a domain has left, or why that is not known.
func (a *asking) limits(domain string) string {
	answer, err := a.service.Decide(context.Background(), &descriptors.Request{Domain: domain,
		Descriptors: []descriptors.Descriptor{{
			Entries: []descriptors.Entry{{Key: "tenant", Value: "acme"}}, Hits: new(uint64),
		}}})
	switch {
	case errors.Is(err, descriptors.ErrUnavailable):
		return "unavailable"
	case err != nil:
		return err.Error()
	case answer.Statuses[0].Limit == nil:
		return "none"
	}
	return fmt.Sprint(answer.Statuses[0].Limit.RequestsPerUnit)
}

func (a *asking) has(domain, want string) {
	a.t.Helper()
	if got := a.limits(domain); got != want {
		a.t.Errorf("limits of %s: %s, want %s\n%s", domain, got, want, a.log)
	}
}

// wants checks how often the log has each text.
func (a *asking) wants(times int, texts ...string) {
	a.t.Helper()
	for _, text := range texts {
		if got := strings.Count(a.log.String(), text); got != times {
			a.t.Errorf("%q is logged %d times, want %d:\n%s", text, got, times, a.log)
		}
	}
}

// bubble runs a test with a management server that has begun.
func bubble(t *testing.T, test func(t *testing.T, m *management)) {
	synctest.Test(t, func(t *testing.T) {
		m := &management{t: t}
		m.begin()
		test(t, m)
		m.stop() // again, if the test has
	})
}

func TestLimitsOfAServerComeIntoForce(t *testing.T) {
	bubble(t, func(t *testing.T, m *management) {
		a := ask(t, m, "")
		defer a.stop()
		a.has("shop", "unavailable")
		select {
		case <-a.Arrived():
			t.Error("no limits have come")
		default:
		}
		m.set("7", limited("shop", 3), limited("market", 4))
		a.has("shop", "3")
		a.has("market", "4")
		a.has("elsewhere", "none")
		<-a.Arrived()
		if version, nonce, mistake := m.last(); version != "7" || nonce != "1" || mistake != "" {
			t.Errorf("acked %q, %q, %q", version, nonce, mistake)
		}
		m.set("8", limited("shop", 5)) // the world has no market
		a.has("shop", "5")
		a.has("market", "none")
		m.set("9")
		a.has("shop", "none")
		a.wants(1, `version=7`, `version=8`, `domains=[]`)
		if applied, failed := a.Loads(); applied != 3 || failed != 0 || a.Digest() == "" {
			t.Errorf("%d loads, %d failures, %s", applied, failed, a.Digest())
		}
	})
}

func TestAVersionWithAMistakeIsRefusedInWords(t *testing.T) {
	bubble(t, func(t *testing.T, m *management) {
		a := ask(t, m, "")
		defer a.stop()
		m.set("1", limited("shop", 3))
		broken := limited("shop", 9)
		broken.Descriptors[0].RateLimit.Unit = 9
		m.set("2", broken, limited("market", 1))
		a.has("shop", "3")
		a.has("market", "none") // all of a version, or nothing
		const words = `shop: rule "tenant": unit must be second, minute, hour, day, week, month or year (got "9")`
		if version, nonce, mistake := m.last(); version != "1" || nonce != "2" || mistake != words {
			t.Errorf("refused by %q, %q, %q", version, nonce, mistake)
		}
		if since, err := a.Failure(); err == nil || !since.Equal(time.Now()) {
			t.Errorf("failing since %v: %v", since, err)
		}
		_, before := m.counts()
		time.Sleep(10 * time.Minute) // the server sends it again for each refusal
		if _, asked := m.counts(); asked < before+10 || asked > before+45 {
			t.Errorf("refused %d times in ten minutes", asked-before)
		}
		a.wants(1, "level=ERROR", `msg="xds: a version is refused, the limits in force stay"`)
		m.set("3", limited("shop", 4))
		time.Sleep(30 * time.Second) // the refusal in hand has its time
		synctest.Wait()
		a.has("shop", "4")
		if _, err := a.Failure(); err != nil {
			t.Error(err)
		}
		m.set("4", broken)
		a.wants(2, "level=ERROR")
	})
}

func TestLimitsStayWhileTheServerIsAway(t *testing.T) {
	bubble(t, func(t *testing.T, m *management) {
		a := ask(t, m, "")
		defer a.stop()
		m.set("1", limited("shop", 3))
		m.stop()
		before, _ := m.counts()
		time.Sleep(10 * time.Minute)
		a.has("shop", "3")
		if dialled, _ := m.counts(); dialled < before+20 || dialled > before+45 {
			t.Errorf("connected %d times in ten minutes", dialled-before)
		}
		a.wants(1, "connection refused") // not once for each time
		m.begin()                        // versions begin anew
		m.set("1", limited("shop", 4))
		time.Sleep(30 * time.Second)
		synctest.Wait()
		a.has("shop", "4")
		m.stop()
		time.Sleep(time.Minute)
		synctest.Wait()
		a.wants(2, "connection refused")
	})
}

func TestTheSameLimitsAreNotPutIntoForceAgain(t *testing.T) {
	bubble(t, func(t *testing.T, m *management) {
		a := ask(t, m, "")
		defer a.stop()
		m.set("1", limited("shop", 3), limited("market", 4))
		digest := a.Digest()
		m.set("2", limited("market", 4), limited("shop", 3))
		if version, _, _ := m.last(); version != "2" || a.Digest() != digest {
			t.Errorf("version %s, digest %s, was %s", version, a.Digest(), digest)
		}
		if applied, _ := a.Loads(); applied != 1 {
			t.Errorf("applied %d times", applied)
		}
	})
}

func TestLimitsOutliveARestartOfWeir(t *testing.T) {
	bubble(t, func(t *testing.T, m *management) {
		state := filepath.Join(t.TempDir(), "xds.json")
		a := ask(t, m, state)
		m.set("1", limited("shop", 0), limited("market", 4))
		broken := limited("shop", 9)
		broken.Domain = ""
		m.set("2", broken)
		a.stop()
		m.stop()
		if info, err := os.Stat(state); err != nil || info.Mode().Perm() != 0o600 {
			t.Fatalf("%v, %v", info, err)
		}
		b := ask(t, m, state)
		defer b.stop()
		b.has("shop", "0")
		b.has("market", "4")
		<-b.Arrived()
		b.wants(1, "the limits of before are in force until the server answers")
		if a.Digest() != b.Digest() {
			t.Errorf("digest %s, was %s", b.Digest(), a.Digest())
		}
		m.begin()
		m.set("1", limited("shop", 6))
		time.Sleep(time.Minute)
		synctest.Wait()
		b.has("shop", "6")
		if files, err := os.ReadDir(filepath.Dir(state)); err != nil || len(files) != 1 {
			t.Errorf("%v, %v", files, err)
		}
	})
}

func TestAStateThatIsBrokenIsReportedAndReplaced(t *testing.T) {
	for _, text := range []string{
		"", "{", `{"resources": [{"@type": "type.googleapis.com/none.Such"}]}`,
		`{"resources": [{"@type": "type.googleapis.com/ratelimit.config.ratelimit.v3.RateLimitConfig"}]}`,
		`{"typeUrl": "type.googleapis.com/envoy.config.cluster.v3.Cluster"}`,
	} {
		bubble(t, func(t *testing.T, m *management) {
			state := filepath.Join(t.TempDir(), "xds.json")
			if err := os.WriteFile(state, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			a := ask(t, m, state)
			a.has("shop", "unavailable")
			a.wants(1, "what was in force before is lost")
			m.set("1", limited("shop", 3))
			a.stop()
			b := ask(t, m, state)
			b.has("shop", "3")
			b.stop()
		})
	}
}

func TestAStateThatCannotBeWrittenIsReported(t *testing.T) {
	bubble(t, func(t *testing.T, m *management) {
		a := ask(t, m, filepath.Join(t.TempDir(), "none", "xds.json"))
		defer a.stop()
		m.set("1", limited("shop", 3))
		a.has("shop", "3")
		a.wants(1, "cannot be kept for the next start")
	})
}

func TestAServerThatSendsNothingIsReported(t *testing.T) {
	bubble(t, func(t *testing.T, m *management) { // as for a node that it does not know
		a := ask(t, m, "")
		defer a.stop()
		time.Sleep(time.Hour)
		synctest.Wait()
		a.wants(1, "has it any for this node?", "node=weir-1")
	})
}

func TestMetricsTellOfTheConnectionAndItsVersions(t *testing.T) {
	bubble(t, func(t *testing.T, m *management) {
		a := ask(t, m, "")
		defer a.stop()
		values := func() string {
			var all []string
			for _, metric := range a.Metrics() {
				for _, s := range metric.Series {
					all = append(all, fmt.Sprint(metric.Name, s.Labels, s.Value))
				}
			}
			return strings.Join(all, " ")
		}
		m.set("1", limited("shop", 3))
		m.set("2", limited("", 3))
		m.set("3", limited("shop", 3))
		time.Sleep(time.Minute)
		synctest.Wait()
		const connected = "weir_xds_connected[] 1 weir_xds_versions_total[taken] 2 " +
			"weir_xds_versions_total[refused] 1 weir_xds_info[3] 1"
		if got := values(); got != connected {
			t.Error(got)
		}
		m.stop()
		if got := values(); !strings.HasPrefix(got, "weir_xds_connected[] 0") {
			t.Error(got)
		}
	})
}
