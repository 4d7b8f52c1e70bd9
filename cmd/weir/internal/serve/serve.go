// Package serve is the service of "weir serve": it puts package gateway and those below it
// together in one process.
package serve

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"github.com/weir-go/weir/admin"
	"github.com/weir-go/weir/cmd/weir/internal/tracing"
	"github.com/weir-go/weir/cmd/weir/internal/xds"
	"github.com/weir-go/weir/gateway"
	"github.com/weir-go/weir/gateway/descriptors"
	"github.com/weir-go/weir/gateway/envoy"
	"github.com/weir-go/weir/headers"
	"github.com/weir-go/weir/internal/http/hostname"
	"github.com/weir-go/weir/keyfuncs"
	"github.com/weir-go/weir/limits/backends"
	"github.com/weir-go/weir/memory"
	"github.com/weir-go/weir/nethttp"
	"github.com/weir-go/weir/policy"
	"github.com/weir-go/weir/redisbackend"
	"github.com/weir-go/weir/stats"
)

// Config is what a service is made of.
type Config struct {
	Paths []string // a policy file, files of limits by descriptors, and directories of both
	XDS   XDS      // has limits by descriptors, in place of files

	Check, GRPC, Operator string   // addresses; "": none
	OperatorHosts         []string // names of Operator, beside localhost, 127.0.0.1 and ::1
	OperatorChanges       bool     // whether people and programs on this machine may change rules
	Proxies               []string
	DeniedStatus          int
	Bots                  bool          // denied checks have the members of headers.Bots
	MaxPromise            time.Duration // see headers.Options; 0: no turns are promised
	TLS                   TLS
	Socket                Socket // of the addresses that are unix sockets

	Redis     string // the URL; "": memory
	Access    RedisAccess
	Budget    time.Duration // of a decision by Redis
	Lease     time.Duration // 0: none
	Instances int
	Heartbeat bool
	MaxKeys   int // of the memory, which decides without Redis or while it fails; 0: its default

	Descriptors envoy.RateLimitOptions
	FieldNames  FieldNames // of Descriptors.Fields, and of the fields of checks

	MaxConnectionAge time.Duration // of connections to Check and GRPC; 0: no end

	DrainDelay time.Duration // how long it goes on serving once it is not ready
	Drain      time.Duration // how long requests have to end
	Logger     *slog.Logger
	Version    string // of this program, for traces
	Notify     string // the socket of systemd, which is told when the service is ready and ends; "": none

	Reload <-chan struct{} // for each value all files are read at once
	Hurry  <-chan struct{} // once it is closed, DrainDelay and Drain are over

	// Listening is called once with the addresses of Check, GRPC and Operator, nil for those that are "".
	Listening func(check, grpc, operator net.Addr)
}

// validate returns every mistake in c that no constructor reports.
func (c *Config) validate() error {
	errs := c.TLS.mistakes()
	if c.Check == "" && c.GRPC == "" {
		errs = append(errs, errors.New("nothing is served: name an address by --check or --grpc"))
	}
	if c.Lease != 0 && c.Redis == "" {
		errs = append(errs, errors.New("--lease is for Redis: name it by --redis, or leave it out"))
	}
	if c.Heartbeat && c.Redis == "" {
		errs = append(errs, errors.New("--heartbeat is for Redis: name it by --redis, or leave it out"))
	}
	if _, err := c.Socket.parse(); err != nil {
		errs = append(errs, err)
	}
	if c.Socket != (Socket{}) && !strings.HasPrefix(c.Check, "unix:") && !strings.HasPrefix(c.GRPC, "unix:") &&
		!strings.HasPrefix(c.Operator, "unix:") {
		errs = append(errs, errors.New("--socket-mode and --socket-group are for unix sockets: "+
			"name one, as in --check unix:/run/weir.sock, or leave them out"))
	}
	errs = append(errs, c.Access.mistakes(c.Redis)...)
	errs = append(errs, c.XDS.mistakes()...)
	if _, err := c.FieldNames.parse(); err != nil {
		errs = append(errs, err)
	}
	if c.MaxConnectionAge != 0 && c.MaxConnectionAge < time.Second {
		errs = append(errs, fmt.Errorf(
			"--max-connection-age must be at least 1s, or 0 for no end (got %v)", c.MaxConnectionAge))
	}
	if c.DrainDelay < 0 {
		errs = append(errs, fmt.Errorf("--drain-delay must not be negative (got %v)", c.DrainDelay))
	}
	if c.Drain < 0 {
		errs = append(errs, fmt.Errorf("--drain must not be negative (got %v)", c.Drain))
	}
	return errors.Join(errs...)
}

