package redisbackend

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"reflect"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir/limits"

	"github.com/redis/go-redis/v9"
)

// AnnouncerOptions are the options of [NewAnnouncer]. The zero value is ready to use.
type AnnouncerOptions struct {
	// Prefix starts the name of the channel: processes of equal prefixes hear each other.
	// Use that of [Options]. "": "weir".
	Prefix string

	// PerSecond is how many denials this process announces in a second at most. What comes
	// above that is dropped. 0: 1,000.
	PerSecond int

	// Logger logs when Redis cannot be listened to (a warning), and when it can be again.
	// nil: the logger that slog.Default returns at that time.
	Logger *slog.Logger
}

// Announcer is a [limits.Announcer] over the publish and subscribe commands of Redis, which
// are sharded in a Cluster of Redis 7 or later. It is safe for concurrent use. From the
// first denial cache that listens on, it has one connection and one goroutine, until Close.
//
// Instants travel on the clock of the server, of which each process knows the offset to
// within a round trip. So a denial ends elsewhere when it ends here, or up to two round
// trips earlier, however late its announcement comes.
//
// Whoever may publish on the channel may have requests denied, for as long as their limits
// ever deny one: see [remote.DenialCacheOptions]. A user of an ACL needs
// +publish +spublish +subscribe +ssubscribe +eval, the channel PREFIX:denials, and that
// name as a key.
type Announcer struct {
	client    redis.UniversalClient
	own       io.Closer // the client, if OpenAnnouncer made it; otherwise nil
	sharded   bool
	channel   string
	instance  [instanceSize]byte
	perSecond int
	logger    *slog.Logger
	clock     serverClock
	ctx       context.Context // ends with Close
	close     context.CancelFunc
	tasks     sync.WaitGroup

	mu        sync.Mutex
	closed    bool
	second    time.Time // when the second began in which quota is what is left
	quota     int
	queue     []limits.Announcement
	sending   bool
	listening bool
	heard     []func(limits.Announcement)

	sent, received, dropped, refused atomic.Int64
}

// AnnouncerCounts are what an [Announcer] has done since it was made, in denials.
type AnnouncerCounts struct {
	Sent     int64 // published
	Received int64 // of other processes
	Dropped  int64 // not published: too many in a second, or Redis did not answer
	Refused  int64 // messages of the channel that are not announcements
}

const (
	defaultAnnounced = 1_000
	announceTimeout  = time.Second
	maxAnnouncedKey  = 4 << 10 // bytes of scope and key; longer ones are dropped
	maxTogether      = 128     // announcements in a message
)

// NewAnnouncer returns an announcer on client. It does no I/O. It panics if client is nil,
// PerSecond is negative, or Prefix is not one of a [Backend].
func NewAnnouncer(client redis.UniversalClient, options AnnouncerOptions) *Announcer {
	if v := reflect.ValueOf(client); !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil() {
		panic("redisbackend: NewAnnouncer: the client is nil")
	}
	if err := options.validate(); err != nil {
		panic("redisbackend: NewAnnouncer: " + err.Error())
	}
	a := &Announcer{
		client:    client,
		channel:   cmp.Or(options.Prefix, "weir") + ":denials",
		perSecond: cmp.Or(options.PerSecond, defaultAnnounced),
		logger:    options.Logger,
	}
	_, a.sharded = client.(cluster)
	rand.Read(a.instance[:])
	a.ctx, a.close = context.WithCancel(context.Background())
	return a
}

// validate returns what is wrong with o.
func (o AnnouncerOptions) validate() error {
	if o.PerSecond < 0 {
		return fmt.Errorf("PerSecond must not be negative (got %d)", o.PerSecond)
	}
	return validatePrefix(o.Prefix)
}

