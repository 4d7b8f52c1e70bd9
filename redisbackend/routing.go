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
	switch {
	case !ok || c.Options().DisableRoutingPolicies && !c.Options().ReadOnly:
		return nil
	case c.Options().ReadOnly: // which RouteByLatency and RouteRandomly set, too
		return errors.New("the client may read from replicas, so it asks the servers COMMAND before it " +
			"sends a script: leave out ReadOnly, RouteByLatency and RouteRandomly, and set " +
			"DisableRoutingPolicies in redis.ClusterOptions")
	}
	return errors.New("the client asks the servers COMMAND before it sends a script, and one silent " +
		"server then delays the decisions of all: set DisableRoutingPolicies in redis.ClusterOptions")
}
