package redisbackend

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/weir/redisbackend/internal/line"
)

// A proxy may send scripts for one client to several servers: by the names of keys, as Envoy does,
// or by the connection, as a round robin of nginx or HAProxy does. Each server then admits every
// limit anew, and no command fails. Each server has a run_id, so asking for it shows the proxy:
//
//	names on one connection    1 2 3 4 5 6    connections for one name    1 2 3 4
//	their servers              A B B A B A    their servers               A B A B
//
// A failover shows two ids, too, but the first does not come back. So a question that has found A
// is asked once more after another has found B.

// questions is how many names, and how many connections, Check asks by. If a proxy chooses between
// two servers by chance, all are of one in 1 of 32,768 cases.
const questions = 16

// judgeServers returns an error if a proxy spreads what one server has to decide. key is a name
// that the client's server keeps.
func judgeServers(ctx context.Context, client redis.Scripter, key string, isNode bool) error {
	if _, ok := client.(line.Cluster); ok {
		return judgeNames(ctx, client, namesOf(key+":{"+key+"}:"), ignoredTags) // in the slot of key
	}
	single, ok := client.(line.Single)
	if !ok {
		return judgeNames(ctx, client, namesOf(key+":"), spreadNames)
	}
	o := *single.Options()
	o.PoolSize, o.MinIdleConns, o.MaxIdleConns, o.MaxActiveConns = questions, 0, 0, 0
	own := redis.NewClient(&o) // so that its connections are new
	defer own.Close()
	if isNode {
		return judgeNode(ctx, own, key)
	}
	advice := spreadNames
	if strings.Contains(key, "{") {
		advice = ignoredTags
	}
	conn := own.Conn()
	err := judgeNames(ctx, conn, namesOf(key+":"), advice)
	conn.Close() // it is one of those that follow
	if err == nil {
		err = judgeConnections(ctx, own, key)
	}
	return err
}

const (
	spreadNames = "a proxy spreads keys over %d servers, and each admits every limit: set " +
		"Options.HashTag, and enable_hashtagging if it is Envoy; or use a Cluster"
	ignoredTags = "a proxy spreads keys with one hash tag over %d servers, and each admits every " +
		"limit: set enable_hashtagging if it is Envoy; or use one server, or a Cluster"
	spreadConnections = "a proxy spreads connections over %d servers, and each admits every limit: " +
		"let it use one of them, such as the one whose check finds role:master"
)

// namesOf returns the names that begin with a prefix.
func namesOf(prefix string) (names []string) {
	for i := range questions {
		names = append(names, fmt.Sprint(prefix, i))
	}
	return names
}

// judgeNames returns an error if several servers answer for names, on one connection if client is
// one.
func judgeNames(ctx context.Context, client redis.Scripter, names []string, advice string) error {
	ids, err := serversOf(ctx, client, names...)
	if err != nil {
		return nil // the check script has said what is wrong
	}
	again := func() ([]string, error) { return serversOf(ctx, client, names[0]) }
	return judgeIDs(ids, again, advice)
}

// judgeConnections returns an error if several servers answer for one name, on connections that
// are open at once. A server may refuse some of them.
func judgeConnections(ctx context.Context, own *redis.Client, name string) error {
	answers := make([]string, questions)
	conns := make([]*redis.Conn, questions)
	var wait sync.WaitGroup
	for i := range conns {
		conns[i] = own.Conn()
		wait.Go(func() {
			defer func() { _ = recover() }() // of a hook or dialer: it has not answered
			if ids, err := serversOf(ctx, conns[i], name); err == nil {
				answers[i] = ids[0]
			}
		})
	}
	wait.Wait()
	return judgeIDs(answers, func() ([]string, error) {
		for i, id := range answers {
			if id != "" {
				return serversOf(ctx, conns[i], name)
			}
		}
		return nil, nil
	}, spreadConnections)
}

// judgeNode returns an error unless a proxy that knows the Cluster stands before the node that has
// answered: a node alone answers MOVED for keys of others.
func judgeNode(ctx context.Context, own *redis.Client, key string) error {
	prefix, _, _ := strings.Cut(key, "{") // a hash tag would keep all in one slot
	ids, err := serversOf(ctx, own, namesOf(prefix+":")...)
	if err != nil || len(differing(ids)) < 2 {
		return errors.New(useCluster + ", unless a proxy that knows the Cluster stands between")
	}
	return judgeConnections(ctx, own, key)
}

// judgeIDs returns an error if answers are spread over several servers.
func judgeIDs(answers []string, again func() ([]string, error), advice string) error {
	if n := spreadOver(answers, again); n > 0 {
		return fmt.Errorf(advice, n)
	}
	return nil
}

// spreadOver returns how many servers have given answers. It returns 0 if that is one, or if the
// first of them does not answer again: that was a failover.
func spreadOver(answers []string, again func() ([]string, error)) int {
	ids := differing(answers)
	if len(ids) < 2 {
		return 0
	}
	now, err := again()
	if err != nil || !slices.Contains(now, ids[0]) {
		return 0
	}
	return len(differing(append(ids, now...)))
}

// differing returns the ids among answers, each once, in the order in which they come first.
func differing(answers []string) (ids []string) {
	seen := make(map[string]bool)
	for _, id := range answers {
		if id != "" && !seen[id] {
			seen[id] = true
			ids = append(ids, id)
		}
	}
	return ids
}

// ofCluster ends the id of a node of a Cluster.
const ofCluster = " cluster"

// serversOf returns the id of the server that answers for each of some names. It sends the
// script each time: EVALSHA of one that servers do not know would be an error in their statistics.
func serversOf(ctx context.Context, client redis.Scripter, names ...string) (ids []string, err error) {
	for _, name := range names {
		id, err := client.Eval(ctx, whoScript, []string{name}).Text()
		if err != nil {
			return nil, err
		}
		ids = append(ids, id)
	}
	return ids, nil
}
