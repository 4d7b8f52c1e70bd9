package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/weir-go/weir/cmd/weir/internal/serve"
	"github.com/weir-go/weir/gateway/descriptors"
	"github.com/weir-go/weir/policy"
)

// serveOptions are the flags of serve.
type serveOptions struct {
	serve.Config
	logJSON bool
}

// newServe returns the command serve.
func newServe() *cobra.Command {
	var o serveOptions
	c := withExitStatus(&cobra.Command{
		Use:   "serve [flags] <file or directory>...",
		Short: "Limit requests for nginx, Envoy, Traefik, Caddy and HAProxy",
		Long: `serve decides requests for proxies that ask before they pass a request on.
docs/gateway.md of the repository has a configuration for each.

A policy file limits requests as they are. nginx (auth_request), Traefik (ForwardAuth),
Caddy (forward_auth) and HAProxy ask GET /check of --check, and Envoy (ext_authz) asks
--grpc. Files and directories of limits by descriptors, in the format of
envoyproxy/ratelimit, answer the rate limit filter of Envoy on --grpc, and POST /json of
--check. There may be both. --xds takes limits by descriptors from a management server, as
Envoy Gateway is one: the service is ready once they have come.

Files are read again when they change. One that has a mistake changes nothing: the log
says so, and /metrics does.

Counts are kept in the memory of the process. --redis keeps them in Redis, for several
processes; the environment variable WEIR_REDIS_URL has the same, and no other user of the
machine sees it. While Redis fails, rules do as their on-failure says.

The fields that describe a request are believed only from --proxy. A check from
elsewhere, or one that contradicts itself, is answered 503.

--operator serves the operator's page to this machine, /metrics to Prometheus, /healthz
and /readyz. An address may be a unix socket, as in unix:/run/weir.sock. "" turns one off.

OTEL_EXPORTER_OTLP_ENDPOINT and the other variables of OpenTelemetry have a span of each
check sent to a collector. Without them there are none.

SIGHUP has all files read at once. A unit of systemd may be of Type=notify.

SIGTERM and interrupt end the service: it is not ready from then on, closes its listeners
after --drain-delay, and requests in flight then have --drain to end. A second signal ends
it at once.`,
		Example: `  weir serve weir.yaml
  weir serve --denied-status 403 --proxy 10.0.0.0/8 weir.yaml
  weir serve --grpc unix:/run/weir.sock --check "" limits/
  weir serve --xds envoy-gateway:18001 --node envoy-ratelimit --xds-state xds.json
  weir serve --redis redis://127.0.0.1:6379 --instances 3 weir.yaml limits/
  weir serve --redis redis://127.0.0.1:6379 --heartbeat weir.yaml`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 && o.XDS.Address == "" {
				return errors.New("name a policy file, or files of limits by descriptors, as in: weir serve weir.yaml")
			}
			return nil
		},
		ValidArgsFunction: policyFiles,
		RunE:              func(c *cobra.Command, args []string) error { return o.run(c, args) },
	}, `  0  the service has ended because it was told to
  2  it cannot begin, or cannot go on: a file, an address, or the command line has a mistake`)
	f := c.Flags()
	f.SortFlags = false
	f.StringVar(&o.Check, "check", ":8080",
		"serve checks over HTTP, and POST /json, on this `address`")
	f.StringVar(&o.GRPC, "grpc", ":8081", "serve Envoy on this `address`")
	f.StringVar(&o.Operator, "operator", "127.0.0.1:6070",
		"serve the operator's page, metrics and probes on this `address`")
	f.StringSliceVar(&o.OperatorHosts, "operator-host", nil,
		"serve the operator's page and metrics under this `name`, too, and not only under localhost; "+
			"may be there several times")
	f.BoolVar(&o.OperatorChanges, "operator-changes", false,
		"let people and programs on this machine change rules and limits of keys for a time, on the operator's page "+
			"and by PUT and DELETE")
	f.StringSliceVar(&o.Proxies, "proxy", []string{"127.0.0.0/8", "::1", "unix"},
		"believe checks over HTTP from this `range` of addresses, or from unix sockets; may be there several times")
	f.IntVar(&o.DeniedStatus, "denied-status", 0,
		"answer denied checks over HTTP with this `status`; nginx needs 403 (default 429)")
	f.BoolVar(&o.Bots, "bots", false,
		"write denied checks so that libraries of bots read them, as those for Telegram do")
	f.DurationVar(&o.MaxPromise, "max-promise", 0,
		"tell each of those who wait under one key a turn of its own, up to this `time` ahead, 2s to 24h, "+
			"instead of all the least wait")
	f.StringVar(&o.Redis, "redis", "",
		"count in Redis at this `URL`; otherwise that of WEIR_REDIS_URL")
	f.StringVar(&o.Access.CA, "redis-tls-ca", "",
		"believe Redis at rediss:// if one in `file` has signed its certificate, instead of those of the system")
	f.StringVar(&o.Access.Cert, "redis-tls-cert", "",
		"show Redis the certificate in `file`, which is read again for each connection")
	f.StringVar(&o.Access.Key, "redis-tls-key", "", "the key of that certificate, in `file`")
	f.StringVar(&o.Access.PasswordFile, "redis-password-file", "",
		"the password for Redis, in `file`, which is read again for each connection; the URL has the user")
	f.DurationVar(&o.Budget, "redis-budget", 250*time.Millisecond,
		"wait at most this `time` for Redis")
	f.DurationVar(&o.Lease, "lease", 0,
		"hold units of busy keys of the policy for this `time`, 10ms to 1s: the same in all processes")
	f.IntVar(&o.Instances, "instances", 0,
		"while Redis fails, divide every limit among so many processes at least (a `number`)")
	f.BoolVar(&o.Heartbeat, "heartbeat", false,
		"count the processes in Redis, and while it fails divide every limit among them")
	f.IntVar(&o.MaxKeys, "max-keys", 0,
		"how many keys the memory counts at once, without Redis or while it fails (a `number`; default 262144)")
	f.BoolVar(&o.Descriptors.Fields, "fields", false,
		"add RateLimit-Limit, -Remaining, -Reset and Retry-After to answers to descriptors")
	f.StringVar(&o.FieldNames.Limit, "limit-field", "",
		"the `name` of the field with the units of a limit; with one of these three names, checks have these fields "+
			"in place of RateLimit and RateLimit-Policy (default RateLimit-Limit)")
	f.StringVar(&o.FieldNames.Remaining, "remaining-field", "",
		"the `name` of the field with the units that are left (default RateLimit-Remaining)")
	f.StringVar(&o.FieldNames.Reset, "reset-field", "",
		"the `name` of the field with the seconds until the limit is whole (default RateLimit-Reset)")
	f.BoolVar(&o.Descriptors.Metadata, "metadata", false,
		"add dynamic metadata to answers to descriptors")
	f.BoolVar(&o.Descriptors.Shadow, "shadow", false,
		"let all requests with descriptors pass, and count what would be denied")
	f.StringVar(&o.XDS.Address, "xds", "",
		"take limits by descriptors from the management server at this `address`, such as Envoy Gateway's, "+
			"and not from files")
	f.StringVar(&o.XDS.Node, "node", "",
		"ask that server for the limits of this `node`; Envoy Gateway has envoy-ratelimit")
	f.StringVar(&o.XDS.CA, "xds-tls-ca", "",
		"encrypt the connection to that server, and believe it if one in `file` has signed its certificate")
	f.StringVar(&o.XDS.Cert, "xds-tls-cert", "",
		"show that server the certificate in `file`, which is read again for each connection")
	f.StringVar(&o.XDS.Key, "xds-tls-key", "", "the key of that certificate, in `file`")
	f.StringVar(&o.XDS.Name, "xds-tls-name", "",
		"the `name` in the certificate of that server (default its host)")
	f.StringVar(&o.XDS.State, "xds-state", "",
		"keep what that server sent last in `file`, and begin with it while the server is away")
	f.StringVar(&o.TLS.Cert, "tls-cert", "",
		"encrypt --check and --grpc with the certificate in `file`, which is read again when it changes")
	f.StringVar(&o.TLS.Key, "tls-key", "", "the key of the certificate, in `file`")
	f.StringVar(&o.TLS.ClientCA, "tls-client-ca", "",
		"ask proxies for a certificate that one in `file` has signed")
	f.StringVar(&o.Socket.Mode, "socket-mode", "",
		"the `mode` of unix sockets, in octal (default 0660 with --socket-group, else that of the umask)")
	f.StringVar(&o.Socket.Group, "socket-group", "",
		"the `group` of unix sockets, a name or a number: its members may connect")
	f.DurationVar(&o.MaxConnectionAge, "max-connection-age", 0,
		"have proxies open a new connection to --check and --grpc after this `time`, at least 1s, so that they "+
			"spread over the processes of a new deployment")
	f.DurationVar(&o.DrainDelay, "drain-delay", 0,
		"at the end serve on for this `time`, not ready, until those who probe have seen it")
	f.DurationVar(&o.Drain, "drain", 10*time.Second, "give requests in flight this `time` at the end")
	f.BoolVar(&o.logJSON, "log-json", false, "log JSON instead of text")
	for _, name := range []string{
		"tls-cert", "tls-key", "tls-client-ca", "redis-tls-ca", "redis-tls-cert", "redis-tls-key",
		"xds-tls-ca", "xds-tls-cert", "xds-tls-key",
	} {
		c.MarkFlagFilename(name, "pem", "crt", "key")
	}
	for _, name := range []string{
		"check", "grpc", "operator", "operator-host", "proxy", "denied-status", "redis",
		"redis-budget", "lease", "instances",
		"max-keys", "xds", "node", "xds-tls-name", "socket-mode", "socket-group", "drain-delay", "drain",
		"max-connection-age", "limit-field", "remaining-field", "reset-field",
	} {
		c.RegisterFlagCompletionFunc(name, noFiles)
	}
	return c
}

