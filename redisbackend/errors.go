package redisbackend

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
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

// explained returns the error of a decision with advice. An error about the state of a key is
// spared, since the server works. It names scopes, and no key.
func explained(err error, accounts []account) error {
	text := err.Error()
	switch {
	case redis.HasErrorPrefix(err, "WEIR"):
		var scopes []string
		for i := range accounts {
			scopes = append(scopes, strconv.Quote(accounts[i].Scope))
		}
		return spared{fmt.Errorf("scope %s: %w", strings.Join(scopes, " or "), err)}
	case redis.HasErrorPrefix(err, "MOVED"):
		return fmt.Errorf("%w: %s", err, useCluster)
	case strings.Contains(text, "NOPERM"), strings.Contains(text, "can't run this command"),
		strings.Contains(text, "ACL failure in script"):
		return fmt.Errorf("%w: Backend.Check says what to allow", err)
	case strings.Contains(text, "OOM "):
		return fmt.Errorf("%w: %s", err, raiseMemory)
	}
	return err
}

// advised returns the error of a client with advice. A server that does not know a command quotes
// its arguments. They may be keys or passwords, so advised drops them.
func advised(err error) error {
	if text, _, quotes := strings.Cut(err.Error(), ", with args beginning with"); quotes {
		return redisError(text)
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

// withoutTLS returns the error of a call to a server that has never answered. If the client uses
// TLS, the error says that the server may not.
func withoutTLS(err error, client redis.Scripter) error {
	if errors.Is(err, context.DeadlineExceeded) && usesTLS(client) {
		return fmt.Errorf("%w: %s", err, unansweredTLS)
	}
	return err
}

const (
	useCluster = "the server is a node of a Cluster: " +
		"use a redis.ClusterClient, or addr= in the URL"
	raiseMemory = "the server's memory is full: raise maxmemory"

	closedByServer = "the server closed the connection: a restart, maxclients, or TLS on one side alone?"
	unansweredTLS  = "no TLS handshake so far: if the server speaks none, use redis://"
)

// howToAllow adds to an error of [Backend.Check] how to grant a missing permission. key is the
// name that the check used.
func howToAllow(err error, key string) error {
	var allow []string
	text, failed, _ := strings.Cut(err.Error(), "; commands: ")
	switch {
	case strings.Contains(text, "run this command"),
		strings.Contains(text, "no permissions to run"):
		allow = strings.Fields(failed)
		if failed == "" { // the client sent the command, not the script
			_, name, _ := strings.Cut(text, "run the '")
			name, _, _ = strings.Cut(name, "'")
			allow = []string{name}
		}
	case strings.Contains(text, "OOM "):
		return fmt.Errorf("%w: %s", err, raiseMemory)
	case strings.Contains(text, " access ") && strings.Contains(text, "key") && key != "":
		prefix := key[:strings.LastIndex(key, "check")]
		return fmt.Errorf("%w: allow the user its keys, ~%s*", err, prefix)
	}
	if len(allow) == 0 {
		return err
	}
	return fmt.Errorf("%w: allow the user +%s", err, strings.Join(allow, " +"))
}
