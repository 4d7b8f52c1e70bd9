package redisbackend

import (
	"errors"

	"github.com/redis/go-redis/v9"
)

// checkRouting returns an error if a client of a Cluster asks the servers COMMAND before it sends a
// script. A user who may not send COMMAND is refused each time, and the client asks again with each
// decision. While it asks a silent server, all other decisions wait, too.
func checkRouting(client redis.Scripter) error {
	c, ok := client.(interface{ Options() *redis.ClusterOptions })
	if !ok || c.Options().DisableRoutingPolicies {
		return nil
	}
	return errors.New("the client asks the servers COMMAND before it sends a script, and one silent " +
		"server then delays the decisions of all: set DisableRoutingPolicies in redis.ClusterOptions")
}
