package redisbackend

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/weir/internal/ground/isnil"
	"github.com/weir-go/weir/limits/backends"
	"github.com/weir-go/weir/redisbackend/internal/line"
)

// AnnouncerOptions are the options of [NewAnnouncer]. The zero value is ready to use.
type AnnouncerOptions struct {
	// Prefix starts the name of the channel. Processes with the same prefix hear each other. Use
	// the one of [Options]. "": "weir".
	Prefix string

	// PerSecond is how many denials this process announces in a second at most. It drops any
	// others. 0: 1,000.
	PerSecond int

	// Logger logs a warning when Redis cannot be listened to, and information when it can be
	// again. nil: the logger that slog.Default returns at that time.
	Logger *slog.Logger
}

// Announcer is a [backends.Announcer] over the publish and subscribe commands of Redis. In a
// Cluster of Redis 7 or later the channel is sharded. An Announcer is safe for concurrent use.
// Once a denial cache listens, it has one connection and one goroutine, until Close.
//
// A denial is published once. A message that is lost is not sent again: processes that missed it
// ask their backend themselves. A message says how long its denial still lasts, and receivers
// count from its arrival. So a denial ends elsewhere later by the time that its message took.
//
// A user who may publish on the channel can have requests denied, for MaxAge after each message:
// see [remote.DenialCacheOptions]. A user needs +publish +spublish +subscribe +ssubscribe and the
// channel PREFIX:denials.
type Announcer struct {
	client    redis.UniversalClient
	own       io.Closer // the client, if OpenAnnouncer made it; otherwise nil
	sharded   bool
	channel   string
	instance  [instanceSize]byte
	perSecond int
	logger    *slog.Logger
	ctx       context.Context // ends with Close
	close     context.CancelFunc
	tasks     sync.WaitGroup

	mu        sync.Mutex
	closed    bool
	second    time.Time // start of the second that quota belongs to
	quota     int       // announcements left in it
	queue     []backends.Announcement
	sending   bool
	listening bool
	heard     []func(backends.Announcement)

	sent, received, dropped, refused atomic.Int64
}

// AnnouncerCounts counts denials since an [Announcer] was made.
type AnnouncerCounts struct {
	Sent     int64 // published
	Received int64 // from other processes
	Dropped  int64 // not published: too many in a second, or Redis did not answer
	Refused  int64 // messages on the channel that are not announcements
}

const (
	defaultAnnounced = 1_000
	announceTimeout  = time.Second
	maxAnnouncedKey  = 4 << 10 // bytes of scope and key; longer ones are dropped
	maxTogether      = 128     // announcements in one message
)

// NewAnnouncer returns an announcer on client, or an error that reports every mistake in the
// arguments. It does no I/O. A [Backend] with [Options].Announce has an announcer already.
func NewAnnouncer(client redis.UniversalClient, options AnnouncerOptions) (*Announcer, error) {
	err := options.validate()
	if isnil.Of(client) {
		err = errors.Join(fmt.Errorf(
			"redisbackend: client: is nil (got %T): pass a go-redis client", client), err)
	}
	if err != nil {
		return nil, err
	}
	a := &Announcer{
		client:    client,
		channel:   cmp.Or(options.Prefix, "weir") + ":denials",
		perSecond: cmp.Or(options.PerSecond, defaultAnnounced),
		logger:    options.Logger,
	}
	_, a.sharded = client.(line.Cluster)
	rand.Read(a.instance[:])
	a.ctx, a.close = context.WithCancel(context.Background())
	return a, nil
}

// MustNewAnnouncer is [NewAnnouncer] for arguments that the program sets. It panics if they have
// a mistake.
func MustNewAnnouncer(client redis.UniversalClient, options AnnouncerOptions) *Announcer {
	return must(NewAnnouncer(client, options))
}

// validate returns every mistake in o.
func (o AnnouncerOptions) validate() error {
	var errs []error
	if o.PerSecond < 0 {
		errs = append(errs, fmt.Errorf(
			"redisbackend: per second: must be positive, or 0 for %d (got %d)",
			defaultAnnounced, o.PerSecond))
	}
	return errors.Join(append(errs, validatePrefix(o.Prefix))...)
}

// Announce implements [backends.Announcer].
func (a *Announcer) Announce(announcement backends.Announcement) {
	if len(announcement.Scope)+len(announcement.Key) > maxAnnouncedKey {
		a.dropped.Add(1)
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	now := time.Now()
	if now.Sub(a.second) >= time.Second {
		a.second, a.quota = now, a.perSecond
	}
	if a.quota == 0 || a.closed || len(a.queue) >= a.perSecond {
		a.dropped.Add(1)
		return
	}
	a.quota--
	a.queue = append(a.queue, announcement)
	if !a.sending {
		a.sending = true
		a.tasks.Go(a.send)
	}
}

// send publishes queued announcements until none is left.
func (a *Announcer) send() {
	for {
		a.mu.Lock()
		n := min(len(a.queue), maxTogether)
		if n == 0 {
			a.queue, a.sending = nil, false
			a.mu.Unlock()
			return
		}
		denials := a.queue[:n]
		a.queue = a.queue[n:]
		a.mu.Unlock()
		if err := a.publish(denials); err != nil {
			a.dropped.Add(int64(len(denials)))
		} else {
			a.sent.Add(int64(len(denials)))
		}
	}
}

func (a *Announcer) publish(denials []backends.Announcement) (err error) {
	defer func() { // a hook of the client may panic
		if v := recover(); v != nil {
			err = line.Panicked(v)
		}
	}()
	ctx, cancel := context.WithTimeout(a.ctx, announceTimeout)
	defer cancel()
	message, err := encodeAnnouncements(a.instance, denials, time.Now())
	if err != nil {
		return err
	}
	if a.sharded {
		if err = a.client.SPublish(ctx, a.channel, message).Err(); !unknownCommand(err) {
			return err
		}
	}
	return a.client.Publish(ctx, a.channel, message).Err()
}

// unknownCommand reports whether a server does not know a command. Sharded channels are new in
// Redis 7.
func unknownCommand(err error) bool { return redis.HasErrorPrefix(err, "unknown command") }

// Counts returns counts since a was made.
func (a *Announcer) Counts() AnnouncerCounts {
	return AnnouncerCounts{a.sent.Load(), a.received.Load(), a.dropped.Load(), a.refused.Load()}
}

// Close ends the connection that listens and waits for that, five seconds at most if Redis is
// silent. Later announcements are dropped. The caller of [NewAnnouncer] closes the client.
func (a *Announcer) Close() error {
	a.mu.Lock()
	a.closed = true
	a.mu.Unlock()
	a.close()
	a.tasks.Wait()
	if a.own == nil {
		return nil
	}
	return a.own.Close()
}