func (o *serveOptions) run(c *cobra.Command, paths []string) error {
	o.Paths = paths
	if u, err := url.Parse(o.Redis); err == nil && u.User != nil {
		if _, both := u.User.Password(); both { // a name alone is no secret
			return errors.New("--redis has a password, and command lines are seen by others: " +
				"put the URL into WEIR_REDIS_URL, or the password into --redis-password-file")
		}
	}
	if o.Redis == "" {
		o.Redis = os.Getenv("WEIR_REDIS_URL")
	}
	o.Notify, o.Version = os.Getenv("NOTIFY_SOCKET"), version()
	var handler slog.Handler = slog.NewTextHandler(c.ErrOrStderr(), nil)
	if o.logJSON {
		handler = slog.NewJSONHandler(c.ErrOrStderr(), nil)
	}
	o.Logger = slog.New(handler)
	slog.SetDefault(o.Logger)
	o.Listening = func(check, grpc, operator net.Addr) {
		for _, one := range []struct {
			what    string
			address net.Addr
		}{{"check", check}, {"grpc", grpc}, {"operator", operator}} {
			if one.address != nil {
				o.Logger.Info("serve: listening", "for", one.what, "address", one.address.String())
			}
		}
	}
	ctx, stop := o.followSignals(c.Context())
	defer stop()
	err := serve.Run(ctx, o.Config)
	if len(policy.Mistakes(err)) > 0 || len(descriptors.Mistakes(err)) > 0 {
		return fmt.Errorf("a file has mistakes:\n%w", err)
	}
	return err
}

// followSignals returns a context that the first signal to end ends, and sets what the other
// signals send. They are followed until stop is called.
func (o *serveOptions) followSignals(parent context.Context) (ctx context.Context, stop func()) {
	ctx, cancel := context.WithCancel(parent)
	ends, reloads := make(chan os.Signal, 2), make(chan os.Signal, 1)
	signal.Notify(ends, os.Interrupt, syscall.SIGTERM)
	signal.Notify(reloads, syscall.SIGHUP)
	reload, hurry, stopped := make(chan struct{}, 1), make(chan struct{}), make(chan struct{})
	o.Reload, o.Hurry = reload, hurry
	go func() {
		for count := 0; ; {
			select {
			case <-stopped:
				return
			case <-reloads:
				select {
				case reload <- struct{}{}:
				default: // one is pending, and reads what is there then
				}
			case <-ends:
				if count++; count == 1 {
					cancel()
				} else if count == 2 {
					close(hurry)
				}
			}
		}
	}()
	return ctx, func() {
		signal.Stop(ends)
		signal.Stop(reloads)
		close(stopped)
		cancel()
	}
}
