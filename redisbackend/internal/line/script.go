package line

import (
	"context"
	"crypto/sha1"
	"encoding/hex"
	"errors"
	"strings"

	"github.com/redis/go-redis/v9"
)

// Script is a Lua script and the digest that servers know it by.
type Script struct {
	Source, Digest string

	// grouped scripts decide requests: jobs of equal form share a head and arguments, and the
	// reply begins with the instant of the decisions. See take.lua.
	grouped bool
}

// NewScript returns a script of a source, without its comments.
func NewScript(source string) Script {
	source = withoutComments(source)
	digest := sha1.Sum([]byte(source))
	return Script{Source: source, Digest: hex.EncodeToString(digest[:])}
}

// GroupedScript returns a script of requests: see Script.grouped.
func GroupedScript(source string) Script {
	s := NewScript(source)
	s.grouped = true
	return s
}

// withoutComments returns source without its comment lines, which are a third of it.
func withoutComments(source string) string {
	var b strings.Builder
	for line := range strings.Lines(source) {
		if text := strings.TrimSpace(line); text != "" && !strings.HasPrefix(text, "--") {
			b.WriteString(line)
		}
	}
	return b.String()
}

// ScriptCall is one script to run: its arguments and its outcome.
type ScriptCall struct {
	Script    *Script
	Keys      []string
	args      []any
	Once      bool // the client must not send it again
	Divisible bool // its jobs can be sent in scripts of their own
	Receiver  Receiver
	Most      int      // the longest reply, in bytes
	sources   *sources // of the server
	command   *scriptCommand
	readErr   error // from a client that parses replies itself
	Err       error // nil: the receiver has read the reply
}

// Run runs scripts, in one pipeline if there are several and the client has pipelines. A server
// that does not know a script gets its source: it was restarted, its scripts were flushed, or it
// forgets them. Each call has an error of its own.
func Run(ctx context.Context, client redis.Scripter, calls ...*ScriptCall) {
	mark := calls[0].sources.mark() // all calls are to one server, and have the same sources
	if client, ok := client.(pipeliner); ok && len(calls) > 1 {
		runTogether(ctx, client.Pipeline(), calls)
	}
	for _, c := range calls {
		if c.command == nil || c.isUnknown() { // another call may have sent the source since
			c.Run(ctx, client, "evalsha", c.Script.Digest)
		}
		if c.isUnknown() {
			c.bring(ctx, client, mark)
		}
	}
}

// bring runs c on a server that does not know its script. The call before it began at mark.
func (c *ScriptCall) bring(ctx context.Context, client redis.Scripter, mark int64) {
	if c.sources.isForgotten(c.Script, mark) && c.sources.load(ctx, client, c.Script, c.Keys[0]) {
		if c.Run(ctx, client, "evalsha", c.Script.Digest); !c.isUnknown() {
			return
		}
	}
	if c.Run(ctx, client, "eval", c.Script.Source); c.Err == nil {
		c.sources.note(c.Script)
	}
}

func runTogether(ctx context.Context, pipe redis.Pipeliner, calls []*ScriptCall) {
	defer func() { // even if a hook of the client panics
		for _, c := range calls {
			c.finish()
		}
	}()
	for _, c := range calls {
		c.send(ctx, pipe, "evalsha", c.Script.Digest)
	}
	_, _ = pipe.Exec(ctx)
}

func (c *ScriptCall) Run(ctx context.Context, client redis.Scripter, name, text string) {
	defer c.finish() // even if a hook of the client panics
	c.send(ctx, client, name, text)
}

// isUnknown reports whether the server does not know the script.
func (c *ScriptCall) isUnknown() bool {
	return c.Err != nil && redis.HasErrorPrefix(c.Err, "NOSCRIPT") // HasErrorPrefix allocates
}

// send sends c, or queues it if to is a pipeline.
func (c *ScriptCall) send(ctx context.Context, to redis.Scripter, name, text string) {
	c.command = newScriptCommand(c.Receiver, c.Most)
	client, ok := to.(processor)
	if !ok {
		eval, args := to.EvalSha, append([]any{c.command.number}, c.args...)
		if name == "eval" {
			eval = to.Eval
		}
		reply, err := eval(ctx, text, c.Keys, args...).Result()
		if err == nil {
			err = c.command.readValue(reply)
		}
		c.readErr = err
		return
	}
	words := make([]any, 0, 4+len(c.Keys)+len(c.args))
	words = append(words, name, text, len(c.Keys))
	for _, key := range c.Keys {
		words = append(words, key)
	}
	words = append(append(words, c.command.number), c.args...)
	c.command.Cmder = redis.NewRawWriteToCmd(ctx, c.command, words...)
	c.command.SetFirstKeyPos(3)
	cmd := redis.Cmder(c.command)
	if c.Once {
		cmd = unrepeatedCommand{cmd}
	}
	_ = client.Process(ctx, cmd) // c.command has the error, too
}

// finish sets the error of c. The client is done with it.
func (c *ScriptCall) finish() {
	if c.command == nil {
		return // a hook of the client panicked first
	}
	err := c.readErr
	if c.command.Cmder != nil {
		err = c.command.Err() // waits for the reply of a deferred auto-pipeliner
	}
	isReceived := c.command.close()
	switch {
	case isReceived && errors.Is(err, errImpossible): // it is the error of some jobs
		c.Err = nil
	case err != nil:
		c.Err = Advised(err)
	case isReceived:
		c.Err = nil
	default:
		c.Err = errUnread
	}
}
