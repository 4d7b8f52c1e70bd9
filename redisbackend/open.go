package redisbackend

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"strings"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// Open returns a backend as [New] does, on a client of its own, made from a URL. It does no I/O:
// decisions, or [Backend.Check], report a server that cannot be reached. go-redis reads these
// forms of URLs:
//
//	redis://user:password@host:6379/0                            one server
//	rediss://host:6379                                           over TLS
//	unix://user:password@/path/to/redis.sock?db=0                over a unix socket
//	redis://host1:6379?addr=host2:6379&addr=host3:6379           a Cluster, by some of its nodes
//	redis://host1:26379/0?master_name=mymaster&addr=host2:26379  a server watched by Sentinels
//
// In the last form the hosts are Sentinels. The user and password of the server are then the
// parameters username and password. For a Cluster go-redis uses database 0, and another one in the
// URL is a mistake, as are two databases in one URL, and parameters that have replicas asked. Other
// parameters set options of go-redis: pool_size=20, dial_timeout=1s.
//
// Open sets three options that the URL leaves out, so that a decision fails at once: a command
// ends with the deadline of its context (ContextTimeoutEnabled), is not sent again (MaxRetries:
// -1), and a refused connection is not dialed again (DialerRetries: 1). The client sends nothing
// but what weir asks for. It does not tell the server its name (DisableIdentity), asks for no
// maintenance notifications, and in a Cluster it does not ask COMMAND with each decision
// (DisableRoutingPolicies).
//
// In a user or password write / ? # and @ as %2F %3F %23 and %40.
//
// The error reports every mistake. It does not contain the URL, which may have a password.
func Open(url string, options Options) (*Backend, error) {
	return OpenAs(url, Access{}, options)
}

// Access is what a URL cannot say about a connection to Redis. With the zero Access all is as the
// URL says.
type Access struct {
	// TLS is used for the connections of a URL rediss://, such as one with a RootCAs or a client's
	// certificate of its own. An empty ServerName is the host of the URL. nil: the defaults of
	// go-redis.
	TLS *tls.Config

	// Credentials returns the user and password of a new connection, so they may expire: what is
	// connected stays so. User and password of the URL are then ignored. An error fails the
	// connection, is logged, and must not contain a secret. It must be safe for concurrent use.
	// Sentinels are not asked by it. nil: those of the URL.
	Credentials func(context.Context) (user, password string, err error)
}

// OpenAs is [Open] with an [Access].
func OpenAs(url string, access Access, options Options) (*Backend, error) {
	client, err := clientFor(url, access)
	if err != nil {
		return nil, errors.Join(err, options.validate())
	}
	b, err := newBackend(client, options)
	if err != nil {
		client.Close()
		return nil, err
	}
	b.own = client
	return b, nil
}

// OpenAnnouncer returns an announcer on a client of its own, made from a URL as in [Open].
// [Announcer.Close] closes the client. It does no I/O. The error reports every mistake, and does
// not contain the URL.
func OpenAnnouncer(url string, options AnnouncerOptions) (*Announcer, error) {
	client, err := clientFor(url, Access{})
	if err != nil {
		return nil, errors.Join(err, options.validate())
	}
	a, err := NewAnnouncer(client, options)
	if err != nil {
		client.Close()
		return nil, err
	}
	a.own = client
	return a, nil
}

var (
	errURL = errors.New("redisbackend: url: is not like redis://user:password@host:6379/0, " +
		"rediss://host:6379 or unix:///path/to/redis.sock")
	errEncode = errors.New("redisbackend: url: has an @ or # behind the host: " +
		"write / ? # @ of a password as %2F %3F %23 %40")
	errTwoDatabases = errors.New("redisbackend: url: names two databases: remove the number behind " +
		"the host, or db=")
	errReplicas = errors.New("redisbackend: url: decisions are made by masters: remove read_only=, " +
		"replica_only=, route_by_latency= and route_randomly=")
	errDatabase = errors.New("redisbackend: url: with addr= it is a Cluster, where go-redis uses " +
		"database 0: remove the number behind the host")
)

