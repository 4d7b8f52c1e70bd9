// Package xds takes limits by descriptors from a management server: state of the world, by the
// aggregated discovery service of Envoy's protocols, as envoyproxy/ratelimit takes them from Envoy
// Gateway.
package xds

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	rpc "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"

	"github.com/weir-go/weir/gateway/descriptors"
	"github.com/weir-go/weir/internal/files/follow"
	"github.com/weir-go/weir/stats"
)

// Config says whom a client asks.
type Config struct {
	Address string                      // host:port, or a unix socket, as in unix:/run/xds.sock
	Node    string                      // for whom it asks
	TLS     func() (*tls.Config, error) // is called for each connection; nil: not encrypted
	State   string                      // the file that keeps the last version; "": none

	Service *descriptors.Service // gets the limits
	Logger  *slog.Logger
}

// Client puts the limits of a server into force, each version as a whole. A version with a mistake
// is refused, and the limits in force stay, as they do while the server is away. Make one with
// [New], and run it. It has the methods of a stats.PolicyStatus.
type Client struct {
	Config
	record    follow.Record
	arrived   chan struct{} // is closed once there are limits
	arrive    sync.Once
	connected atomic.Bool
	taken     atomic.Int64
	refused   atomic.Int64
	version   atomic.Pointer[string] // in force

	dialer func(ctx context.Context, network, address string) (net.Conn, error)

	// of Run
	reported string // the last failure to connect
	failure  string // the last version that was refused
}

// New returns a client, and puts what Config.State has into force.
func New(config Config) *Client {
	c := &Client{Config: config, arrived: make(chan struct{}), dialer: new(net.Dialer).DialContext}
	r, written, err := state(c.State).read()
	if err == nil && r != nil {
		err = c.apply(r)
	}
	switch {
	case err != nil:
		c.Logger.Warn("xds: what was in force before is lost", "error", err)
	case r != nil:
		c.Logger.Info("xds: the limits of before are in force until the server answers", "file", c.State,
			"version", r.GetVersionInfo(), "written", written, "domains", c.Service.Domains())
	}
	return c
}

// Arrived returns a channel that is closed once there are limits.
func (c *Client) Arrived() <-chan struct{} { return c.arrived }

// Run asks the server until ctx ends, and returns its error. While the server is away it tries
// again after a second, and then ever less often, every half a minute at last.
func (c *Client) Run(ctx context.Context) error {
	for wait := shortest; ; wait = min(2*wait, longest) {
		answered, err := c.connect(ctx)
		c.connected.Store(false)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if answered {
			wait, c.reported = shortest, ""
		}
		if why := describe(err); why != c.reported {
			c.reported = why
			c.Logger.Warn("xds: there is no connection, the limits in force stay",
				"server", c.Address, "error", why)
		}
		// Processes that lost one server do not come back together.
		if !sleep(ctx, wait/2+rand.N(wait/2)) {
			return ctx.Err()
		}
	}
}

// Waits before the next connection, and before a version is refused once more.
const (
	shortest = time.Second
	longest  = 30 * time.Second
)

// sleep waits, and returns false if ctx ends.
func sleep(ctx context.Context, wait time.Duration) bool {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// describe returns an error of a stream in words.
func describe(err error) string {
	if errors.Is(err, io.EOF) {
		return "it has ended the stream"
	}
	if s, ok := status.FromError(err); ok {
		return fmt.Sprintf("%v: %s", s.Code(), s.Message())
	}
	return err.Error()
}

// maxMessage is how long an answer may be: 100,000 descriptors with keys and values of 300 bytes.
const maxMessage = 64 << 20

// dial returns a connection, with files of TLS as they are now.
func (c *Client) dial() (*grpc.ClientConn, error) {
	secrets := insecure.NewCredentials()
	if c.TLS != nil {
		config, err := c.TLS()
		if err != nil {
			return nil, err
		}
		secrets = credentials.NewTLS(config)
	}
	target, network := c.Address, "tcp"
	if path, unix := strings.CutPrefix(c.Address, "unix:"); unix {
		target, network = "passthrough:///"+path, "unix"
	}
	return grpc.NewClient(target,
		grpc.WithTransportCredentials(secrets),
		grpc.WithDisableServiceConfig(),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessage)),
		// A dialer of net has its kernel probe a peer that is silent. Servers of grpc-go take pings
		// more often than each five minutes for an attack.
		grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
			return c.dialer(ctx, network, address)
		}),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{
			Time: 6 * time.Minute, Timeout: 20 * time.Second,
		}))
}

