package redisbackend_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
	"github.com/weir-go/weir/redisbackend"
)

// saysOf fails unless a decision and Check are errors that say what, in some 120 characters, and
// nothing that is secret.
func saysOf(t *testing.T, b *redisbackend.Bare, what string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second) // only what does not answer takes as long
	defer cancel()
	c := charge("s", "s3cret", limits.FixedWindow(limits.PerDay(10)), 1)
	for name, err := range map[string]error{
		"a decision": b.Take(ctx, []backends.Charge{c}, make([]limits.Decision, 1)),
		"Check":      b.Check(ctx),
	} {
		if err == nil || !strings.Contains(err.Error(), what) || len(err.Error()) > 180 {
			t.Errorf("%s: %v; want an error that says %q", name, err, what)
		} else if strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s quotes what is secret: %v", name, err)
		}
	}
}

func openAt(t *testing.T, url string) *redisbackend.Bare {
	t.Helper()
	b, err := redisbackend.Open(url, redisbackend.Options{})
	ok(t, err)
	t.Cleanup(func() { b.Close() })
	return redisbackend.BareOf(b)
}

func TestMaxclientsIsNamedWhereTheServerClosesConnections(t *testing.T) {
	t.Parallel()
	addr := startRedis(t, "--maxclients", "1").addr
	var first *redis.Client
	until(t, "there is a connection", func() bool { // that of startRedis is still there at first
		first = redis.NewClient(&redis.Options{Addr: addr})
		return first.Ping(t.Context()).Err() == nil || first.Close() != nil
	})
	defer first.Close()
	saysOf(t, openAt(t, "redis://"+addr), "maxclients")
	saysOf(t, openAt(t, "redis://:s3cret@"+addr), "maxclients")
}

// listen serves connections until the test ends.
func listen(t *testing.T, serve func(net.Conn)) (addr string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	ok(t, err)
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				serve(conn)
			}()
		}
	}()
	return listener.Addr().String()
}

func TestTLSIsNamedWhereOnlyOneSideSpeaksIt(t *testing.T) {
	t.Parallel()
	plain := startRedis(t).addr
	saysOf(t, openAt(t, "rediss://"+plain), "no TLS handshake so far")
	saysOf(t, openAt(t, "rediss://"+plain+"?addr="+plain), "no TLS handshake so far")
	secured := listen(t, func(conn net.Conn) { // as redis-server does
		_ = tls.Server(conn, new(tls.Config)).Handshake()
	})
	saysOf(t, openAt(t, "redis://"+secured), "TLS on one side alone")
}

// Only go-redis reads the replies to what it sends when it connects, and those of INFO about a
// Cluster.
func TestAnImpossibleLengthIsNamed(t *testing.T) {
	for _, length := range []string{ // of no memory, and of no int, which has 32 bits on some systems
		"9223372036854775807", "99999999999999999999",
	} {
		garbage := listen(t, func(conn net.Conn) {
			_, _ = conn.Read(make([]byte, 100))
			_, _ = fmt.Fprintf(conn, "-ERR unknown command\r\n$%s\r\n", length) // to HELLO, and to SELECT
			_, _ = io.Copy(io.Discard, conn)
		})
		b := openAt(t, "redis://"+garbage+"/1")
		saysOf(t, b, "an impossible length")
		if err := b.Reset(t.Context(), "s", "k"); err == nil || !strings.Contains(err.Error(), "an impossible length") {
			t.Errorf("a reset: %v", err)
		}
	}
}

const noScripts = "the server runs no Lua scripts, which weir needs"

// noScriptsAt answers as Valkey 9.1 does without its scripting engine: EVALSHA knows no script, and
// EVAL and SCRIPT LOAD find no engine for it. said replaces the answer to the last two, and to all
// three if it names no engine.
func noScriptsAt(t *testing.T, said string) (addr string) {
	return listen(t, func(conn net.Conn) {
		for r := bufio.NewReader(conn); ; {
			_, words, err := readCommand(r)
			if err != nil {
				return
			}
			answer := "-ERR unknown command '" + words[0] + "', with args beginning with: 's3cret'"
			switch name := strings.ToLower(words[0]); {
			case name == "evalsha" && strings.Contains(said, "engine"):
				answer = "-NOSCRIPT No matching script."
			case (name == "eval" || name == "evalsha" || name == "script") && said != "":
				answer = "-" + said
			}
			if _, err := io.WriteString(conn, answer+"\r\n"); err != nil {
				return
			}
		}
	})
}

func TestAServerThatRunsNoScriptsIsNamed(t *testing.T) {
	t.Parallel()
	const garnet = "ERR This instance has Lua scripting support disabled"
	for _, said := range []string{"ERR Could not find scripting engine 'lua'", garnet, ""} {
		saysOf(t, openAt(t, "redis://"+noScriptsAt(t, said)), noScripts)
	}
}

// Valkey 9.1 has its scripting engine in a module. It may be built without it, and loses it so.
func TestAValkeyWithoutItsScriptingEngineIsNamed(t *testing.T) {
	t.Parallel()
	if !hasLuaModule(t) {
		t.Skip("this server has no module lua: -server valkey-server-9.1 names one that has")
	}
	addr := startRedis(t, "--enable-module-command", "local").addr
	admin := redis.NewClient(&redis.Options{Addr: addr})
	defer admin.Close()
	b := openAt(t, "redis://"+addr)
	ok(t, b.Check(t.Context()))
	ok(t, admin.Do(t.Context(), "MODULE", "UNLOAD", "lua").Err())
	saysOf(t, b, noScripts)
	saysOf(t, openAt(t, "redis://"+addr), noScripts)
}

// hasLuaModule reports whether the server of the tests is a Valkey with its scripting engine in a
// module.
func hasLuaModule(t *testing.T) bool {
	said, err := serverCommand(t, "--version").Output()
	ok(t, err)
	var major, minor int
	_, text, _ := strings.Cut(string(said), " v=")
	_, err = fmt.Sscanf(text, "%d.%d", &major, &minor)
	ok(t, err)
	return strings.HasPrefix(string(said), "Valkey") && (major > 9 || major == 9 && minor >= 1)
}

// A server that does not know a command quotes its arguments.
func TestErrorsDoNotQuoteWhatAServerQuotes(t *testing.T) {
	t.Parallel()
	withoutAuth := startRedis(t, "--rename-command", "HELLO", "", "--rename-command", "AUTH", "").addr
	saysOf(t, openAt(t, "redis://:s3cret@"+withoutAuth), "unknown command")
	addr := startRedis(t, "--rename-command", "EVALSHA", "").addr
	saysOf(t, openAt(t, "redis://"+addr), "unknown command")
	hidden := redis.NewClient(&redis.Options{Addr: addr, ContextTimeoutEnabled: true})
	defer hidden.Close()
	saysOf(t, redisbackend.MustNewBare(onlyScripter{hidden}, redisbackend.BareOptions{HashTag: "one"}), "unknown command")
	b := openAt(t, "redis://"+addr)
	if err := b.Reset(t.Context(), "s", "s3cret"); err == nil || strings.Contains(err.Error(), "s3cret") {
		t.Errorf("a reset: %v", err)
	}
	c := lasting("s", "s3cret", limits.FixedWindow(limits.PerDay(10)), 1)
	if err := settle(t, b, ending(c, limits.Decision{}))[0].Err; err == nil || strings.Contains(err.Error(), "s3cret") {
		t.Errorf("a settlement: %v", err)
	}
}
