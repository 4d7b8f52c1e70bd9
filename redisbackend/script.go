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
	//go:embed arithmetic.lua
	arithmeticSource string
	//go:embed bucket.lua
	bucketSource string
	//go:embed window.lua
	windowSource string
	//go:embed anchored_window.lua
	anchoredWindowSource string
	//go:embed ban.lua
	banSource string
	//go:embed sliding_log.lua
	slidingLogSource string
	//go:embed concurrent.lua
	concurrentSource string
	//go:embed debt.lua
	debtSource string
	//go:embed products.lua
	productsSource string
	//go:embed decide.lua
	decideTemplate string
	//go:embed encoding.lua
	encodingSource string
	//go:embed bucket_ring.lua
	bucketRingSource string
	//go:embed state.lua
	stateSource string
	//go:embed take.lua
	takeSource string
	//go:embed general.lua
	generalSource string
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

// Scripts are put together from files: a line "--- name" in one is replaced by the piece of that name. The
// file of a family starts with its piece of decide.lua; behind a line "--- more" it has functions
// that few requests need.
var (
	families = []string{bucketSource, windowSource, anchoredWindowSource, banSource, slidingLogSource, concurrentSource}

	decideSource = with(decideTemplate,
		"bucket", before(bucketSource),
		"window", before(windowSource),
		"anchored window", before(anchoredWindowSource),
		"ban", before(banSource),
		"concurrent", before(concurrentSource))

	statesSource = encodingSource + with(stateSource, "decide", decideSource) + bucketRingSource + afterEach(families)

	takeScript = newScript("local given = ARGV[1] ~= '1' and ARGV[1] or nil\n" + arithmeticSource + with(takeSource,
		"decide", decideSource,
		"products", productsSource,
		"held", section(concurrentSource, "held"),
		"hold", section(concurrentSource, "hold"),
		"general", "if not muldiv then\n"+productsSource+"end\n"+debtSource+statesSource+generalSource))
	settleScript = newScript("local given, written = ARGV[2 * #KEYS + 1], nil\n" +
		arithmeticSource + productsSource + debtSource + statesSource + settleSource)
	renewScript   = newScript(renewSource)
	releaseScript = newScript(releaseSource)
	checkScript   = newScript(checkSource)
	resetScript   = newScript(resetSource)
)

// with returns source with pieces in the places of their names.
func with(source string, pieces ...string) string {
	for i := 0; i < len(pieces); i += 2 {
		pieces[i] = "--- " + pieces[i] + "\n"
	}
	return strings.NewReplacer(pieces...).Replace(source)
}

// section returns what is between the line of a name and the next one.
func section(source, name string) string {
	_, source, _ = strings.Cut(source, "--- "+name+"\n")
	return before(source)
}

// before returns what is before the first line of a name.
func before(source string) string {
	source, _, _ = strings.Cut(source, "\n--- ")
	return source + "\n"
}

func afterEach(sources []string) (all string) {
	for _, source := range sources {
		all += section(source, "more")
	}
	return all
}

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

// pipeliner is a client that can send several commands at once.
type pipeliner interface{ Pipeline() redis.Pipeliner }

// scriptCall is one call of a script.
type scriptCall struct {
	keys  []string
	args  []any
	once  bool // it is sent again only if no server can have run it
	parts bool // it can be sent in parts
	reply *redis.Cmd
}

// run makes calls of s, in one pipeline if there are several and the client has pipelines. A server that
// does not know s, because it was restarted or its scripts were flushed, is sent the source. Each
// reply has an error of its own.
func (s script) run(ctx context.Context, client redis.Scripter, calls ...*scriptCall) {
	if client, ok := client.(pipeliner); ok && len(calls) > 1 {
		pipe := client.Pipeline()
		for _, c := range calls {
			c.send(ctx, pipe, "evalsha", s.digest)
		}
		_, _ = pipe.Exec(ctx)
	}
	for _, c := range calls {
		if c.isUnknown() { // an earlier call may have taught the server
			c.send(ctx, client, "evalsha", s.digest)
		}
		if c.isUnknown() {
			c.send(ctx, client, "eval", s.source)
		}
	}
}

// isUnknown reports whether c was not sent to a server that knows the script.
func (c *scriptCall) isUnknown() bool {
	return c.reply == nil || redis.HasErrorPrefix(c.reply.Err(), "NOSCRIPT")
}

// send sends c, or queues it if to is a pipeline.
func (c *scriptCall) send(ctx context.Context, to redis.Scripter, name, text string) {
	client, ok := to.(processor)
	if !ok && name == "eval" {
		c.reply = to.Eval(ctx, text, c.keys, c.args...)
		return
	} else if !ok {
		c.reply = to.EvalSha(ctx, text, c.keys, c.args...)
		return
	}
	all := make([]any, 0, 3+len(c.keys)+len(c.args))
	all = append(all, name, text, len(c.keys))
	for _, key := range c.keys {
		all = append(all, key)
	}
	c.reply = redis.NewCmd(ctx, append(all, c.args...)...)
	c.reply.SetFirstKeyPos(3)
	cmd := redis.Cmder(c.reply)
	if c.once {
		cmd = &unrepeatedCommand{Cmder: cmd, parts: c.parts}
	}
	_ = client.Process(ctx, cmd) // the reply has the error, too
}
