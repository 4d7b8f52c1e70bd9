package redisbackend

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/weir/limits/backends"
	"github.com/weir-go/weir/redisbackend/internal/line"
)

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