// service is a Config that runs.
type service struct {
	Config
	counters  *stats.Stats
	tracer    *tracing.Tracer               // nil: the environment asks for no spans
	policy    *policy.Policy[*http.Request] // nil: no policy file
	status    *policy.Status
	limiter   *nethttp.Limiter
	signers   *signers
	limits    *descriptors.Service // nil: no limits by descriptors
	watcher   *descriptors.Watcher // nil: they are not from files
	xds       *xds.Client          // nil: they are not from a server
	newcomers newcomers
	certs     *certificates
	close     []func() error // what ends after the servers
	ready     atomic.Bool
	leaving   atomic.Bool // it was ready, and ends
}

// Run serves until ctx ends. Then it is not ready, and goes on for Config.DrainDelay, so that those
// who probe it send no more. Then it closes its listeners, and serves until requests in flight
// have ended, or Config.Drain is over. It returns an error if the service cannot begin, or cannot go on.
func Run(ctx context.Context, config Config) error {
	if err := config.validate(); err != nil {
		return err
	}
	config.Descriptors.Names, _ = config.FieldNames.parse()
	s := &service{Config: config, counters: stats.New(stats.Options{Logger: config.Logger})}
	ending := time.Time{}
	defer func() { // once all else has ended
		if !ending.IsZero() {
			s.Logger.Info("serve: ended", "after", time.Since(ending).Round(time.Millisecond))
		}
	}()
	defer s.closeAll()
	defer spaceCollections()()
	if err := s.load(); err != nil {
		return err
	}
	servers, err := s.servers()
	if err != nil {
		return err
	}
	following, stop := context.WithCancel(ctx)
	var followers sync.WaitGroup
	s.follow(following, &followers)
	defer followers.Wait()
	defer stop()

	failed := make(chan error, len(servers))
	for _, one := range servers {
		go func() { failed <- one.serve() }()
	}
	select {
	case <-s.arrived():
		s.begin(servers)
		select {
		case <-ctx.Done():
			s.notify(isEnding)
			err = s.leave(servers, failed)
		case err = <-failed:
		}
	case <-ctx.Done():
		s.notify(isEnding)
	case err = <-failed:
	}
	s.ready.Store(false)
	s.leaving.Store(true)
	s.Logger.Info("serve: requests in flight end", "drain", s.Drain)
	ending = time.Now()
	s.drain(servers)
	return err
}

// arrived returns a channel that is closed once there are limits. Those of files are there already.
func (s *service) arrived() <-chan struct{} {
	if s.xds != nil {
		return s.xds.Arrived()
	}
	there := make(chan struct{})
	close(there)
	return there
}

// begin tells those who probe that the service is ready.
func (s *service) begin(servers []server) {
	s.ready.Store(true)
	for _, one := range servers {
		if one.begin != nil {
			one.begin()
		}
	}
	s.Logger.Info("serve: ready", "paths", s.Paths)
	s.notify(isReady)
}

func (s *service) notify(state string) {
	if err := tellSystemd(s.Notify, state); err != nil {
		s.Logger.Warn("serve: systemd cannot be told", "state", state, "error", err)
	}
}

// leave tells those who probe that the service ends, and goes on serving for Config.DrainDelay.
func (s *service) leave(servers []server, failed <-chan error) error {
	s.ready.Store(false)
	s.leaving.Store(true)
	for _, one := range servers {
		if one.leave != nil {
			one.leave()
		}
	}
	if s.DrainDelay == 0 {
		return nil
	}
	s.Logger.Info("serve: not ready, listeners stay open", "drain-delay", s.DrainDelay)
	timer := time.NewTimer(s.DrainDelay)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-s.Hurry:
		return nil
	case err := <-failed:
		return err
	}
}