// clientFor returns a client for a URL. Its error does not quote the URL.
func clientFor(text string, access Access) (redis.UniversalClient, error) {
	u, err := url.Parse(text)
	if err != nil {
		return nil, errURL
	}
	if u.Fragment != "" { // the host is then part of a password, and dial errors would show it
		return nil, errEncode
	}
	parameters := u.Query()
	switch {
	case parameters.Has("db") && u.Scheme != "unix" && strings.Trim(u.Path, "/") != "":
		return nil, errTwoDatabases // go-redis ignores the first
	case asksReplicas(parameters):
		return nil, errReplicas
	}
	switch {
	case parameters.Has("master_name"):
		o, err := redis.ParseFailoverURL(text)
		if err != nil {
			return nil, withoutURL(err, u)
		}
		prepare(&o.ContextTimeoutEnabled, &o.MaxRetries, &o.DialerRetries)
		o.DisableIdentity = o.IdentitySuffix == "" // maintenance notifications are disabled anyway
		if o.TLSConfig, err = access.over(o.TLSConfig); err != nil {
			return nil, err
		}
		o.CredentialsProviderContext = access.Credentials
		if o.DialerRetries == 1 { // otherwise the URL has the client dial again
			o.Dialer = dialerOf(o.DialTimeout, o.TLSConfig)
		}
		return redis.NewFailoverClient(o), nil
	case parameters.Has("addr"):
		o, err := redis.ParseClusterURL(text)
		if err != nil {
			return nil, withoutURL(err, u)
		}
		if u.Path != "" && u.Path != "/" && u.Path != "/0" { // go-redis ignores it
			return nil, errDatabase
		}
		prepare(&o.ContextTimeoutEnabled, &o.MaxRetries, &o.DialerRetries)
		o.DisableRoutingPolicies = true // otherwise it asks COMMAND with each decision: see checkRouting
		o.DisableIdentity, o.MaintNotificationsConfig = true, unasked()
		if o.TLSConfig, err = access.over(o.TLSConfig); err != nil {
			return nil, err
		}
		o.CredentialsProviderContext = access.Credentials
		if o.DialerRetries == 1 { // otherwise the URL has the client dial again
			o.Dialer = dialerOf(o.DialTimeout, o.TLSConfig)
		}
		return redis.NewClusterClient(o), nil
	default:
		o, err := redis.ParseURL(text)
		if err != nil {
			return nil, withoutURL(err, u)
		}
		prepare(&o.ContextTimeoutEnabled, &o.MaxRetries, &o.DialerRetries)
		o.DisableIdentity, o.MaintNotificationsConfig = true, unasked()
		if o.TLSConfig, err = access.over(o.TLSConfig); err != nil {
			return nil, err
		}
		o.CredentialsProviderContext = access.Credentials
		if o.DialerRetries == 1 { // otherwise the URL has the client dial again
			o.Dialer = dialerOf(o.DialTimeout, o.TLSConfig)
		}
		return redis.NewClient(o), nil
	}
}

// asksReplicas reports whether parameters of a URL have a client send commands to replicas. In a
// Cluster it then asks COMMAND with each decision. With Sentinels it panics, or nothing decides.
func asksReplicas(parameters url.Values) bool {
	for _, name := range []string{"read_only", "replica_only", "route_by_latency", "route_randomly"} {
		for _, value := range parameters[name] {
			if value != "" && value != "0" && value != "false" {
				return true
			}
		}
	}
	return false
}

// over returns the TLS of a client whose URL says the TLS given, nil for none.
func (a Access) over(said *tls.Config) (*tls.Config, error) {
	switch {
	case a.TLS == nil:
		return said, nil
	case said == nil:
		return nil, errors.New("redisbackend: Access.TLS is for TLS: write rediss:// in the URL")
	}
	c := a.TLS.Clone()
	c.ServerName = cmp.Or(c.ServerName, said.ServerName)
	c.MinVersion = cmp.Or(c.MinVersion, said.MinVersion)
	c.InsecureSkipVerify = c.InsecureSkipVerify || said.InsecureSkipVerify // skip_verify of the URL
	return c, nil
}

// prepare sets the three options that Open promises, except for those that the URL sets.
func prepare(deadlines *bool, retries, dials *int) {
	*deadlines = true
	if *retries == 0 {
		*retries = -1
	}
	if *dials == 0 {
		*dials = 1
	}
}

// unasked has a client ask for no maintenance notifications. Open-source Redis does not know the
// command, and a user with few rights may not send it.
func unasked() *maintnotifications.Config {
	return &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
}

// optionNames finds the names of unknown options in an error of go-redis.
var optionNames = regexp.MustCompile(`^redis: unexpected option: ([a-z_]+(?:, [a-z_]+)*)$`)

// withoutURL replaces err, an error about a URL, by one without secrets: it may name unknown
// options. Behind a ? with an @ there may be the rest of a password.
func withoutURL(err error, u *url.URL) error {
	names := optionNames.FindStringSubmatch(err.Error())
	switch {
	case strings.Contains(u.RawQuery, "@"):
		return errEncode
	case names == nil:
		return errURL
	}
	return fmt.Errorf(
		"redisbackend: url: unexpected option: %.48s: see the fields of redis.Options", names[1])
}
