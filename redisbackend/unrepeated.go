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

// unrepeatedCommand is a command that the client does not send again, whatever its error. It still follows
// redirections, and looks for a connection again.
type unrepeatedCommand struct{ redis.Cmder }

// NoRetry implements [redis.Cmder].
func (unrepeatedCommand) NoRetry() bool { return true }

// mayHaveRun reports whether a server may have run a script although the call failed with err. A
// ClusterClient repeats the commands of a pipeline that were redirected or had no connection. If one
// of them then gets no reply, those behind it keep the error of the first attempt.
func (ls *lines) mayHaveRun(err error) bool {
	var network *net.OpError
	switch {
	case err == nil || errors.Is(err, errDown):
		return false
	case answers(err):
		return redis.HasErrorPrefix(err, "MOVED") || redis.HasErrorPrefix(err, "ASK")
	case errors.Is(err, redis.ErrPoolTimeout) || errors.As(err, &network) && network.Op == "dial":
		return ls.redirects
	}
	return true
}
