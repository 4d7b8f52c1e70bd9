package serve

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/envoyproxy/go-control-plane/pkg/cache/types"
	"github.com/envoyproxy/go-control-plane/pkg/cache/v3"
	"github.com/envoyproxy/go-control-plane/pkg/resource/v3"
	management "github.com/envoyproxy/go-control-plane/pkg/server/v3"
	config "github.com/envoyproxy/go-control-plane/ratelimit/config/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
)

// serverOfLimits is a management server for the node weir-1, which asks for certificates of a.
func serverOfLimits(t *testing.T, a *authority) (address string, set func(domain string)) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, _, cert, key := sign(t, a, "limits.example")
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	clients := x509.NewCertPool()
	clients.AppendCertsFromPEM(a.pem)
	g := grpc.NewServer(grpc.Creds(credentials.NewTLS(&tls.Config{
		Certificates: []tls.Certificate{pair}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: clients,
		MinVersion: tls.VersionTLS13,
	})))
	snapshots := cache.NewSnapshotCache(false, cache.IDHash{}, nil)
	discovery.RegisterAggregatedDiscoveryServiceServer(g,
		management.NewServer(t.Context(), snapshots, management.CallbackFuncs{}))
	go g.Serve(l)
	t.Cleanup(g.Stop)
	return l.Addr().String(), func(domain string) {
		t.Helper()
		one := &config.RateLimitConfig{Name: domain, Domain: domain, Descriptors: []*config.RateLimitDescriptor{{
			Key: "tenant", RateLimit: &config.RateLimitPolicy{Unit: config.RateLimitUnit_YEAR, RequestsPerUnit: 1},
		}}}
		s, err := cache.NewSnapshot("1", map[resource.Type][]types.Resource{resource.RateLimitConfigType: {one}})
		if err == nil {
			err = snapshots.SetSnapshot(context.Background(), "weir-1", s)
		}
		if err != nil {
			t.Error(err)
		}
	}
}

func TestAServiceIsReadyOnceLimitsHaveCome(t *testing.T) {
	a := newAuthority(t)
	address, set := serverOfLimits(t, a)
	_, _, cert, key := sign(t, a, "weir")
	state := filepath.Join(t.TempDir(), "xds.json")
	r := start(t, Config{
		Paths: []string{fileOf(t, "weir.yaml", rules)},
		XDS: XDS{
			Address: address, Node: "weir-1", CA: fileOf(t, "ca", string(a.pem)), State: state,
			Cert: fileOf(t, "cert", string(cert)), Key: fileOf(t, "key", string(key)), Name: "limits.example",
		},
	})
	stream, err := healthpb.NewHealthClient(dialTo(t, r.grpc)).
		Watch(t.Context(), &healthpb.HealthCheckRequest{Service: "ratelimit"})
	if err != nil {
		t.Fatal(err)
	}
	if status, err := stream.Recv(); err != nil || status.Status != healthpb.HealthCheckResponse_NOT_SERVING {
		t.Fatalf("%v, %v", status, err)
	}
	probed := func(want int) {
		t.Helper()
		for url, want := range map[string]int{
			"http://" + r.operator + "/readyz": want, "http://" + r.operator + "/healthz": 200,
			"http://" + r.check + "/healthcheck": want,
		} {
			if got, _ := get(t, url); got != want {
				t.Errorf("%s: %d, want %d", url, got, want)
			}
		}
	}
	counted := func(want int) {
		t.Helper()
		response, err := http.Post("http://"+r.check+"/json", "application/json",
			strings.NewReader(`{"domain":"shop","descriptors":[{"entries":[{"key":"tenant","value":"acme"}]}]}`))
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		if response.StatusCode != want {
			t.Errorf("answered %d, want %d", response.StatusCode, want)
		}
	}
	probed(503)
	counted(503) // and not as if there were no limit
	if got, _ := ask(t, http.DefaultClient, "http://"+r.check+"/check"); got != 204 {
		t.Errorf("the policy does not wait: %d", got)
	}
	set("shop")
	if status, err := stream.Recv(); err != nil || status.Status != healthpb.HealthCheckResponse_SERVING {
		t.Fatalf("%v, %v", status, err)
	}
	probed(200)
	counted(200)
	counted(429)
	_, metrics := get(t, "http://"+r.operator+"/metrics")
	for _, want := range []string{
		"\nweir_xds_connected 1\n", "\nweir_xds_versions_total{result=\"taken\"} 1\n",
		"\nweir_xds_info{version=\"1\"} 1\n", `weir_policy_failing{policy="xds ` + address + `"} 0`,
	} {
		if !strings.Contains(metrics, want) {
			t.Errorf("metrics have no %s", want)
		}
	}
	if err := r.end(); err != nil {
		t.Error(err)
	}

	// A process that begins while the server is away has the limits of before.
	other := start(t, Config{XDS: XDS{Address: "127.0.0.1:1", Node: "weir-1", State: state}})
	stream, err = healthpb.NewHealthClient(dialTo(t, other.grpc)).Watch(t.Context(), &healthpb.HealthCheckRequest{})
	for serving := false; !serving; {
		if err != nil {
			t.Fatal(err)
		}
		var status *healthpb.HealthCheckResponse
		status, err = stream.Recv()
		serving = status.GetStatus() == healthpb.HealthCheckResponse_SERVING
	}
	r = other
	probed(200)
	counted(200)
	counted(429)
}

