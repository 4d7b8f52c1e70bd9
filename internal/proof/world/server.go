package world

import (
	"errors"
	"io"
	"sync"
	"time"

	"github.com/alicebob/miniredis/v2"
)

// Server is a Redis server with a clock of its own.
type Server struct {
	world *World
	name  string

	mu      sync.Mutex
	redis   *miniredis.Miniredis
	down    bool
	stopped bool
	offset  time.Duration // its clock is off by this
	drift   float64       // seconds a second
	since   time.Time     // when drift began
	replica map[string]copied
}

// newServer returns a server whose clock is off.
func newServer(w *World, name string, off time.Duration) *Server {
	s := &Server{world: w, name: name, since: time.Now(), offset: off}
	s.redis = s.bootLocked()
	return s
}

// bootLocked returns a server without data. It needs one connection to start.
func (s *Server) bootLocked() *miniredis.Miniredis {
	m := miniredis.NewMiniRedis()
	m.SetTime(s.nowLocked())
	m.ClockTTL(true)
	if c, err := m.Dial(); err != nil {
		s.world.t.Fatal(err)
	} else {
		c.Close()
	}
	return m
}

// now returns the time of the server's clock.
func (s *Server) now() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.nowLocked()
}

func (s *Server) nowLocked() time.Time {
	now := time.Now()
	return now.Add(s.offset + time.Duration(s.drift*float64(now.Sub(s.since))))
}

// tick sets the server's clock. It is called before each command.
func (s *Server) tick() {
	pulse.reads.Add(1)
	pulse.age.Store(int64(s.world.age()))
	s.world.trace.look()
	s.mu.Lock()
	redis, now := s.redis, s.nowLocked()
	s.mu.Unlock()
	redis.SetTime(now)
}

// listener returns the server, or nil if it is down.
func (s *Server) listener() *miniredis.Miniredis {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.down {
		return nil
	}
	return s.redis
}

func (s *Server) isStopped() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stopped
}

// Step moves the clock.
func (s *Server) Step(by time.Duration) {
	s.mu.Lock()
	s.offset += by
	s.mu.Unlock()
}

// Drift makes the clock gain drift seconds a second from now on.
func (s *Server) Drift(drift float64) {
	s.mu.Lock()
	now := time.Now()
	s.offset += time.Duration(s.drift * float64(now.Sub(s.since)))
	s.drift, s.since = drift, now
	s.mu.Unlock()
}

// Stop stops the server, as SIGSTOP does: connections stay open, and the server does not answer.
func (s *Server) Stop() { s.setStopped(true) }

// Continue continues the server. It reads all bytes that have arrived meanwhile.
func (s *Server) Continue() { s.setStopped(false) }

func (s *Server) setStopped(stopped bool) {
	s.mu.Lock()
	s.stopped = stopped
	s.mu.Unlock()
	for _, p := range s.world.pathsTo(s) {
		for _, c := range p.connections() {
			c.server.in.setStopped(stopped)
		}
	}
}

// Kill ends the server and its connections. Its data are lost.
func (s *Server) Kill() {
	s.kill()
	s.world.trace.flushed()
}

func (s *Server) kill() {
	s.world.trace.look()
	s.mu.Lock()
	s.down, s.stopped = true, false
	old := s.redis
	s.mu.Unlock()
	for _, p := range s.world.pathsTo(s) {
		p.cut(io.EOF)
	}
	old.Close()
}

// Start starts a server that was killed, without data.
func (s *Server) Start() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.down {
		s.redis, s.down = s.bootLocked(), false
	}
}

// copied is a value with the instant at which it expires, by the clock of the server.
type copied struct {
	text    string
	members map[string]float64 // of a sorted set
	until   time.Time          // zero: never
}

// Replicate copies the data of the server, for Promote.
func (s *Server) Replicate() {
	s.tick()
	s.world.trace.replicated(s.copy)
}

func (s *Server) copy() {
	replica := make(map[string]copied)
	for _, key := range s.redis.Keys() {
		c := copied{}
		if ttl := s.redis.TTL(key); ttl > 0 {
			c.until = s.now().Add(ttl)
		}
		switch kind := s.redis.Type(key); kind {
		case "string":
			c.text, _ = s.redis.Get(key)
		case "zset":
			c.members = s.membersOf(key)
		default:
			s.world.t.Fatalf("no replica of a %s", kind)
		}
		replica[key] = c
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.replica = replica
}

// Promote ends the server. Its replica takes over under the same name, with the data that were
// replicated last.
func (s *Server) Promote() {
	s.kill()
	s.world.trace.promoted(s.replace)
}

// replace puts the replica in the place of the server.
func (s *Server) replace() {
	s.mu.Lock()
	defer s.mu.Unlock()
	replica, now := s.bootLocked(), s.nowLocked()
	for key, c := range s.replica {
		left := c.until.Sub(now)
		if !c.until.IsZero() && left <= 0 {
			continue
		}
		if c.members == nil {
			replica.Set(key, c.text)
		}
		for member, score := range c.members {
			replica.ZAdd(key, score, member)
		}
		if !c.until.IsZero() {
			replica.SetTTL(key, left)
		}
	}
	s.redis, s.down = replica, false
}

// instances is the key that counts processes: see docs/redis.md.
const instances = "weir:instances"

// held returns how many unexpired units the keys of concurrency limits hold.
func (s *Server) held() (n int) {
	s.tick()
	now := s.now()
	for _, key := range s.redis.Keys() {
		if s.redis.Type(key) != "zset" || key == instances {
			continue
		}
		for _, until := range s.membersOf(key) {
			if time.UnixMicro(int64(until)).After(now) {
				n++
			}
		}
	}
	return n
}

// membersOf returns a copy of a sorted set: miniredis hands out its own, which changes meanwhile.
func (s *Server) membersOf(key string) map[string]float64 {
	members := make(map[string]float64)
	names, err := s.redis.ZMembers(key)
	for _, name := range names {
		if members[name], err = s.redis.ZScore(key, name); err != nil {
			break
		}
	}
	if err != nil && !errors.Is(err, miniredis.ErrKeyNotFound) { // the key has just expired
		s.world.t.Fatal(err)
	}
	return members
}