// connect asks by one connection until it ends, and says why. answered tells whether there was an
// answer.
func (c *Client) connect(ctx context.Context) (answered bool, err error) {
	conn, err := c.dial()
	if err != nil {
		return false, err
	}
	defer conn.Close()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := discovery.NewAggregatedDiscoveryServiceClient(conn).StreamAggregatedResources(ctx)
	if err != nil {
		return false, err
	}
	// The first request of a stream names no version. Versions of Envoy Gateway begin at 1 each time
	// that it starts: one that is known by its number may have other limits.
	request := &discovery.DiscoveryRequest{
		Node: &core.Node{Id: c.Node, UserAgentName: "weir"}, TypeUrl: typeURL,
	}
	if err := send(stream, request); err != nil {
		return false, err
	}
	c.connected.Store(true)
	silence := time.AfterFunc(patience, func() {
		c.Logger.Warn("xds: connected, but the server has sent no limits: has it any for this node?",
			"server", c.Address, "node", c.Node)
	})
	defer silence.Stop()
	for wait := shortest; ; {
		answer, err := stream.Recv()
		if err != nil {
			return answered, err
		}
		silence.Stop()
		answered = true
		request.ResponseNonce, request.ErrorDetail = answer.GetNonce(), nil
		again, err := c.take(answer)
		if err == nil {
			request.VersionInfo = answer.GetVersionInfo()
		} else {
			request.ErrorDetail = &rpc.Status{Code: int32(codes.InvalidArgument), Message: err.Error()}
		}
		if !again {
			wait = shortest
		} else if wait = min(2*wait, longest); !sleep(ctx, wait/2) {
			// A server may answer a refusal with the same version at once, for ever.
			return answered, ctx.Err()
		}
		if err := send(stream, request); err != nil {
			return answered, err
		}
	}
}

// patience is how long a server may be silent before a line is logged.
const patience = 10 * time.Second

// send sends a request. If the stream has ended, the error says why.
func send(
	stream discovery.AggregatedDiscoveryService_StreamAggregatedResourcesClient,
	request *discovery.DiscoveryRequest,
) error {
	err := stream.Send(request)
	if errors.Is(err, io.EOF) {
		_, err = stream.Recv()
	}
	return err
}

// take puts a version into force, or returns why not. again tells that it was refused for the same
// reason before.
func (c *Client) take(r *discovery.DiscoveryResponse) (again bool, err error) {
	before := c.record.Digest()
	if err := c.apply(r); err != nil {
		failure := fmt.Sprintf("%q %v", r.GetVersionInfo(), err)
		again, c.failure = failure == c.failure, failure
		c.record.Fail(err, !again)
		if !again {
			c.refused.Add(1)
			c.Logger.Error("xds: a version is refused, the limits in force stay", "server", c.Address,
				"version", r.GetVersionInfo(), "error", err)
		}
		return again, err
	}
	c.failure = ""
	c.taken.Add(1)
	if c.record.Digest() == before {
		c.Logger.Info("xds: a version has the limits in force", "server", c.Address,
			"version", r.GetVersionInfo())
	} else {
		c.Logger.Info("xds: a version is taken", "server", c.Address, "version", r.GetVersionInfo(),
			"digest", c.record.Digest(), "domains", c.Service.Domains())
	}
	if err := state(c.State).write(r); err != nil {
		c.Logger.Error("xds: the version is in force, but cannot be kept for the next start",
			"file", c.State, "error", err)
	}
	return false, nil
}

// apply puts a version into force, or returns every mistake in it.
func (c *Client) apply(r *discovery.DiscoveryResponse) error {
	if of := r.GetTypeUrl(); of != "" && of != typeURL {
		return fmt.Errorf("an answer of the type %.200q is no limits", of)
	}
	documents, err := documentsOf(r.GetResources())
	if err != nil {
		return err
	}
	config, err := descriptors.ParseDocuments(documents...)
	if err != nil {
		return err
	}
	version := r.GetVersionInfo()
	c.version.Store(&version)
	if digest := digestOf(documents); digest == c.record.Digest() {
		c.record.Recover()
	} else {
		c.Service.Replace(config)
		c.record.Apply(digest)
	}
	c.arrive.Do(func() { close(c.arrived) })
	return nil
}

// Digest returns the digest of the limits in force.
func (c *Client) Digest() string { return c.record.Digest() }

// Applied returns since when the limits in force are so.
func (c *Client) Applied() time.Time { return c.record.Applied() }

// Failure returns why the last version is not in force, and since when; nil if it is.
func (c *Client) Failure() (since time.Time, err error) { return c.record.Failure() }

// Loads returns how many times limits came into force, and how often they could not, where a
// failure that lasts is one.
func (c *Client) Loads() (applied, failed int64) { return c.record.Loads() }

// Metrics returns the counters of c.
func (c *Client) Metrics() []stats.Metric {
	connected, version := 0.0, ""
	if c.connected.Load() {
		connected = 1
	}
	if v := c.version.Load(); v != nil {
		version = *v
	}
	return []stats.Metric{
		{
			Name: "weir_xds_connected", Instrument: "weir.xds.connected", Kind: "gauge", Unit: "1",
			Help:   "Whether there is a connection to the management server.",
			Series: []stats.Series{{Value: connected}},
		},
		{
			Name: "weir_xds_versions_total", Labels: []string{"result"},
			Instrument: "weir.xds.versions", Attributes: []string{"result"},
			Kind: "counter", Unit: "{version}",
			Help: "Versions of limits that the management server sent, by what became of them.",
			Series: []stats.Series{
				{Labels: []string{"taken"}, Value: float64(c.taken.Load())},
				{Labels: []string{"refused"}, Value: float64(c.refused.Load())},
			},
		},
		{
			Name: "weir_xds_info", Labels: []string{"version"},
			Instrument: "weir.xds.info", Attributes: []string{"version"}, Kind: "gauge", Unit: "1",
			Help:   "The version in force, as the management server names it.",
			Series: []stats.Series{{Labels: []string{version}, Value: 1}},
		},
	}
}
