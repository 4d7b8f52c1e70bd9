package redisbackend

import (
	"context"
	"strings"

	"github.com/redis/go-redis/v9"
)

// A ClusterClient sends a command up to MaxRedirects times again, to find the server that
// keeps its keys. It does so even if the connection breaks before the reply, whatever
// MaxRetries is. A Ring sends it up to MaxRetries times again. The server may have run the
// command already, and would take its units twice.

// sender is a client that sends commands by themselves and in pipelines.
type sender interface {
	processor
	pipeliner
}

// unrepeatedClient is a client that sends a script again only while no server can have run
// it.
type unrepeatedClient struct{ sender }

func (c unrepeatedClient) EvalSha(ctx context.Context, digest string, keys []string, args ...any) *redis.Cmd {
	cmd := scriptCommand(ctx, "evalsha", digest, keys, args)
	_ = c.Process(ctx, unrepeated(cmd, isBatch(args))) // cmd has the error, too
	return cmd
}

func (c unrepeatedClient) Eval(ctx context.Context, source string, keys []string, args ...any) *redis.Cmd {
	cmd := scriptCommand(ctx, "eval", source, keys, args)
	_ = c.Process(ctx, unrepeated(cmd, isBatch(args)))
	return cmd
}

// unrepeatedPipe is a pipeline whose scripts are not sent again either. It does not
// embed the [redis.Pipeliner]: the linker would keep wrappers of its 600 methods.
type unrepeatedPipe struct{ pipe redis.Pipeliner }

func (p unrepeatedPipe) EvalSha(ctx context.Context, digest string, keys []string, args ...any) *redis.Cmd {
	cmd := scriptCommand(ctx, "evalsha", digest, keys, args)
	_ = p.pipe.Process(ctx, unrepeated(cmd, isBatch(args))) // only queues it
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

// isBatch reports whether args are those of a batch, which decides several requests.
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
	batch bool  // of requests that can be sent apart
	err   error // the latest that the client set
}

// unrepeated returns cmd as an unrepeatedCommand.
func unrepeated(cmd *redis.Cmd, batch bool) redis.Cmder {
	return &unrepeatedCommand{Cmder: cmd, batch: batch}
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
	if c.batch && redis.HasErrorPrefix(err, "TRYAGAIN") {
		return true // its slot is half moved, and those that charge one key can be decided at once
	}
	return mayHaveRun(err)
}
