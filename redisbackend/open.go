package redisbackend

import (
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// Open returns a backend on a client of its own, made from a URL. It does no I/O:
// a server that cannot be reached is found out by decisions, or by
// [Backend.Check]. The URL has one of the forms that go-redis reads:
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
// It returns an error if the URL has none of these forms or an option contains
// braces. The error does not contain the URL, which may have a password.
func Open(url string, options Options) (*Backend, error) {
	client, err := clientFor(url)
	if err != nil {
		return nil, fmt.Errorf("redisbackend: Open: %w", err)
	}
	if err := mistakes(client, options); err != nil {
		client.Close()
		return nil, fmt.Errorf("redisbackend: Open: %w", err)
	}
	b := New(client, options)
	b.own = client
	return b, nil
}

// Close closes the client if [Open] made it. First it waits, for a second at most,
// until what is to be given back has been; what has not by then stays taken. After
// that decisions fail. It may be called while decisions are made. The client that
// [New] was given is its caller's: then Close does nothing and returns nil.
func (b *Backend) Close() error {
	if b.own == nil {
		return nil
	}
	timer := time.NewTimer(giveBackBudget)
	defer timer.Stop()
	select {
	case <-b.giveBacks.idle():
	case <-timer.C:
	}
	return b.own.Close()
}

// ownClient is a client that Open makes.
type ownClient interface {
	redis.Scripter
	io.Closer
}

var errURL = errors.New("the URL is not like redis://user:password@host:6379/0, rediss://host:6379 or unix:///path/to/redis.sock")

// clientFor returns a client for a URL, or an error that does not quote it.
func clientFor(text string) (ownClient, error) {
	u, err := url.Parse(text)
	if err != nil {
		return nil, errURL
	}
	parameters := u.Query()
	switch {
	case parameters.Has("master_name"):
		o, err := redis.ParseFailoverURL(text)
		if err != nil {
			return nil, withoutURL(err)
		}
		prepare(&o.ContextTimeoutEnabled, &o.MaxRetries, &o.DialerRetries)
		return redis.NewFailoverClient(o), nil
	case parameters.Has("addr"):
		o, err := redis.ParseClusterURL(text)
		if err != nil {
			return nil, withoutURL(err)
		}
		prepare(&o.ContextTimeoutEnabled, &o.MaxRetries, &o.DialerRetries)
		return redis.NewClusterClient(o), nil
	default:
		o, err := redis.ParseURL(text)
		if err != nil {
			return nil, withoutURL(err)
		}
		prepare(&o.ContextTimeoutEnabled, &o.MaxRetries, &o.DialerRetries)
		return redis.NewClient(o), nil
	}
}

// prepare sets what Open promises, unless the URL has set it.
func prepare(deadlines *bool, retries, dials *int) {
	*deadlines = true
	if *retries == 0 {
		*retries = -1
	}
	if *dials == 0 {
		*dials = 1
	}
}

// withoutURL returns what err says, if that is about the name of a parameter.
func withoutURL(err error) error {
	if text := err.Error(); strings.HasPrefix(text, "redis: unexpected option: ") {
		return errors.New(strings.TrimPrefix(text, "redis: ") + ": see the fields of redis.Options for parameters")
	}
	return errURL
}
