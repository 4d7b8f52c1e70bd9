package redisbackend

import (
	"context"
	"errors"
	"net"
	"strings"

	"github.com/redis/go-redis/v9"
)

// A ClusterClient sends a command again, MaxRedirects times, to find the server that
// keeps its keys: also when the connection broke before the reply came, whatever
// MaxRetries says. A Ring does the same MaxRetries times. The server may have run the
// command by then, which takes again.

// spreading is a client that spreads keys over servers.
type spreading interface {
	processor
	pipeliner
}

// unrepeatedClient is a client that spreads keys, and sends a script again only while
// no server can have run it.
type unrepeatedClient struct{ spreading }

func (c unrepeatedClient) EvalSha(ctx context.Context, digest string, keys []string, args ...any) *redis.Cmd {
	cmd := scriptCommand(ctx, "evalsha", digest, keys, args)
	_ = c.Process(ctx, unrepeatedCommand{cmd, isBatch(args)}) // is also the command's error
	return cmd
}

func (c unrepeatedClient) Eval(ctx context.Context, source string, keys []string, args ...any) *redis.Cmd {
	cmd := scriptCommand(ctx, "eval", source, keys, args)
	_ = c.Process(ctx, unrepeatedCommand{cmd, isBatch(args)})
	return cmd
}

// unrepeatedPipe is a pipeline whose scripts are not sent again either. It does not
// embed the [redis.Pipeliner]: the linker would keep wrappers of its 600 methods.
type unrepeatedPipe struct{ pipe redis.Pipeliner }

func (p unrepeatedPipe) EvalSha(ctx context.Context, digest string, keys []string, args ...any) *redis.Cmd {
	cmd := scriptCommand(ctx, "evalsha", digest, keys, args)
	_ = p.pipe.Process(ctx, unrepeatedCommand{cmd, isBatch(args)}) // only adds it
	return cmd
}

func (p unrepeatedPipe) Exec(ctx context.Context) ([]redis.Cmder, error) { return p.pipe.Exec(ctx) }

func scriptCommand(ctx context.Context, name, text string, keys []string, args []any) *redis.Cmd {
	all := make([]any, 0, 3+len(keys)+len(args))
	all = append(all, name, text, len(keys))
	for _, key := range keys {
		all = append(all, key)
	}
	cmd := redis.NewCmd(ctx, append(all, args...)...)
	cmd.SetFirstKeyPos(3)
	return cmd
}

// isBatch reports whether args have take.lua decide several requests.
func isBatch(args []any) bool {
	if len(args) != 3 {
		return false
	}
	what, _ := args[0].(string)
	return strings.HasPrefix(what, "batch")
}

// unrepeatedCommand is a command that is sent again only after an error which says
// that no server has run it.
type unrepeatedCommand struct {
	redis.Cmder
	batch bool // of requests that can be sent apart
}

// NoRetry implements [redis.Cmder]. A client asks it once there is an error, and
// asks each command of a pipeline before it sends all of them again.
func (c unrepeatedCommand) NoRetry() bool {
	err := c.Err()
	if err == nil || c.Cmder.NoRetry() {
		return true
	}
	if c.batch && redis.HasErrorPrefix(err, "TRYAGAIN") {
		return true // its slot is half moved, and those that charge one key can be decided at once
	}
	var network *net.OpError
	unsent := errors.Is(err, redis.ErrPoolTimeout) || errors.As(err, &network) && network.Op == "dial"
	return !unsent && !answers(err)
}
