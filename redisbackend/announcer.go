package redisbackend

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/weir/internal/ground/isnil"
	"github.com/weir-go/weir/limits/backends"
	"github.com/weir-go/weir/redisbackend/internal/line"
	"github.com/weir-go/weir/redisbackend/internal/wire"
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
	return errors.Join(append(errs, wire.ValidatePrefix(o.Prefix))...)
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

// Listen implements [backends.Announcer].
func (a *Announcer) Listen(heard func(backends.Announcement)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.heard = append(a.heard, heard)
	if !a.listening && !a.closed {
		a.listening = true
		a.tasks.Go(a.listen)
	}
}

const (
	subscribeTimeout = 5 * time.Second
	silenceTimeout   = 3 * time.Second // a PING follows
	listenSlice      = 250 * time.Millisecond
	minListenPause   = 100 * time.Millisecond
	maxListenPause   = 5 * time.Second
)

// listen passes on announcements of other processes until a is closed.
func (a *Announcer) listen() {
	pause, failing := minListenPause, false
	for a.ctx.Err() == nil {
		err := a.subscribed(func() {
			if failing {
				a.log().Info("weir: denials of other instances are heard again",
					"channel", a.channel)
			}
			pause, failing = minListenPause, false
		})
		if err != nil && a.ctx.Err() == nil && !failing {
			failing = true
			const message = "weir: denials of other instances are not heard: " +
				"this instance asks Redis itself"
			a.log().Warn(message, "channel", a.channel, "error", err)
		}
		select {
		case <-a.ctx.Done():
		case <-time.After(pause):
		}
		pause = min(2*pause, maxListenPause)
	}
}

func (a *Announcer) log() *slog.Logger {
	if a.logger != nil {
		return a.logger
	}
	return slog.Default()
}

// subscribed subscribes, calls begun, and passes on announcements until the subscription ends.
//
// It reads the connection itself. The channels of go-redis would subscribe again on a new
// connection. If the server refuses that, as a new node of a Cluster does, they stay silent. They
// also keep to plain channels after an upgrade to sharded ones.
//
// It reads for a short time again and again, and looks whether a is closed. To close the
// subscription meanwhile would not be faster: while go-redis connects again, it holds the lock that
// its Close needs.
func (a *Announcer) subscribed(begun func()) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = line.Panicked(v)
		}
	}()
	shard := a.shard()
	subscription, err := a.subscribe()
	if err != nil {
		return err
	}
	defer subscription.Close()
	begun()
	heardAt, asked := time.Now(), false
	for a.ctx.Err() == nil && a.shard() == shard {
		message, err := subscription.ReceiveTimeout(a.ctx, listenSlice)
		var late net.Error
		switch isLate := errors.As(err, &late) && late.Timeout(); {
		case err == nil:
			heardAt, asked = time.Now(), false
		case isLate && time.Since(heardAt) < silenceTimeout:
		case isLate && !asked:
			heardAt, asked = time.Now(), true
			if err := subscription.Ping(a.ctx); err != nil {
				return err
			}
		default:
			return err
		}
		switch m := message.(type) {
		case *redis.Subscription: // the slot of the channel moved, or go-redis connected again
			return nil
		case *redis.Message:
			a.hear(m.Payload)
		}
	}
	return nil
}

// shard returns the shard of a Ring that has the channel now, and nil for other clients. While a
// shard is down, another one has its channels. A connection to that one would live on after the
// first shard is back.
func (a *Announcer) shard() *redis.Client {
	r, ok := a.client.(line.Ring)
	if !ok {
		return nil
	}
	shard, _ := r.GetShardClientForKey(a.channel)
	return shard
}

// subscribe subscribes and waits for the confirmation of the server.
func (a *Announcer) subscribe() (*redis.PubSub, error) {
	ctx, cancel := context.WithTimeout(a.ctx, subscribeTimeout)
	defer cancel()
	confirmed := func(p *redis.PubSub) (*redis.PubSub, error) {
		_, err := p.ReceiveTimeout(ctx, subscribeTimeout)
		if err != nil {
			p.Close()
			return nil, err
		}
		return p, nil
	}
	if a.sharded {
		p, err := confirmed(a.client.SSubscribe(ctx, a.channel))
		if !unknownCommand(err) {
			return p, err
		}
	}
	return confirmed(a.client.Subscribe(ctx, a.channel))
}

// hear passes on a message of another process.
func (a *Announcer) hear(message string) {
	instance, announcements, err := decodeAnnouncements(message, time.Now())
	if err != nil {
		a.refused.Add(1)
		return
	}
	if instance == a.instance {
		return
	}
	a.received.Add(int64(len(announcements)))
	a.mu.Lock()
	heard := a.heard
	a.mu.Unlock()
	for i := range announcements {
		for _, tell := range heard {
			tell(announcements[i])
		}
	}
}

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
