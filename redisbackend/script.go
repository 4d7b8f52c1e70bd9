package redisbackend

import (
	"context"
	"crypto/sha1"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"
)

//go:embed *.lua
var files embed.FS

// file returns the text of a Lua file.
func file(name string) string {
	return string(must(files.ReadFile(name + ".lua")))
}

// A script is put together from files. A line "--- name" of a file is replaced by another file or
// by a text. Functions are then made only in the calls that need them:
//
//	takeScript    clock, take with one, writes, charge and quick_read inside: enough for most calls
//	              families, products, serial, bucket_ring: where a limit needs them
//	              debt, state, convert, read: for a state that quick_read does not read
//	settleScript  clock, products, bucket_ring, serial, debt, state with families and convert,
//	              settle
var (
	families    = familyChain()
	stateSource = file("debt") +
		replace(file("state"), "families", families, "convert", file("convert"))

	neededProducts = "if not muldiv then\n" + file("products") + "end\n"
	neededRing     = "if not noteLevel then\n" + file("bucket_ring") + "end\n"

	takeLocals = "local given, settles = ARGV[2], false\n"
	takeScript = newScript(takeLocals + file("clock") + replace(file("take"),
		"one", replace(file("one"), "families", families, "products", file("products")),
		"writes", file("writes"),
		"charge", replace(file("charge"), "families", families, "products", file("products")),
		"quick_read", replace(file("quick_read"), "bucket_ring", file("bucket_ring")),
		"serial", file("serial"),
		"bucket_ring", file("bucket_ring"),
		"states", "(function()\n"+neededProducts+neededRing+stateSource+file("read")+"end)()\n"))

	settleLocals = "local given, settles, written, isSure = ARGV[2 * #KEYS + 2], true, nil, nil\n"
	settleScript = newScript(settleLocals +
		file("clock") + file("products") + file("bucket_ring") + file("serial") +
		"local errorOf, noteTaken, write\n" +
		"local function writeText(key, text, expiry) redis.call('SET', key, text, 'PX', expiry) end\n" +
		stateSource + file("settle"))
	beatScript    = newScript(file("beat"))
	renewScript   = newScript(file("renew"))
	releaseScript = newScript(file("release"))
	checkScript   = newScript(file("check"))
	resetScript   = newScript(file("reset"))
)

// familyChain returns an if statement over letter. For each family it includes the family's file.
func familyChain() string {
	var b strings.Builder
	word := "if"
	for _, f := range familyFiles() {
		letters := strings.Join(strings.Split(f.letters, ""), "' or letter == '")
		fmt.Fprintf(&b, "%s letter == '%s' then\n%s", word, letters, file(f.name))
		word = "elseif"
	}
	return b.String() + "end\n"
}

// familyFile is the file of a family, and the letters of its algorithms.
type familyFile struct{ name, letters string }

// familyFiles returns the files of families in the order of the algorithms.
func familyFiles() (found []familyFile) {
	for _, a := range algorithms {
		i := slices.IndexFunc(found, func(f familyFile) bool { return f.name == a.file })
		switch {
		case a.file == "": // a number that no algorithm has
		case i < 0:
			found = append(found, familyFile{a.file, string(a.letter)})
		default:
			found[i].letters += string(a.letter)
		}
	}
	return found
}

// replace returns source with lines "--- name" replaced: texts are names, each with its text.
func replace(source string, texts ...string) string {
	for i := 0; i < len(texts); i += 2 {
		texts[i] = "--- " + texts[i] + "\n"
	}
	return strings.NewReplacer(texts...).Replace(source)
}

// script is a Lua script and the digest that servers know it by.
type script struct{ source, digest string }

func newScript(source string) script {
	source = withoutComments(source)
	digest := sha1.Sum([]byte(source))
	return script{source, hex.EncodeToString(digest[:])}
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

// pipeliner is a client that can send several commands at once.
type pipeliner interface{ Pipeline() redis.Pipeliner }

// scriptCall is one script to run: its arguments and its outcome.
type scriptCall struct {
	script    *script
	keys      []string
	args      []any
	once      bool // the client must not send it again
	divisible bool // its jobs can be sent in scripts of their own
	receiver  receiver
	most      int // the longest reply, in bytes
	command   *scriptCommand
	readErr   error // from a client that parses replies itself
	err       error // nil: the receiver has read the reply
}

// run runs scripts, in one pipeline if there are several and the client has pipelines. A server
// that does not know a script gets its source: it was restarted, or its scripts were flushed. Each
// call has an error of its own.
func run(ctx context.Context, client redis.Scripter, calls ...*scriptCall) {
	if client, ok := client.(pipeliner); ok && len(calls) > 1 {
		runTogether(ctx, client.Pipeline(), calls)
	}
	for _, c := range calls {
		if c.command == nil || c.isUnknown() { // another call may have sent the source since
			c.run(ctx, client, "evalsha", c.script.digest)
		}
		if c.isUnknown() {
			c.run(ctx, client, "eval", c.script.source)
		}
	}
}

func runTogether(ctx context.Context, pipe redis.Pipeliner, calls []*scriptCall) {
	defer func() { // even if a hook of the client panics
		for _, c := range calls {
			c.finish()
		}
	}()
	for _, c := range calls {
		c.send(ctx, pipe, "evalsha", c.script.digest)
	}
	_, _ = pipe.Exec(ctx)
}

func (c *scriptCall) run(ctx context.Context, client redis.Scripter, name, text string) {
	defer c.finish() // even if a hook of the client panics
	c.send(ctx, client, name, text)
}

// isUnknown reports whether the server does not know the script.
func (c *scriptCall) isUnknown() bool {
	return c.err != nil && redis.HasErrorPrefix(c.err, "NOSCRIPT") // HasErrorPrefix allocates
}

// send sends c, or queues it if to is a pipeline.
func (c *scriptCall) send(ctx context.Context, to redis.Scripter, name, text string) {
	c.command = newScriptCommand(c.receiver, c.most)
	client, ok := to.(processor)
	if !ok {
		eval, args := to.EvalSha, append([]any{c.command.number}, c.args...)
		if name == "eval" {
			eval = to.Eval
		}
		reply, err := eval(ctx, text, c.keys, args...).Result()
		if err == nil {
			err = c.command.readValue(reply)
		}
		c.readErr = err
		return
	}
	words := make([]any, 0, 4+len(c.keys)+len(c.args))
	words = append(words, name, text, len(c.keys))
	for _, key := range c.keys {
		words = append(words, key)
	}
	words = append(append(words, c.command.number), c.args...)
	c.command.Cmder = redis.NewRawWriteToCmd(ctx, c.command, words...)
	c.command.SetFirstKeyPos(3)
	cmd := redis.Cmder(c.command)
	if c.once {
		cmd = unrepeatedCommand{cmd}
	}
	_ = client.Process(ctx, cmd) // c.command has the error, too
}

// finish sets the error of c. The client is done with it.
func (c *scriptCall) finish() {
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
		c.err = nil
	case err != nil:
		c.err = advised(err)
	case isReceived:
		c.err = nil
	default:
		c.err = errUnread
	}
}
