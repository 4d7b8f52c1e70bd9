package line

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/redis/go-redis/v9"
)

// Redis from 7.4 on and Valkey forget scripts that EVAL has brought once there are more than 500 of
// them. Where others send that many between two calls of a script, each call would bring its source
// again, and the server would compile it: 3 ms instead of 0.02. A script of SCRIPT LOAD stays.

// sources is what a process has brought to one server, by EVAL or SCRIPT LOAD. All of it works for
// nil, too, which brings sources by EVAL alone.
type sources struct {
	brought atomic.Int64 // how often a source was brought

	mu      sync.Mutex
	latest  map[*Script]int64 // brought, after the source of a script was
	refuses bool              // the server refuses SCRIPT LOAD
}

// mark returns a mark of the present for isForgotten.
func (s *sources) mark() int64 {
	if s == nil {
		return 0
	}
	return s.brought.Load()
}

// isForgotten reports whether a server that does not know a script had it at a mark or before, and
// does not refuse SCRIPT LOAD. Calls that were under way together when the server saw the script
// for the first time are no sign that it forgets.
func (s *sources) isForgotten(script *Script, mark int64) bool {
	if s == nil {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	at, had := s.latest[script]
	return had && at <= mark && !s.refuses
}

// note records that the source of a script was brought.
func (s *sources) note(script *Script) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.latest == nil {
		s.latest = make(map[*Script]int64)
	}
	s.latest[script] = s.brought.Add(1)
}

// load brings a script to the server of a key by SCRIPT LOAD. It returns false if the server may
// not have it. It does not ask a server again that refuses the command.
func (s *sources) load(ctx context.Context, client redis.Scripter, script *Script, key string) bool {
	var to processor
	var err error
	switch client := client.(type) {
	case Single:
		to = client
	case Cluster:
		to, err = client.MasterForKey(ctx, key)
	case Ring:
		to, err = client.GetShardClientForKey(key)
	}
	if to == nil || err != nil { // others may send a command without a key anywhere
		return false
	}
	cmd := redis.NewStringCmd(ctx, "script", "load", script.Source)
	_ = to.Process(ctx, cmd) // cmd has the error, too
	switch err := cmd.Err(); {
	case err == nil:
		s.note(script)
	case answers(err) && !redis.HasErrorPrefix(err, "BUSY") && !redis.HasErrorPrefix(err, "LOADING"):
		s.mu.Lock()
		defer s.mu.Unlock()
		s.refuses = true
	}
	return cmd.Val() == script.Digest
}
