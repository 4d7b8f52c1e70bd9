package line

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"
)

// Errors of the client and of the server, with advice.

// spared is an error that does not count against the backend as a whole: the breaker of package
// remote ignores it.
type spared struct{ error }

// SparesBackend marks the error for package remote.
func (spared) SparesBackend() bool { return true }

func (s spared) Unwrap() error { return s.error }

// Spare returns err as an error that does not count against the backend as a whole.
func Spare(err error) error { return spared{err} }

// Advised returns the error of a client with advice. A server that does not know a command quotes
// its arguments. They may be keys or passwords, so Advised drops them.
func Advised(err error) error {
	text, _, quotes := strings.Cut(err.Error(), ", with args beginning with")
	if quotes {
		err = redisError(text)
	}
	if lacksScripts.MatchString(text) {
		return fmt.Errorf("%w: %s", err, noScripts)
	}
	if quotes {
		return err
	}
	var syscallErr *os.SyscallError
	isClosed := errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
	if errors.As(err, &syscallErr) {
		names := []string{"read", "write", "wsarecv", "wsasend"}
		isClosed = slices.Contains(names, syscallErr.Syscall)
	}
	switch {
	case isClosed:
		return fmt.Errorf("%w: %s", err, closedByServer)
	case errors.Is(err, strconv.ErrRange): // of go-redis, which reads lengths as an int
		return errLength
	}
	return err
}

// isLate reports whether err means that there was no time to wait for an answer.
func isLate(err error) bool {
	var network net.Error
	return errors.Is(err, context.Canceled) || errors.Is(err, redis.ErrPoolTimeout) ||
		errors.As(err, &network) && network.Timeout() // context.DeadlineExceeded is one
}

// WithoutTLS returns the error of a call to a server that has never answered. If the client uses
// TLS, the error says that the server may not.
func WithoutTLS(err error, client redis.Scripter) error {
	if errors.Is(err, context.DeadlineExceeded) && usesTLS(client) {
		return fmt.Errorf("%w: %s", err, unansweredTLS)
	}
	return err
}

// lacksScripts matches the errors of a Valkey without its scripting engine, of a Garnet that was not
// told to run scripts, and of servers that do not know the commands that run them.
var lacksScripts = regexp.MustCompile(`^ERR (Could not find scripting engine|` +
	`This instance has Lua scripting support disabled|` +
	"(?i:unknown command ['`](eval|evalsha|script)['`|]))")

const (
	noScripts = "the server runs no Lua scripts, which weir needs: load Valkey's lua, give " +
		"Garnet --lua, or rename no EVAL"
	closedByServer = "closed by the server: a restart, maxclients, TLS on one side alone, or a " +
		"proxy without HELLO?"
	unansweredTLS = "no TLS handshake so far: if the server speaks none, use redis://"
)

// Panicked returns the error of a panic below the client. go-redis panics itself if a server
// announces a reply too long for any memory.
func Panicked(v any) error {
	if err, ok := v.(runtime.Error); ok && strings.Contains(err.Error(), "makeslice") {
		return errLength
	}
	return fmt.Errorf("panic in a hook of the client: %v", v)
}

var errLength = errors.New("the server replied with an impossible length: is it Redis?")

var errExited = errors.New("a hook of the client ended the goroutine by runtime.Goexit")

// redisError returns an error that a server replied. Its type is that of most errors of go-redis.
func redisError(text string) error { return as(redis.Nil, text) }

// as converts text to the type of like, which go-redis does not export.
func as[T ~string](like T, text string) T { return T(text) }