// load reads the files, and makes what decides.
func (s *service) load() error {
	found, err := sort(s.Paths)
	if err != nil {
		return err
	}
	if err := s.trace(); err != nil {
		return err
	}
	policyPath, limitPaths := found.policy, found.limits
	s.newcomers = newcomers{directories: found.others, policy: policyPath, logger: s.Logger}
	shared, counted, fallback, err := s.backends()
	if err != nil {
		return err
	}
	options := descriptors.Options{
		Backend: counted, Fallback: fallback, Instances: s.Instances,
		MaxPromise: s.MaxPromise, Observe: s.tracer.Observe(), Logger: s.Logger,
	}
	switch {
	case limitPaths != nil && s.XDS.Address != "":
		err = fmt.Errorf("%s has limits by descriptors, and so has the server of --xds: leave one out", limitPaths[0])
	case limitPaths != nil:
		s.limits, s.watcher, err = descriptors.NewWatcher(limitPaths, options)
		s.counters.WatchPolicy(strings.Join(limitPaths, " "), s.watcher)
	case s.XDS.Address != "":
		s.limits, s.xds, err = s.XDS.subscribe(options)
		s.counters.WatchPolicy("xds "+s.XDS.Address, s.xds)
	}
	if err != nil {
		return err
	}
	if policyPath == "" {
		return s.FieldNames.suits(s.Descriptors)
	}
	s.signers = &signers{logger: s.Logger}
	names := policy.Names[*http.Request]{AnyServer: true, Agents: s.signers.key}
	if s.policy, err = policy.Load(policyPath, names); err != nil {
		return err
	}
	if err := suits(policyPath, s.policy); err != nil {
		return err
	}
	fields := headers.Options{MaxPromise: s.MaxPromise}
	if s.FieldNames != (FieldNames{}) {
		fields.Formats, fields.Custom = []headers.Format{headers.Draft6}, s.Descriptors.Names.Rename
	}
	if s.Bots {
		fields.Body = headers.Bots
	}
	config := nethttp.Config{
		Rules: s.signers.rules(s.policy), Backend: shared, Fallback: fallback, Instances: s.Instances,
		Headers: fields, Observer: s.tracer.Observer(s.counters.Limiter("checks")), Logger: s.Logger,
	}
	if _, signed := s.policy.Agents(); signed {
		if s.Bots {
			return fmt.Errorf("%s has agents, whose denials ask for a signature: leave out --bots", policyPath)
		}
		config.Denied = s.signers.denied
	}
	if s.limiter, err = nethttp.New(config); err != nil {
		return err
	}
	s.signers.apply(s.policy)
	s.status = s.policy.Status()
	s.counters.WatchPolicy(policyPath, s.status)
	if _, sheds := s.policy.Shed(); sheds {
		s.Logger.Warn("serve: shed of the policy has no effect here: a check sees no request in flight", "file", policyPath)
	}
	return nil
}

// flushing is how long spans have to reach their collector once all else has ended.
const flushing = 3 * time.Second

// trace makes the tracer, which ends last.
func (s *service) trace() (err error) {
	counts := "memory"
	if s.Redis != "" {
		counts = "redis"
	}
	s.tracer, err = tracing.New(tracing.Config{
		Version: s.Version, Backend: counts, Shadow: s.Descriptors.Shadow, Logger: s.Logger,
	})
	if err != nil {
		return err
	}
	s.close = append(s.close, func() error {
		ctx, cancel := s.within(flushing)
		defer cancel()
		s.tracer.Close(ctx)
		return nil
	})
	return nil
}