func TestAServiceThatWaitsForLimitsEnds(t *testing.T) {
	r := start(t, Config{XDS: XDS{Address: "127.0.0.1:1", Node: "weir-1"}})
	if err := r.end(); err != nil {
		t.Error(err)
	}
	if strings.Contains(r.log.String(), "serve: ready") {
		t.Errorf("it was never ready:\n%s", r.log)
	}
}

func TestWhatAServerOfLimitsIsReachedByIsChecked(t *testing.T) {
	good := XDS{Address: "limits:18001", Node: "weir-1"}
	with := func(change func(*XDS)) XDS {
		x := good
		change(&x)
		return x
	}
	missing := filepath.Join(t.TempDir(), "none", "file")
	for _, of := range []struct {
		xds  XDS
		want string
	}{
		{XDS{Node: "weir-1"}, "name it by --xds"},
		{XDS{CA: "ca.pem"}, "name it by --xds"},
		{with(func(x *XDS) { x.Address = "limits" }), `such as envoy-gateway:18001 (got "limits")`},
		{with(func(x *XDS) { x.Node = "" }), "--xds needs --node"},
		{with(func(x *XDS) { x.CA, x.Cert = "a", "b" }), "both --xds-tls-cert and --xds-tls-key"},
		{with(func(x *XDS) { x.Cert, x.Key = "a", "b" }), "need --xds-tls-ca"},
		{with(func(x *XDS) { x.Name = "limits" }), "need --xds-tls-ca"},
		{with(func(x *XDS) { x.State = missing }), "a file in a directory that exists"},
		{with(func(x *XDS) { x.CA = missing }), "no such file"},
	} {
		c := Config{XDS: of.xds, Check: "127.0.0.1:0", Logger: slog.New(slog.DiscardHandler)}
		if err := Run(t.Context(), c); err == nil || !strings.Contains(err.Error(), of.want) {
			t.Errorf("%+v: %v, want %q", of.xds, err, of.want)
		}
	}
	if all := good.mistakes(); all != nil {
		t.Error(all)
	}
	if all := with(func(x *XDS) { x.Address = "unix:/run/xds.sock" }).mistakes(); all != nil {
		t.Error(all)
	}
	both := Config{
		XDS: good, Paths: []string{fileOf(t, "limits.yaml", byDescriptor)}, Check: "127.0.0.1:0",
		Logger: slog.New(slog.DiscardHandler),
	}
	if err := Run(t.Context(), both); err == nil || !strings.Contains(err.Error(), "leave one out") {
		t.Error(err)
	}
}
