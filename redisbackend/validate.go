package redisbackend

import (
	"errors"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/weir/internal/ground/isnil"
	"github.com/weir-go/weir/redisbackend/internal/line"
)

// validateClient returns an error if limits cannot be kept on client.
func validateClient(client redis.Scripter, hashTag string) error {
	if isnil.Of(client) {
		return fmt.Errorf("redisbackend: client: is nil (got %T): pass a go-redis client", client)
	}
	switch client.(type) {
	case redis.Pipeliner:
		return errors.New(
			"redisbackend: client: a pipeline sends nothing by itself: pass the client")
	case line.Single, line.Cluster, line.Ring, line.AutoPipeliner:
		return nil
	}
	if hashTag == "" {
		return fmt.Errorf(
			"redisbackend: client: a %T may spread keys unseen: pass the client that it wraps",
			client)
	}
	return nil
}

func (o *BareOptions) validate() error {
	errs := []error{validatePrefix(o.Prefix)}
	if strings.ContainsAny(o.HashTag, "{}") {
		errs = append(errs, fmt.Errorf(
			"redisbackend: hash tag: must have no braces (got %q)", o.HashTag))
	}
	if o.HashTag != "" && len(o.Together) > 0 {
		errs = append(errs, errors.New(
			"redisbackend: together: HashTag keeps all states in one slot: remove one of them"))
	}
	if o.HoldTime != 0 && (o.HoldTime < minHoldTime || o.HoldTime > maxHoldTime) {
		errs = append(errs, fmt.Errorf(
			"redisbackend: hold time: must be %v to %v, or 0 for %v (got %v)",
			minHoldTime, maxHoldTime, defaultHoldTime, o.HoldTime))
	}
	return errors.Join(errs...)
}
