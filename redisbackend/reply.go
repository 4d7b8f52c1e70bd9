package redisbackend

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"strconv"
	"sync"

	"github.com/redis/go-redis/v9"
)

// A reply is believed if it belongs to its call, if nothing is missing or left over, and if each
// number is one that the script can compute. A proxy that is out of step passes on the replies of
// other calls, and each of them looks like an answer. So a call sends a number of its own, and its
// reply begins with that number.
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

// reply is the parts of a reply, behind the number of its call.
type reply struct {
	numbers []int64
	others  map[int]any // errors and texts, by their places in numbers, which are 0
	next    int         // the place of the part to be read
}

// number reads a number.
func (r *reply) number() (n int64, ok bool) {
	if r.next == len(r.numbers) || r.others[r.next] != nil {
		return 0, false
	}
	r.next++
	return r.numbers[r.next-1], true
}

// error reads an error, and returns nil if the next part is no error.
func (r *reply) error() error {
	err, ok := r.others[r.next].(error)
	if ok {
		r.next++
	}
	return err
}

// text reads a text.
func (r *reply) text() (text string, ok bool) {
	if text, ok = r.others[r.next].(string); ok {
		r.next++
	}
	return text, ok
}

// hasEnded reports whether all has been read.
func (r *reply) hasEnded() bool { return r.next == len(r.numbers) }

const (
	maxLine = 16 << 10 // bytes
	maxText = 64 << 10 // bytes: a section of INFO has a tenth of that
)

// scriptCommand sends a call of a script, and reads the reply.
type scriptCommand struct {
	redis.Cmder
	number int64 // of the call, ten digits
	most   int   // parts behind the number, at most
	texts  bool  // some of which may be texts

	mu         sync.Mutex
	receiver   receiver // nil: the call is over, and its memory is used for another
	isReceived bool

	// What has been read of the reply. The first piece behind an end begins a new one.
	ended    bool
	left     int // parts; 0: their number comes first
	textLeft int // bytes of a text, its line end included
	line     []byte
	reply    reply

	lineRoom    [24]byte
	numbersRoom [5]int64
}

func newScriptCommand(to receiver, most int, texts bool) *scriptCommand {
	return &scriptCommand{receiver: to, most: most, texts: texts, number: 1e9 + rand.Int64N(9e9), ended: true}
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
	for rest := piece; len(rest) > 0; {
		err := errForeign // what is behind the end is left over
		if !c.ended {
			rest, err = c.read(rest)
		}
		if err != nil {
			c.ended = true
			return 0, err
		}
	}
	return len(piece), nil
}

func (c *scriptCommand) begin() {
	c.mu.Lock()
	c.isReceived = false
	c.mu.Unlock()
	c.ended, c.left, c.textLeft = false, 0, 0
	c.line, c.reply = c.lineRoom[:0], reply{numbers: c.numbersRoom[:0]}
}

// read reads a line or a text, or as much of it as piece has, and returns the rest.
func (c *scriptCommand) read(piece []byte) (rest []byte, err error) {
	n, isText := c.textLeft, c.textLeft > 0
	if !isText {
		n = bytes.IndexByte(piece, '\n') + 1
	}
	isWhole := n > 0 && n <= len(piece)
	if !isWhole {
		n = len(piece)
	}
	c.line = append(c.line, piece[:n]...)
	if isText {
		c.textLeft -= n
	}
	if !isWhole && (isText || len(c.line) <= maxLine) {
		return nil, nil
	}
	line, ends := bytes.CutSuffix(c.line, []byte("\r\n"))
	if !isWhole || !ends || len(line) == 0 && !isText {
		return nil, errForeign
	}
	c.line = c.line[:0]
	switch {
	case isText:
		err = c.add(0, string(line))
	case c.left == 0:
		err = c.readLength(line)
	default:
		err = c.readPart(line)
	}
	return piece[n:], err
}

// readLength reads the line that a reply begins with.
func (c *scriptCommand) readLength(line []byte) error {
	if line[0] == '-' {
		return redisError(string(line[1:]))
	}
	n, err := strconv.Atoi(string(line[1:]))
	if line[0] != '*' || err != nil || n < 1 || n-1 > c.most {
		return errForeign
	}
	if c.left = n; n > cap(c.reply.numbers) {
		c.reply.numbers = make([]int64, 0, n)
	}
	return nil
}

// readPart reads the line that a part begins with.
func (c *scriptCommand) readPart(line []byte) error {
	if line[0] == '-' {
		return c.add(0, redisError(string(line[1:])))
	}
	n, err := strconv.ParseInt(string(line[1:]), 10, 64)
	switch {
	case err != nil:
	case line[0] == ':':
		return c.add(n, nil)
	case line[0] == '$' && c.texts && n >= 0 && n <= maxText:
		c.textLeft = int(n) + len("\r\n")
		return nil
	}
	return errForeign
}

// add adds a part of the reply, and hands the reply on if it is the last.
func (c *scriptCommand) add(n int64, other any) error {
	r := &c.reply
	if other != nil {
		if r.others == nil {
			r.others = make(map[int]any)
		}
		r.others[len(r.numbers)] = other
	}
	r.numbers = append(r.numbers, n)
	if len(r.numbers) == 1 {
		if n, ok := r.number(); !ok || n != c.number {
			return errForeign
		}
	}
	if c.left--; c.left > 0 {
		return nil
	}
	c.ended = true
	return c.receive()
}

func (c *scriptCommand) receive() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.receiver == nil {
		return errUnread
	}
	err := c.receiver.receive(&c.reply)
	c.isReceived = err == nil || err == errImpossible
	return err
}

// readValue reads the reply to a call by a client that reads replies itself. Nothing closes its
// connection: if it is out of step, each later reply of it is an error, too.
func (c *scriptCommand) readValue(value any) error {
	parts, ok := value.([]any)
	if c.begin(); !ok || len(parts) < 1 || len(parts)-1 > c.most {
		return errForeign
	}
	c.left = len(parts)
	for _, part := range parts {
		var err error
		switch part := part.(type) {
		case int64:
			err = c.add(part, nil)
		case error:
			err = c.add(0, part)
		case string:
			err = c.add(0, part)
		default:
			err = errForeign
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// redisError returns an error that a server has replied, of the type that go-redis has for most of
// them.
func redisError(text string) error { return as(redis.Nil, text) }

// as returns text in the type of like, which go-redis does not export.
func as[T ~string](_ T, text string) T { return T(text) }
