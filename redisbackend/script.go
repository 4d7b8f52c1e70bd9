package redisbackend

import (
	"context"
	"crypto/sha1"
	_ "embed"
	"encoding/hex"

	"github.com/redis/go-redis/v9"
)

var (
	//go:embed plain.lua
	plainSource string
	//go:embed state.lua
	stateSource string
	//go:embed take.lua
	takeSource string
	//go:embed giveback.lua
	giveBackSource string
	//go:embed check.lua
	checkSource string
	//go:embed reset.lua
	resetSource string
)

var (
	takeScript     = newScript(plainSource + stateSource + takeSource)
	giveBackScript = newScript(stateSource + giveBackSource)
	checkScript    = newScript(checkSource)
	resetScript    = newScript(resetSource)
)

// script is a Lua script and the digest by which a server knows it.
type script struct{ source, digest string }

func newScript(source string) script {
	digest := sha1.Sum([]byte(source))
	return script{source, hex.EncodeToString(digest[:])}
}

// run runs s by its digest. A server that does not know s, because it has been
// restarted or its scripts have been flushed, is sent the source.
func (s script) run(ctx context.Context, client redis.Scripter, keys []string, args ...any) *redis.Cmd {
	reply := client.EvalSha(ctx, s.digest, keys, args...)
	if redis.HasErrorPrefix(reply.Err(), "NOSCRIPT") {
		return client.Eval(ctx, s.source, keys, args...)
	}
	return reply
}

// runOnce is run for a script that must not run twice, though clients send a
// command again if the connection breaks before its reply.
func (s script) runOnce(ctx context.Context, client processor, key string, args ...any) *redis.Cmd {
	process := func(name, text string) *redis.Cmd {
		cmd := redis.NewCmd(ctx, append([]any{name, text, 1, key}, args...)...)
		cmd.SetFirstKeyPos(3)
		_ = client.Process(ctx, once{cmd}) // is also the command's error, once it is there
		return cmd
	}
	reply := process("evalsha", s.digest)
	if redis.HasErrorPrefix(reply.Err(), "NOSCRIPT") {
		return process("eval", s.source)
	}
	return reply
}

// once is a command that is sent at most once.
type once struct{ *redis.Cmd }

// NoRetry implements [redis.Cmder].
func (once) NoRetry() bool { return true }
