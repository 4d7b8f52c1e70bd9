package redisbackend

import (
	"context"
	"errors"
	"net"

	"github.com/redis/go-redis/v9"
)

// A ClusterClient sends a command again, MaxRedirects times, to find the server that
// keeps its keys: also when the connection broke before the reply came, whatever
// MaxRetries says. The server may have run the command by then, which takes again.

// unrepeatedCluster is a ClusterClient that sends a command again only while no server
// can have run it.
type unrepeatedCluster struct{ cluster }

func (c unrepeatedCluster) EvalSha(ctx context.Context, digest string, keys []string, args ...any) *redis.Cmd {
	cmd := scriptCommand(ctx, "evalsha", digest, keys, args)
	_ = c.Process(ctx, cmd) // is also the command's error
	return cmd
}

func (c unrepeatedCluster) Eval(ctx context.Context, source string, keys []string, args ...any) *redis.Cmd {
	cmd := scriptCommand(ctx, "eval", source, keys, args)
	_ = c.Process(ctx, cmd)
	return cmd
}

func (c unrepeatedCluster) Process(ctx context.Context, cmd redis.Cmder) error {
	return c.cluster.Process(ctx, unrepeatedCommand{cmd})
}

// unrepeatedPipe is a pipeline whose scripts are not sent again either. It does not
// embed the [redis.Pipeliner]: the linker would keep wrappers of its 600 methods.
type unrepeatedPipe struct{ pipe redis.Pipeliner }

func (p unrepeatedPipe) EvalSha(ctx context.Context, digest string, keys []string, args ...any) *redis.Cmd {
	cmd := scriptCommand(ctx, "evalsha", digest, keys, args)
	_ = p.pipe.Process(ctx, unrepeatedCommand{cmd}) // only adds it
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

// unrepeatedCommand is a command that is sent again only after an error which says
// that no server has run it.
type unrepeatedCommand struct{ redis.Cmder }

// NoRetry implements [redis.Cmder]. A client asks it once there is an error, and
// asks each command of a pipeline before it sends all of them again.
func (c unrepeatedCommand) NoRetry() bool {
	err := c.Err()
	if err == nil || c.Cmder.NoRetry() {
		return true
	}
	var network *net.OpError
	unsent := errors.Is(err, redis.ErrPoolTimeout) || errors.As(err, &network) && network.Op == "dial"
	return !unsent && !answers(err)
}