// suits returns what rules of a policy cannot do in a service in front of others.
func suits(path string, p *policy.Policy[*http.Request]) error {
	errs := []error{gateway.Suits(p.Rules())}
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	outline, err := policy.ReadOutline(path, text)
	if err != nil {
		return err
	}
	for _, rule := range outline.Rules {
		if rule.Route {
			errs = append(errs, fmt.Errorf(
				"%s:%d: rule %q: a service in front of others knows no routes of a framework: write match",
				path, rule.Line, rule.Name))
		}
	}
	return errors.Join(errs...)
}

// backends returns the backend of the policy, the one that counts by descriptors, and the fallback of both. The second
// takes no leases: a limit by unit would count their units as used.
func (s *service) backends() (shared, counted, fallback backends.Backend, err error) {
	m, err := memory.New(memory.Options{MaxKeys: s.MaxKeys})
	if err != nil {
		return nil, nil, nil, err
	}
	if s.Redis == "" {
		s.counters.WatchMemory("memory", m)
		return m, m, nil, nil
	}
	first, err := s.openRedis("redis", s.Lease, s.Heartbeat)
	if err != nil || s.Lease == 0 {
		return first, first, m, err
	}
	second, err := s.openRedis("redis without leases", 0, false)
	return first, sameFleet{second, first}, m, err
}

// sameFleet is a second backend of a process, which counts only once.
type sameFleet struct {
	*redisbackend.Backend
	first *redisbackend.Backend
}

// Instances implements [backends.InstanceCounter].
func (f sameFleet) Instances() int { return f.first.Instances() }

// Unwrap returns the second backend.
func (f sameFleet) Unwrap() backends.Backend { return f.Backend }

func (s *service) openRedis(
	name string, lease time.Duration, beats bool,
) (*redisbackend.Backend, error) {
	access, err := s.Access.open(s.Redis)
	if err != nil {
		return nil, err
	}
	b, err := redisbackend.OpenAs(s.Redis, access, redisbackend.Options{
		Budget: s.Budget, Lease: lease, Heartbeat: beats, Logger: s.Logger,
		Wrap: func(inner backends.Backend) backends.Backend { return s.counters.Backend(name, inner) },
	})
	if err != nil {
		return nil, err
	}
	s.close = append(s.close, b.Close)
	s.counters.WatchBreaker(name, b.Status)
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	if err := b.Check(ctx); err != nil {
		s.Logger.Warn("serve: Redis cannot be used as it is: until it can, rules do as their on-failure says", "error", err)
	}
	if lease > 0 {
		s.counters.WatchLeases(name, b.Leases)
	}
	return b, nil
}

func (s *service) closeAll() {
	for _, end := range slices.Backward(s.close) {
		if err := end(); err != nil {
			s.Logger.Error("serve: close", "error", err)
		}
	}
}

// follow follows the files until ctx ends.
func (s *service) follow(ctx context.Context, group *sync.WaitGroup) {
	policyFile, certificates := make(chan struct{}), make(chan struct{})
	if s.policy != nil {
		group.Go(func() {
			policy.WatchPolicy(ctx, s.policy, s.apply,
				policy.Options{Logger: s.Logger, Status: s.status, Reload: policyFile})
		})
	}
	if s.watcher != nil {
		group.Go(func() { s.watcher.Run(ctx) })
	}
	if s.xds != nil {
		group.Go(func() { s.xds.Run(ctx) })
	}
	if s.newcomers.directories != nil {
		group.Go(func() { s.newcomers.follow(ctx) })
	}
	group.Go(func() { s.certs.follow(ctx, certificates) })
	group.Go(func() {
		for {
			select {
			case <-ctx.Done():
				return
			case _, open := <-s.Reload:
				if !open {
					return
				}
			}
			s.Logger.Info("serve: files are read again", "paths", s.Paths)
			if s.watcher != nil {
				s.watcher.Reload()
			}
			if s.policy != nil {
				send(ctx, policyFile)
			}
			if s.certs != nil {
				send(ctx, certificates)
			}
		}
	})
}

// send sends a value, unless ctx ends before it is received.
func send(ctx context.Context, to chan<- struct{}) {
	select {
	case to <- struct{}{}:
	case <-ctx.Done():
	}
}

