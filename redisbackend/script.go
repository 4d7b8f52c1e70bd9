package redisbackend

import (
	"context"
	"crypto/sha1"
	_ "embed"
	"encoding/hex"
	"strings"

	"github.com/redis/go-redis/v9"
)

var (
	//go:embed fastpath.lua
	fastPathSource string
	//go:embed pass.lua
	passSource string
	//go:embed arithmetic.lua
	arithmeticSource string
	//go:embed encoding.lua
	encodingSource string
	//go:embed bucket_ring.lua
	bucketRingSource string
	//go:embed bucket.lua
	bucketSource string
	//go:embed window.lua
	windowSource string
	//go:embed anchored_window.lua
	anchoredWindowSource string
	//go:embed sliding_log.lua
	slidingLogSource string
	//go:embed concurrent.lua
	concurrentSource string
	//go:embed ban.lua
	banSource string
	//go:embed state.lua
	stateSource string
	//go:embed take.lua
	takeSource string
	//go:embed settle.lua
	settleSource string
	//go:embed renew.lua
	renewSource string
	//go:embed release.lua
	releaseSource string
	//go:embed check.lua
	checkSource string
	//go:embed reset.lua
	resetSource string
)

// algorithmsSource is what all scripts on states share. A file uses only what the
// files before it define.
var algorithmsSource = arithmeticSource + encodingSource +
	bucketRingSource + bucketSource + windowSource + anchoredWindowSource + slidingLogSource + banSource +
	concurrentSource + stateSource

var (
	takeScript    = newScript(fastPathSource + passSource + algorithmsSource + takeSource)
	settleScript  = newScript(algorithmsSource + settleSource)
	renewScript   = newScript(renewSource)
	releaseScript = newScript(releaseSource)
	checkScript   = newScript(checkSource)
	resetScript   = newScript(resetSource)
)

// script is a Lua script and the digest by which a server knows it.
type script struct{ source, digest string }

func newScript(source string) script {
	source = withoutComments(source)
	digest := sha1.Sum([]byte(source))
	return script{source, hex.EncodeToString(digest[:])}
}

// withoutComments returns source without comment lines: a third of what servers are sent
// and parse.
func withoutComments(source string) string {
	var b strings.Builder
	for line := range strings.Lines(source) {
		if text := strings.TrimSpace(line); text != "" && !strings.HasPrefix(text, "--") {
			b.WriteString(line)
		}
	}
	return b.String()
}

// run runs s by its digest. If the server does not know s, because it was restarted or its
// scripts were flushed, run sends the source.
func (s script) run(ctx context.Context, client redis.Scripter, keys []string, args ...any) *redis.Cmd {
	reply := client.EvalSha(ctx, s.digest, keys, args...)
	if redis.HasErrorPrefix(reply.Err(), "NOSCRIPT") {
		return client.Eval(ctx, s.source, keys, args...)
	}
	return reply
}

// runOnce is run for a script that must not run twice. Otherwise a client repeats a command
// if the connection breaks before the reply.
func (s script) runOnce(ctx context.Context, client processor, key string, args ...any) *redis.Cmd {
	process := func(name, text string) *redis.Cmd {
		cmd := redis.NewCmd(ctx, append([]any{name, text, 1, key}, args...)...)
		cmd.SetFirstKeyPos(3)
		_ = client.Process(ctx, noRetry{cmd}) // cmd has the error, too
		return cmd
	}
	reply := process("evalsha", s.digest)
	if redis.HasErrorPrefix(reply.Err(), "NOSCRIPT") {
		return process("eval", s.source)
	}
	return reply
}

// noRetry is a command that the client sends at most once.
type noRetry struct{ *redis.Cmd }

// NoRetry implements [redis.Cmder].
func (noRetry) NoRetry() bool { return true }
