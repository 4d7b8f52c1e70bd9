package remote

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
	"github.com/weir-go/weir/redisbackend"
)

// asked is a request for the rules.
type asked struct {
	key    string
	places int // places that it holds under a concurrency limit
}

// ruled is core.Limiter in front of the Redis backend.
type ruled struct {
	*core.Limiter[asked]
	ended *Ended
	ends  bool // has rules with an end, which report it
}

type rule func(atOnce int) core.Rule[asked]

func openRules(rules ...rule) func(*redis.Client, int) (Runs, error) {
	return func(client *redis.Client, atOnce int) (Runs, error) {
		l := &ruled{ended: newEnded()}
		config := core.Config[asked]{Observer: core.ObserverFuncs[asked]{OnEnd: l.observeEnd}}
		prefix := "runs"
		for _, rule := range rules {
			r := rule(atOnce)
			config.Rules = append(config.Rules, r)
			prefix += "-" + r.Name
			l.ends = l.ends || r.FinalCost != nil || r.Limit.Algorithm().Holds()
		}
		config.Backend = redisbackend.MustNewBare(client, redisbackend.BareOptions{Prefix: prefix})
		var err error
		l.Limiter, err = core.New(config)
		return l, err
	}
}

func (l *ruled) observeEnd(s limits.Settlement) {
	if errors.Is(s.Err, backends.ErrEndingDropped) {
		l.ended.drop()
		return
	}
	l.ended.note(s.Returned, s.Err)
}

func (l *ruled) Start(ctx context.Context, key string) (end func(), err error) {
	return l.start(ctx, asked{key, 1})
}

func (l *ruled) start(ctx context.Context, r asked) (end func(), err error) {
	o := l.Decide(ctx, r)
	if !o.Allowed() {
		return nil, errors.Join(ErrDenied, o.Err())
	}
	for i := range o.Len() {
		if d := o.At(i); d.Source != limits.SourcePrimary {
			return nil, fmt.Errorf("%v has decided, not Redis: %w", d.Source, o.Err())
		}
	}
	return func() {
		o.End(core.Result{Status: http.StatusNoContent})
		if !l.ends {
			l.ended.note(0, nil)
		}
	}, nil
}

func (l *ruled) Hold(ctx context.Context, key string, places int) error {
	const most = 64 // places that one request may hold
	for ; places > 0; places -= most {
		if _, err := l.start(ctx, asked{key, min(places, most)}); err != nil {
			return err
		}
	}
	return nil
}

func (l *ruled) Ended() *Ended { return l.ended }

func itself(r asked) (string, error) { return r.key, nil }

// oneRate is a limit that no key reaches within a run, not even the single key of some columns.
func oneRate(int) core.Rule[asked] {
	return core.Rule[asked]{
		Name: "rate", Limit: limits.TokenBucket(limits.Per(1, 3*time.Second), 1_000_000_000),
		Key: itself,
	}
}

func anotherRate(int) core.Rule[asked] {
	r := oneRate(0)
	r.Name = "another-rate"
	return r
}

func concurrency(atOnce int) core.Rule[asked] {
	return core.Rule[asked]{
		Name:  "at-once",
		Limit: limits.Concurrent(int64(atOnce)),
		Key:   itself,
		Cost:  func(r asked) int64 { return int64(r.places) },
	}
}

// estimate is the charge at the start of a request and final its cost at the end, under the rule
// with a FinalCost.
const (
	estimate = 4
	final    = 1
)

func finalCost(int) core.Rule[asked] {
	r := oneRate(0)
	r.Name = "estimated"
	r.Cost = func(asked) int64 { return estimate }
	r.FinalCost = func(core.Result) int64 { return final }
	return r
}