func (s *service) apply(p *policy.Policy[*http.Request]) error {
	if err := errors.Join(suits(s.status.Source(), p), s.signers.suits(p)); err != nil {
		return err
	}
	if err := s.limiter.Replace(s.signers.rules(p)); err != nil {
		return err
	}
	s.signers.apply(p)
	return nil
}

// server is one that listens.
type server struct {
	listener net.Listener
	serve    func() error
	begin    func() // tells clients that the service is ready; nil: it has no way to
	leave    func() // tells them that it is not
	end      func(context.Context)
	last     bool // it ends after the others, since it tells of them
}

// servers listens on all addresses.
func (s *service) servers() (all []server, err error) {
	if s.certs, err = newCertificates(s.TLS, s.Logger); err != nil {
		return nil, err
	}
	permissions, err := s.Socket.parse()
	if err != nil {
		return nil, err
	}
	var addresses [3]net.Addr
	makers := []func(net.Listener) (server, error){s.checks, s.grpc, s.operator}
	defer func() {
		if err != nil { // what listens already
			for _, one := range all {
				one.listener.Close()
			}
		}
	}()
	for i, address := range []string{s.Check, s.GRPC, s.Operator} {
		if address == "" {
			continue
		}
		l, err := listen(address, permissions)
		if err != nil {
			return all, err
		}
		addresses[i] = l.Addr()
		one, err := makers[i](l)
		one.listener = l
		all = append(all, one)
		if err != nil {
			return all, err
		}
	}
	if s.Listening != nil {
		s.Listening(addresses[0], addresses[1], addresses[2])
	}
	return all, nil
}

// checks serves GET /check and POST /json.
func (s *service) checks(l net.Listener) (server, error) {
	mux := http.NewServeMux()
	if s.limiter != nil {
		check, err := gateway.New(s.limiter, s.Proxies, gateway.Options{DeniedStatus: s.DeniedStatus, Logger: s.Logger})
		if err != nil {
			return server{}, err
		}
		mux.Handle("/check", s.tracer.Handler("/check", check))
	}
	if s.limits != nil {
		mux.Handle("POST /json", s.tracer.Handler("/json", envoy.JSON(s.limits, s.Descriptors)))
	}
	mux.HandleFunc("GET /healthcheck", func(w http.ResponseWriter, _ *http.Request) { s.tell(w, s.ready.Load()) })
	return s.http(l, mux, s.certs, s.MaxConnectionAge), nil
}

// http returns a server whose connections all have time-outs, and an age at most; 0: any.
func (s *service) http(l net.Listener, handler http.Handler, certs *certificates, age time.Duration) server {
	h := &http.Server{
		Handler:           s.lastOnes(handler),
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second,
		WriteTimeout:      time.Minute, // a request may wait in a leaky queue
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    64 << 10,
		ErrorLog:          slog.NewLogLogger(s.Logger.Handler(), slog.LevelWarn),
		TLSConfig:         certs.config(),
	}
	boundByBytes(h)
	limitAge(h, age)
	return server{
		serve: func() error {
			var err error
			if h.TLSConfig != nil {
				err = h.ServeTLS(l, "", "")
			} else {
				err = h.Serve(l)
			}
			if errors.Is(err, http.ErrServerClosed) {
				return nil
			}
			return err
		},
		end: func(ctx context.Context) {
			if h.Shutdown(ctx) != nil {
				h.Close()
			}
		},
	}
}

// lastOnes has connections closed after their answer once the service ends: a proxy
// that keeps them would find them closed later, in the middle of a request.
func (s *service) lastOnes(handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.leaving.Load() {
			w.Header().Set("Connection", "close")
		}
		handler.ServeHTTP(w, r)
	})
}

