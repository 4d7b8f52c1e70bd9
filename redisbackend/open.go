package redisbackend

import (
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"strings"

	"github.com/redis/go-redis/v9"
)

// Open returns a backend as [New] does, on a client of its own, made from a URL. It does no I/O:
// decisions, or [Backend.Check], report a server that cannot be reached. The URL has one of
// the forms that go-redis reads:
//
//	redis://user:password@host:6379/0                                     one server
//	rediss://host:6379                                                    the same, over TLS
//	unix://user:password@/path/to/redis.sock?db=0                         the same, over a unix socket
//	redis://host1:6379?addr=host2:6379&addr=host3:6379                    a Cluster, by some of its nodes
//	redis://host1:26379/0?master_name=mymaster&addr=host2:26379           a server that Sentinels watch
//
// The last form names Sentinels; user and password of the server itself are then
// the parameters username and password. Other parameters set fields of the options
// of go-redis: pool_size=20, dial_timeout=1s.
//
// Open sets three of them where the URL does not: a command ends with the deadline
// of its context (ContextTimeoutEnabled), is not sent again (MaxRetries: -1), and
// a refused connection is not dialed again (DialerRetries: 1), so that a decision
// falls back at once.
//
// In a user or password write / ? # and @ as %2F %3F %23 and %40.
//
// The error reports every mistake. It does not contain the URL, which may have a password.
func Open(url string, options Options) (*Backend, error) {
	client, err := clientFor(url)
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

// OpenAnnouncer returns an announcer on a client of its own, made from a URL as by [Open],
// which Close closes. It does no I/O. The error reports every mistake, and does not contain the URL.
func OpenAnnouncer(url string, options AnnouncerOptions) (*Announcer, error) {
	client, err := clientFor(url)
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
	errURL = errors.New("redisbackend: url: is not like redis://user:password@host:6379/0, rediss://host:6379 " +
		"or unix:///path/to/redis.sock")
	errEncode = errors.New("redisbackend: url: has an @ or # behind the host: write / ? # @ of a password as %2F %3F %23 %40")
)

// clientFor returns a client for a URL, or an error that does not quote it.
func clientFor(text string) (redis.UniversalClient, error) {
	u, err := url.Parse(text)
	if err != nil {
		return nil, errURL
	}
	if u.Fragment != "" { // then the host is a part of the user or password, and would be in the errors of dials
		return nil, errEncode
	}
	parameters := u.Query()
	switch {
	case parameters.Has("master_name"):
		o, err := redis.ParseFailoverURL(text)
		if err != nil {
			return nil, withoutURL(err, u)
		}
		prepare(&o.ContextTimeoutEnabled, &o.MaxRetries, &o.DialerRetries)
		return redis.NewFailoverClient(o), nil
	case parameters.Has("addr"):
		o, err := redis.ParseClusterURL(text)
		if err != nil {
			return nil, withoutURL(err, u)
		}
		prepare(&o.ContextTimeoutEnabled, &o.MaxRetries, &o.DialerRetries)
		return redis.NewClusterClient(o), nil
	default:
		o, err := redis.ParseURL(text)
		if err != nil {
			return nil, withoutURL(err, u)
		}
		prepare(&o.ContextTimeoutEnabled, &o.MaxRetries, &o.DialerRetries)
		return redis.NewClient(o), nil
	}
}

// prepare sets the three options that Open promises, unless the URL sets them.
func prepare(deadlines *bool, retries, dials *int) {
	*deadlines = true
	if *retries == 0 {
		*retries = -1
	}
	if *dials == 0 {
		*dials = 1
	}
}

// optionNames is the names of options, as go-redis lists unknown ones.
var optionNames = regexp.MustCompile(`^redis: unexpected option: ([a-z_]+(?:, [a-z_]+)*)$`)

// withoutURL returns err, about a URL, with what does not need to be secret: the names of options
// that are unknown. Behind a ? with an @ there may be the rest of a password.
func withoutURL(err error, u *url.URL) error {
	names := optionNames.FindStringSubmatch(err.Error())
	switch {
	case strings.Contains(u.RawQuery, "@"):
		return errEncode
	case names == nil:
		return errURL
	}
	return fmt.Errorf("redisbackend: url: unexpected option: %.48s: see the fields of redis.Options", names[1])
}
