package redisbackend

import (
	"errors"
	"net"

	"github.com/redis/go-redis/v9"
)

// A ClusterClient sends a command up to MaxRedirects times again, to find the server that
// keeps its keys. It does so even if the connection breaks before the reply, whatever
// MaxRetries is. A Ring sends it up to MaxRetries times again. The server may have run the
// command already, and would take its units twice.

// unrepeatedCommand is a command that is sent again only after an error which says
// that no server has run it.
type unrepeatedCommand struct {
	redis.Cmder
	parts bool  // it can be sent in parts
	err   error // the latest that the client set
}

// SetErr implements [redis.Cmder].
func (c *unrepeatedCommand) SetErr(err error) {
	c.err = err
	c.Cmder.SetErr(err)
}

// NoRetry implements [redis.Cmder]. A client asks it once there is an error, and
// asks each command of a pipeline before it sends all of them again. An auto-pipeliner also
// asks before it sends the command. NoRetry must not call Err, which then waits for the
// reply: the goroutine that asks is the one that would send the command.
func (c *unrepeatedCommand) NoRetry() bool {
	err := c.err
	if err == nil || c.Cmder.NoRetry() {
		return true
	}
	if c.parts && redis.HasErrorPrefix(err, "TRYAGAIN") {
		return true // its slot is half moved, and those that charge one key can be decided at once
	}
	return mayHaveRun(err)
}

// mayHaveRun reports whether a server may have run a script although the call failed
// with err: no server replied, and a connection was there.
func mayHaveRun(err error) bool {
	var network *net.OpError
	unsent := errors.Is(err, redis.ErrPoolTimeout) || errors.Is(err, errDown) ||
		errors.As(err, &network) && network.Op == "dial"
	return err != nil && !unsent && !answers(err)
}
