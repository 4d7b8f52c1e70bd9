package line

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"strconv"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// A script replies one string: the number of its call, and for each job numbers or an error. For
// example the reply to two takings of a fixed window of 10 a minute, one allowed and one denied:
//
//	2718281828                  the number of the call
//	1700000042500000            the instant of the decisions, in microseconds
//	1 1700000040000000 3 0 0    allowed; the window that began then had 3 units and no debt
//	0 1700000040000000 10 0 0   denied; the window of the other key had 10 units
//
// A proxy that is out of step passes on replies to other calls, which look like answers. So each
// call sends a random number, and its reply must begin with that number. Nothing may be missing or
// left over, and each number must be one that the script can compute.
//
// go-redis passes a reply to a [redis.RawWriteToCmd] before it allocates any of it, and closes the
// connection if that fails. So a reply that is not believed is the last one of its connection.

var (
	ErrForeign = errors.New("the reply is not that of this call: " +
		"is a proxy out of step, or is this not Redis?")
	errImpossible = errors.New("the reply has a number that the script never computes: " +
		"is this Redis or Valkey?")
	errClock = errors.New("the server's clock has jumped by more than a day: " +
		"believed once the next reply agrees")
	errUnread = errors.New("there is no reply: " +
		"a hook of the client answered in place of the server")
)

// Receiver reads the reply to a script. Its error says why the reply is not believed.
type Receiver interface{ Receive(*Reply) error }

// Reply is the unread rest of a reply. Each number follows a space. An error is " !", its text and
// the end of a line.
type Reply struct{ text []byte }

// Number reads a number.
func (r *Reply) Number() (n int64, ok bool) {
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

// error reads an error. It returns nil if a number comes next.
func (r *Reply) error() error {
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

// Rest reads all that is left.
func (r *Reply) Rest() string {
	text := string(r.text)
	r.text = nil
	return text
}

// hasEnded reports whether nothing is left.
func (r *Reply) hasEnded() bool { return len(r.text) == 0 }

// maxNumber is the highest number that a reply may have: scripts compute with doubles.
const maxNumber = 1<<53 - 1

// maxJump is how far the clock of a server may be from its expected reading.
const maxJump = 24 * time.Hour

// serverClock is what is known of the clock of a server.
type serverClock struct {
	mu      sync.Mutex
	latest  clockReading
	doubted clockReading // of the latest reply, if that was not believed
}

// clockReading is an instant on the clock of a server, in microseconds since the Unix epoch, and
// when its reply arrived.
type clockReading struct {
	us int64
	at time.Time
}

// believe reports whether to believe a reading of the clock. A reading is believed if it is within
// a day of the expected one. If a clock is set by more, the first reading afterwards is not
// believed. The next one is, since it agrees with the first; it comes on another connection.
func (s *serverClock) believe(us int64) bool {
	reading := clockReading{us, time.Now()}
	s.mu.Lock()
	defer s.mu.Unlock()
	if us <= 0 || us > maxNumber {
		return false
	}
	if s.latest.at.IsZero() || reading.agrees(s.latest) || reading.agrees(s.doubted) {
		s.latest, s.doubted = reading, clockReading{}
		return true
	}
	s.doubted = reading
	return false
}

// agrees reports whether a clock that showed the reading before may show r.
func (r clockReading) agrees(before clockReading) bool {
	expected := before.us + r.at.Sub(before.at).Microseconds()
	return !before.at.IsZero() && max(r.us-expected, expected-r.us) <= maxJump.Microseconds()
}

const (
	maxLine = 16 << 10 // bytes
	MaxText = 64 << 10 // bytes of a reply besides numbers: ten sections of INFO
)

// scriptCommand is the command that runs a script once, and reads the reply.
type scriptCommand struct {
	redis.Cmder
	number int64 // of the call, ten digits
	most   int   // the longest reply, in bytes

	mu         sync.Mutex
	receiver   Receiver // nil: the call is over, and its memory may be reused
	isReceived bool

	// The part of the reply that was read so far.
	ended  bool // the next piece begins another reply
	pieces []byte
	reply  Reply
}

func newScriptCommand(to Receiver, most int) *scriptCommand {
	return &scriptCommand{receiver: to, most: most, number: 1e9 + rand.Int64N(9e9), ended: true}
}

// NoRetry implements [redis.Cmder]. Clients call it before they send the command again.
func (c *scriptCommand) NoRetry() bool {
	c.ended = true
	return false
}

// close detaches the receiver. It reports whether the receiver has read the reply.
func (c *scriptCommand) close() (isReceived bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.receiver = nil
	return c.isReceived
}

// Write implements [io.Writer]. It reads a piece of the reply. The connection survives an error
// that the server replied; any other error closes it.
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

// parse returns the string in a reply if all of it has arrived, or the error in the reply.
func (c *scriptCommand) parse(text []byte) (body []byte, isWhole bool, err error) {
	line, rest, hasLine := bytes.Cut(text, []byte("\r\n"))
	switch {
	case !hasLine && len(text) <= maxLine:
		return nil, false, nil
	case !hasLine || len(line) == 0:
		return nil, false, ErrForeign
	case line[0] == '-' && len(rest) == 0:
		return nil, false, redisError(string(line[1:]))
	}
	n, err := strconv.Atoi(string(line[1:]))
	end := n + len("\r\n")
	switch {
	case line[0] != '$' || err != nil || n < 0 || n > c.most || len(rest) > end:
		return nil, false, ErrForeign
	case len(rest) < end:
		return nil, false, nil
	case string(rest[n:]) != "\r\n":
		return nil, false, ErrForeign
	}
	return rest[:n], true, nil
}

// receive passes the string in a reply to the receiver.
func (c *scriptCommand) receive(body []byte) error {
	var room [20]byte
	rest, isOwn := bytes.CutPrefix(body, strconv.AppendInt(room[:0], c.number, 10))
	if !isOwn {
		return ErrForeign
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.receiver == nil {
		return errUnread
	}
	c.reply.text = rest
	err := c.receiver.Receive(&c.reply)
	c.isReceived = err == nil || err == errImpossible
	return err
}

// readValue reads a reply from a client that parses replies itself. Nothing closes its connection:
// if that is out of step, each later reply is an error, too.
func (c *scriptCommand) readValue(value any) error {
	text, ok := value.(string)
	if c.begin(); !ok || len(text) > c.most {
		return ErrForeign
	}
	c.ended = true
	return c.receive([]byte(text))
}
