package redisbackend

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/weir/redisbackend/internal/line"
	"github.com/weir-go/weir/redisbackend/internal/wire"
)

// Errors of the client and of the server, with advice.

// explained returns the error of a decision with advice. An error about the state of a key is
// spared, since the server works. It names scopes, and no key.
func explained(err error, accounts []wire.Account) error {
	text := err.Error()
	switch {
	case redis.HasErrorPrefix(err, "WEIR"):
		var scopes []string
		for i := range accounts {
			scopes = append(scopes, strconv.Quote(accounts[i].Scope))
		}
		return line.Spare(fmt.Errorf("scope %s: %w", strings.Join(scopes, " or "), err))
	case redis.HasErrorPrefix(err, "MOVED"):
		return fmt.Errorf("%w: %s", err, useCluster)
	case isForbidden(err):
		return fmt.Errorf("%w: Backend.Check says what to allow", err)
	case strings.Contains(text, "OOM "):
		return fmt.Errorf("%w: %s", err, raiseMemory)
	}
	return err
}

// isForbidden reports whether a server has replied that its user may not send a command.
func isForbidden(err error) bool {
	text := err.Error()
	return strings.Contains(text, "NOPERM") || strings.Contains(text, "run this command") ||
		strings.Contains(text, "ACL failure in script")
}

const (
	useCluster = "the server is a node of a Cluster: " +
		"use a redis.ClusterClient, or addr= in the URL"
	raiseMemory = "the server's memory is full: raise maxmemory"
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
