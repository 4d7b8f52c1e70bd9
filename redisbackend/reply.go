package redisbackend

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"strconv"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// A script replies one string: the number of its call, and for each question numbers or an error. A reply
// is believed if it belongs to its call, if nothing is missing or left over, and if each number is one
// that the script can compute. A proxy that is out of step passes on the replies of other calls, and each
// of them looks like an answer. So a call sends a number of its own, and its reply begins with that number.
//
// go-redis writes a reply to a [redis.RawWriteToCmd] before it has allocated any of it, and closes
// the connection if that fails. So a reply that is not believed is the last of its connection.

var (
	errForeign    = errors.New("the reply is not that of this call: is a proxy out of step, or is this not Redis?")
	errImpossible = errors.New("the reply has a number that the script never computes: is this Redis or Valkey?")
	errClock      = errors.New("the server's clock has jumped by more than a day: believed once the next reply agrees")
	errUnread     = errors.New("there is no reply: a hook of the client answered in place of the server")
)

// receiver reads the reply to a call. Its error says why the reply is not believed.
type receiver interface{ receive(*reply) error }

// reply is what is left of a reply. A space stands before each number, before " !" an error, and behind
// that the end of a line.
type reply struct{ text []byte }

// number reads a number.
func (r *reply) number() (n int64, ok bool) {
	if len(r.text) < 2 || r.text[0] != ' ' {
		return 0, false
	}
	end := 1 + bytes.IndexByte(r.text[1:], ' ')
	if end == 0 {
		end = len(r.text)
	}
	n, err := strconv.ParseInt(string(r.text[1:end]), 10, 64)
	if err != nil {
		return 0, false
	}
	r.text = r.text[end:]
	return n, true
}

// error reads an error, and returns nil if a number comes next.
func (r *reply) error() error {
	text, isError := bytes.CutPrefix(r.text, []byte(" !"))
	if !isError {
		return nil
	}
	text, rest, isWhole := bytes.Cut(text, []byte("\n"))
	if !isWhole {
		return nil
	}
	r.text = rest
	return redisError(string(text))
}

// rest reads what is left.
func (r *reply) rest() string {
	text := string(r.text)
	r.text = nil
	return text
}

// hasEnded reports whether all has been read.
func (r *reply) hasEnded() bool { return len(r.text) == 0 }

// maxJump is by how much the clock of a server may differ from what it was expected to show.
const maxJump = 24 * time.Hour

// serverInstants is what is known of the clock of a server.
type serverClock struct {
	mu      sync.Mutex
	latest  clockReading
	doubted clockReading // of the reply before, which was not believed; otherwise zero
}

// serverInstant is an instant of a server, in microseconds since the Unix epoch, and when it was
// told.
type clockReading struct {
	us int64
	at time.Time
}

// believe reports whether a server may tell an instant: it is within a day of what the one before
// lets expect. A clock that has been set differs by more. So the first instant after that is not
// believed, and the next is, on another connection, if it agrees with that one.
func (s *serverClock) believe(us int64) bool {
	reading := clockReading{us, time.Now()}
	s.mu.Lock()
	defer s.mu.Unlock()
	if us <= 0 || us > never {
		return false
	}
	if s.latest.at.IsZero() || reading.agrees(s.latest) || reading.agrees(s.doubted) {
		s.latest, s.doubted = reading, clockReading{}
		return true
	}
	s.doubted = reading
	return false
}

// agrees reports whether a server may show i, if it showed an instant before.
func (r clockReading) agrees(before clockReading) bool {
	expected := before.us + r.at.Sub(before.at).Microseconds()
	return !before.at.IsZero() && max(r.us-expected, expected-r.us) <= maxJump.Microseconds()
}

const (
	maxLine = 16 << 10 // bytes
	maxText = 64 << 10 // bytes that a reply may have besides numbers: a section of INFO has a tenth of that
)

// scriptCommand sends a call of a script, and reads the reply.
type scriptCommand struct {
	redis.Cmder
	number int64 // of the call, ten digits
	most   int   // bytes of the reply, at most

	mu         sync.Mutex
	receiver   receiver // nil: the call is over, and its memory is used for another
	isReceived bool

	// What has been read of the reply. The first piece behind an end begins a new one.
	ended  bool
	pieces []byte
	reply  reply
}

func newScriptCommand(to receiver, most int) *scriptCommand {
	return &scriptCommand{receiver: to, most: most, number: 1e9 + rand.Int64N(9e9), ended: true}
}

// NoRetry implements [redis.Cmder]. A client asks it before it sends the command again.
func (c *scriptCommand) NoRetry() bool {
	c.ended = true
	return false
}

// close ends the reading, and reports whether the receiver has read the reply.
func (c *scriptCommand) close() (isReceived bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.receiver = nil
	return c.isReceived
}

// Write implements [io.Writer]. It reads a piece of the reply. An error of the server keeps the
// connection, any other closes it.
func (c *scriptCommand) Write(piece []byte) (int, error) {
	if c.ended {
		c.begin()
	}
	text := piece
	if len(c.pieces) > 0 {
		c.pieces = append(c.pieces, piece...)
		text = c.pieces
	}
	body, isWhole, err := c.parse(text)
	switch {
	case isWhole:
		err = c.receive(body)
	case err == nil && len(c.pieces) == 0:
		c.pieces = append(c.pieces, piece...)
	}
	if c.ended = isWhole || err != nil; err != nil {
		return 0, err
	}
	return len(piece), nil
}

func (c *scriptCommand) begin() {
	c.mu.Lock()
	c.isReceived = false
	c.mu.Unlock()
	c.ended, c.pieces = false, nil
}

// parse returns the string that a reply is, if all of it is there, or the error that it is.
func (c *scriptCommand) parse(text []byte) (body []byte, isWhole bool, err error) {
	line, rest, hasLine := bytes.Cut(text, []byte("\r\n"))
	switch {
	case !hasLine && len(text) <= maxLine:
		return nil, false, nil
	case !hasLine || len(line) == 0:
		return nil, false, errForeign
	case line[0] == '-' && len(rest) == 0:
		return nil, false, redisError(string(line[1:]))
	}
	n, err := strconv.Atoi(string(line[1:]))
	end := n + len("\r\n")
	switch {
	case line[0] != '$' || err != nil || n < 0 || n > c.most || len(rest) > end:
		return nil, false, errForeign
	case len(rest) < end:
		return nil, false, nil
	case string(rest[n:]) != "\r\n":
		return nil, false, errForeign
	}
	return rest[:n], true, nil
}

// receive hands on the string that a reply is.
func (c *scriptCommand) receive(body []byte) error {
	var room [20]byte
	rest, isOwn := bytes.CutPrefix(body, strconv.AppendInt(room[:0], c.number, 10))
	if !isOwn {
		return errForeign
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.receiver == nil {
		return errUnread
	}
	c.reply.text = rest
	err := c.receiver.receive(&c.reply)
	c.isReceived = err == nil || err == errImpossible
	return err
}

// readValue reads the reply to a call by a client that reads replies itself. Nothing closes its
// connection: if it is out of step, each later reply of it is an error, too.
func (c *scriptCommand) readValue(value any) error {
	text, ok := value.(string)
	if c.begin(); !ok || len(text) > c.most {
		return errForeign
	}
	c.ended = true
	return c.receive([]byte(text))
}

// redisError returns an error that a server has replied, of the type that go-redis has for most of
// them.
func redisError(text string) error { return as(redis.Nil, text) }

// as returns text in the type of like, which go-redis does not export.
func as[T ~string](_ T, text string) T { return T(text) }
