package redisbackend

import (
	"errors"
	"fmt"

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

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