// grpc serves Envoy.
func (s *service) grpc(l net.Listener) (server, error) {
	more := s.tracer.ServerOptions()
	if config := s.certs.config(); config != nil {
		more = append(more, grpc.Creds(credentials.NewTLS(config)))
	}
	g, err := envoy.NewServer(envoy.ServerOptions{Logger: s.Logger, MaxConnectionAge: s.MaxConnectionAge}, more...)
	if err != nil {
		return server{}, err
	}
	if s.limits != nil {
		envoy.RegisterRateLimits(g, s.limits, s.Descriptors)
	}
	if s.limiter != nil {
		envoy.RegisterAuthorization(g, s.limiter, envoy.AuthorizationOptions{Logger: s.Logger})
	}
	health := envoy.RegisterHealth(g)
	if s.xds != nil { // until there are limits
		health.Shutdown()
	}
	open := &connections{Listener: l}
	return server{
		serve: func() error { return g.Serve(open) },
		begin: health.Resume,
		leave: health.Shutdown,
		end: func(ctx context.Context) {
			health.Shutdown() // also if the service ends since a server has failed
			ended := make(chan struct{})
			go func() {
				g.GracefulStop()
				close(ended)
			}()
			open.closeBelow(preface)
			select {
			case <-ended:
			case <-ctx.Done():
				open.closeBelow(math.MaxInt64)
				g.Stop()
				<-ended
			}
		},
	}, nil
}

// operator serves the people and programs that look after the service.
func (s *service) operator(l net.Listener) (server, error) {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { s.tell(w, true) })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) { s.tell(w, s.ready.Load()) })
	hosts := append([]string{"localhost", "127.0.0.1", "::1"}, s.OperatorHosts...)
	mux.Handle("GET /metrics", underHosts(hosts, metricsOf(func() []stats.Metric {
		all := s.counters.Snapshot().Metrics()
		if s.limits != nil {
			all = append(all, s.limits.Metrics()...)
		}
		if s.xds != nil {
			all = append(all, s.xds.Metrics()...)
		}
		return all
	})))
	sources := admin.Sources{Stats: s.counters}
	if s.limiter != nil {
		sources.Limiters, sources.Policy = map[string]admin.Limiter{"checks": s.limiter}, s.status
	}
	page, err := admin.New(local, sources, admin.Options{
		Hosts: hosts, Changes: s.OperatorChanges, Logger: s.Logger,
	})
	if err != nil {
		return server{}, err
	}
	mux.Handle("/", page)
	one := s.http(l, mux, nil, 0)
	one.last = true
	return one, nil
}

// underHosts refuses requests for other hosts, as the operator's page does: a foreign page could
// read the answers by DNS rebinding. That takes a name, so an address is any. Prometheus asks
// for the address of a pod.
func underHosts(hosts []string, handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host := hostname.Of(r.Host)
		if _, err := netip.ParseAddr(host); err != nil && !slices.Contains(hosts, host) {
			http.Error(w, "metrics are not served under this host name: add it by --operator-host",
				http.StatusMisdirectedRequest)
			return
		}
		handler.ServeHTTP(w, r)
	})
}

// local lets people on this machine see the operator's page, and change rules if Config.OperatorChanges
// is set. A unix socket has no others.
func local(r *http.Request) (admin.Person, error) {
	listener, _ := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	peer, err := keyfuncs.Peer(r)
	if unix := listener != nil && listener.Network() == "unix"; !unix && (err != nil || !peer.IsLoopback()) {
		return admin.Person{}, errors.New("the operator's page is for this machine")
	}
	return admin.Person{Name: "operator", MayChange: true}, nil
}

func (s *service) tell(w http.ResponseWriter, well bool) {
	if !well {
		http.Error(w, "not ready", http.StatusServiceUnavailable)
		return
	}
	fmt.Fprintln(w, "OK")
}

// drain ends the servers: those that decide at once, and then the others.
func (s *service) drain(servers []server) {
	ctx, cancel := s.within(s.Drain)
	defer cancel()
	for _, last := range []bool{false, true} {
		var group sync.WaitGroup
		for _, one := range servers {
			if one.last == last {
				group.Go(func() { one.end(ctx) })
			}
		}
		group.Wait()
	}
}

// within returns a context that ends after a time, or at once if the service is to hurry.
func (s *service) within(d time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	go func() {
		select {
		case <-s.Hurry:
			cancel()
		case <-ctx.Done():
		}
	}()
	return ctx, cancel
}