// Announce implements [limits.Announcer].
func (a *Announcer) Announce(what limits.Announcement) {
	if len(what.Scope)+len(what.Key) > maxAnnouncedKey {
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
	a.queue = append(a.queue, what)
	if !a.sending {
		a.sending = true
		a.tasks.Go(a.send)
	}
}

// send publishes what is queued, until nothing is.
func (a *Announcer) send() {
	for {
		a.mu.Lock()
		n := min(len(a.queue), maxTogether)
		if n == 0 {
			a.queue, a.sending = nil, false
			a.mu.Unlock()
			return
		}
		some := a.queue[:n]
		a.queue = a.queue[n:]
		a.mu.Unlock()
		if err := a.publish(some); err != nil {
			a.dropped.Add(int64(len(some)))
		} else {
			a.sent.Add(int64(len(some)))
		}
	}
}

func (a *Announcer) publish(some []limits.Announcement) (err error) {
	defer func() { // of a hook of the client
		if v := recover(); v != nil {
			err = panicked(v)
		}
	}()
	ctx, cancel := context.WithTimeout(a.ctx, announceTimeout)
	defer cancel()
	offset, err := a.clock.of(ctx, a)
	if err != nil {
		return err
	}
	message, err := encodeAnnouncements(a.instance, some, offset, time.Now())
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

// unknownCommand reports whether a server does not have a command: sharded channels are
// new in Redis 7.
func unknownCommand(err error) bool { return redis.HasErrorPrefix(err, "unknown command") }

// Counts returns what a has done so far.
func (a *Announcer) Counts() AnnouncerCounts {
	return AnnouncerCounts{a.sent.Load(), a.received.Load(), a.dropped.Load(), a.refused.Load()}
}

// Close ends the connection that listens, and waits for it, five seconds at most where
// Redis is silent. What is announced afterwards is dropped. The caller closes the client.
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

// serverClock is the offset of the server's clock, as known by a question that is not old.
type serverClock struct {
	instants serverInstants

	mu        sync.Mutex
	known     clockOffset
	forgotten int // how often
}

// clockOffset says that the server's clock showed server, in microseconds, at an instant
// between asked and answered.
type clockOffset struct {
	asked, answered time.Time
	server          int64
}

// clockKnownFor is how long an offset is used: as long as clocks that drift by 100 parts
// per million need for a millisecond.
const clockKnownFor = 10 * time.Second

// earliest returns the least that the server's clock may show at an instant.
func (o clockOffset) earliest(at time.Time) int64 {
	return o.server + at.Sub(o.answered).Microseconds()
}

// local returns the earliest instant at which the server's clock may show us.
func (o clockOffset) local(us int64) time.Time {
	return o.asked.Add(micros(us - o.server))
}

// forget has the offset asked for anew: the server may be another.
func (c *serverClock) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.known = clockOffset{}
	c.forgotten++
}

// of returns the offset, and asks for it if the known one is old. It holds no lock meanwhile.
func (c *serverClock) of(ctx context.Context, a *Announcer) (clockOffset, error) {
	asked := time.Now()
	c.mu.Lock()
	known, forgotten := c.known, c.forgotten
	c.mu.Unlock()
	if asked.Sub(known.answered) < clockKnownFor {
		return known, nil
	}
	now := told{by: &c.instants}
	call := scriptCall{keys: []string{a.channel}, receiver: &now, most: 1}
	call.send(ctx, a.client, "eval", clockSource)
	if call.finish(); call.err != nil {
		return clockOffset{}, call.err
	}
	known = clockOffset{asked: asked, answered: time.Now(), server: now.us}
	c.mu.Lock()
	defer c.mu.Unlock()
	if forgotten == c.forgotten {
		c.known = known
	}
	return known, nil
}

// clockSource asks the server that has the channel.
const clockSource = `local t = redis.call('TIME') return { ARGV[1] + 0, t[1] * 1000000 + t[2] }`

// told is what clockSource replies.
type told struct {
	by *serverInstants
	us int64
}

// receive implements [receiver].
func (t *told) receive(r *reply) (err error) {
	t.us, err = readInstant(r, t.by)
	return err
}

var errMessage = errors.New("redisbackend: not an announcement")
