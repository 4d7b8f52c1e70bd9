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
	text, err := files.ReadFile(name + ".lua")
	if err != nil {
		panic(err)
	}
	return string(text)
}

// family is a file, and the letters of its algorithms. A file starts with its piece of the decision, if it has one,
// see decide.lua; behind a line "--- more" it has functions that few requests need.
type family struct{ file, letters string }

// families are those of algorithms, in their order.
var families = func() (all []family) {
	for _, a := range algorithms {
		i := slices.IndexFunc(all, func(f family) bool { return f.file == a.file })
		switch {
		case a.file == "": // of no algorithm
		case i < 0:
			all = append(all, family{a.file, string(a.letter)})
		default:
			all[i].letters += string(a.letter)
		}
	}
	return all
}()

// Scripts are put together from files: a line "--- name" is replaced by what has that name.
var (
	decideSource = file("decide") + decisions()

	statesSource = file("encoding") + replace(file("state"), "decide", decideSource, "names", names()) +
		file("bucket_ring") + functions()

	takeScript = newScript("local given = ARGV[2] ~= '1' and ARGV[2] or nil\n" + file("arithmetic") + replace(file("take"),
		"decide", decideSource,
		"products", file("products"),
		"held", section("concurrent", "held"),
		"hold", section("concurrent", "hold"),
		"general", "if not muldiv then\n"+file("products")+"end\n"+file("debt")+statesSource+file("general")))
	settleScript = newScript("local given, written = ARGV[2 * #KEYS + 2], nil\n" +
		file("arithmetic") + file("products") + file("debt") + statesSource + file("settle"))
	renewScript   = newScript(file("renew"))
	releaseScript = newScript(file("release"))
	checkScript   = newScript(file("check"))
	resetScript   = newScript(file("reset"))
)

// decisions returns the pieces of all families, each for its algorithms.
func decisions() string {
	var b strings.Builder
	word := "if"
	for _, f := range families {
		if piece := section(f.file, ""); len(newScript(piece).source) > 0 {
			fmt.Fprintf(&b, "%s algorithm == '%s' then\n%s", word, strings.Join(strings.Split(f.letters, ""), "' or algorithm == '"), piece)
			word = "elseif"
		}
	}
	return b.String() + "end\n"
}

// names returns a table of the families of algorithms.
func names() string {
	var b strings.Builder
	for _, f := range families {
		for _, letter := range f.letters {
			fmt.Fprintf(&b, "%c = '%s', ", letter, f.file)
		}
	}
	return "local nameOf = { " + b.String() + "}\n"
}

// functions returns the functions of all families.
func functions() (all string) {
	for _, f := range families {
		all += section(f.file, "more")
	}
	return all
}

// replace returns source with texts in the places of their names.
func replace(source string, texts ...string) string {
	for i := 0; i < len(texts); i += 2 {
		texts[i] = "--- " + texts[i] + "\n"
	}
	return strings.NewReplacer(texts...).Replace(source)
}

// section returns what a file has behind the line of a name, up to the next such line; "" is the
// start of the file.
func section(name, of string) string {
	source := "\n" + file(name)
	if of != "" {
		_, source, _ = strings.Cut(source, "\n--- "+of)
	}
	source, _, _ = strings.Cut(source, "\n--- ")
	return source + "\n"
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
	script   *script
	keys     []string
	args     []any
	once     bool // the client does not send it again
	parts    bool // it can be sent in parts
	receiver receiver
	most     int  // parts of its reply behind the number of the call, at most
	texts    bool // some of which may be texts
	command  *scriptCommand
	sent     error // what a client said that reads replies itself
	err      error // nil: the receiver has read the reply
}

// run makes calls, in one pipeline if there are several and the client has pipelines. A server that
// does not know a script, because it was restarted or its scripts were flushed, is sent the source. Each
// call has an error of its own.
func run(ctx context.Context, client redis.Scripter, calls ...*scriptCall) {
	defer func() { // a hook of the client may panic
		for _, c := range calls {
			c.finish()
		}
	}()
	if client, ok := client.(pipeliner); ok && len(calls) > 1 {
		pipe := client.Pipeline()
		for _, c := range calls {
			c.send(ctx, pipe, "evalsha", c.script.digest)
		}
		_, _ = pipe.Exec(ctx)
		for _, c := range calls {
			c.finish()
		}
	}
	for _, c := range calls {
		for _, by := range [...]struct{ name, text string }{{"evalsha", c.script.digest}, {"eval", c.script.source}} {
			if c.isUnknown() { // an earlier call may have taught the server
				c.send(ctx, client, by.name, by.text)
				c.finish()
			}
		}
	}
}

// isUnknown reports whether c was not sent to a server that knows the script.
func (c *scriptCall) isUnknown() bool {
	return c.command == nil || c.err != nil && redis.HasErrorPrefix(c.err, "NOSCRIPT") // which allocates
}

// send sends c, or queues it if to is a pipeline.
func (c *scriptCall) send(ctx context.Context, to redis.Scripter, name, text string) {
	c.command = newScriptCommand(c.receiver, c.most, c.texts)
	client, ok := to.(processor)
	if !ok {
		call, args := to.EvalSha, append([]any{c.command.number}, c.args...)
		if name == "eval" {
			call = to.Eval
		}
		reply, err := call(ctx, text, c.keys, args...).Result()
		if err == nil {
			err = c.command.readValue(reply)
		}
		c.sent = err
		return
	}
	all := make([]any, 0, 4+len(c.keys)+len(c.args))
	all = append(all, name, text, len(c.keys))
	for _, key := range c.keys {
		all = append(all, key)
	}
	c.command.Cmder = redis.NewRawWriteToCmd(ctx, c.command, append(append(all, c.command.number), c.args...)...)
	c.command.SetFirstKeyPos(3)
	cmd := redis.Cmder(c.command)
	if c.once {
		cmd = unrepeatedCommand{cmd}
	}
	_ = client.Process(ctx, cmd) // the command has the error, too
}

// finish sets the error of c, once the client is done with it.
func (c *scriptCall) finish() {
	if c.command == nil {
		return
	}
	err := c.sent
	if c.command.Cmder != nil {
		err = c.command.Err() // a deferred auto-pipeliner then waits for the reply
	}
	isReceived := c.command.close()
	switch {
	case isReceived && errors.Is(err, errImpossible): // the requests concerned have it
		c.err = nil
	case isReceived || err != nil:
		c.err = advised(err)
	default:
		c.err = errUnread
	}
}
