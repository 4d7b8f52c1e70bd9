package remote

import (
	"context"
	"crypto/rand"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// lease is the time after which peers consider a request dead. It is longer than any run, so that
// held places stay held.
const lease = time.Hour

// set stores the running requests of a key in a sorted set, scored by the client's clock when they
// began. Both peers do so.
type set struct {
	client *redis.Client
	prefix string
	ended  *Ended
}

func (s *set) Ended() *Ended { return s.ended }

func newSet(client *redis.Client, prefix string) set {
	return set{client: client, prefix: prefix, ended: newEnded()}
}

// Hold adds the members without deciding, since nothing is timed.
func (s *set) Hold(ctx context.Context, key string, places int) error {
	const most = 1000                                 // members per command
	late := float64(time.Now().Add(lease).UnixNano()) // later than any of their clocks
	for ; places > 0; places -= most {
		var members []redis.Z
		for range min(places, most) {
			members = append(members, redis.Z{Score: late, Member: rand.Text()})
		}
		if err := s.client.ZAdd(ctx, s.prefix+key, members...).Err(); err != nil {
			return err
		}
	}
	return nil
}

// endOf returns a function that ends the request of a member.
func (s *set) endOf(ctx context.Context, key, member string) func() {
	return func() { s.ended.note(s.client.ZRem(ctx, s.prefix+key, member).Result()) }
}

// recipe follows the steps that Stripe published for concurrent requests, written for this
// benchmark: one script removes expired members, counts the rest, and adds the request if there is
// room. The time is the client's. The member is removed after the request.
type recipe struct {
	set
	atOnce int
}

var concurrent = redis.NewScript(`
local key, atOnce, now = KEYS[1], tonumber(ARGV[1]), tonumber(ARGV[2])
local lease, id = tonumber(ARGV[3]), ARGV[4]
redis.call('ZREMRANGEBYSCORE', key, '-inf', now - lease)
if redis.call('ZCARD', key) >= atOnce then
  return 0
end
redis.call('ZADD', key, now, id)
return 1
`)

func openRecipe(client *redis.Client, atOnce int) (Runs, error) {
	return &recipe{newSet(client, "recipe:"), atOnce}, nil
}

func (r *recipe) Start(ctx context.Context, key string) (end func(), err error) {
	id := rand.Text()
	allowed, err := concurrent.Run(ctx, r.client, []string{r.prefix + key}, r.atOnce,
		time.Now().Unix(), int(lease.Seconds()), id).Bool()
	if err != nil {
		return nil, err
	}
	if !allowed {
		return nil, ErrDenied
	}
	return r.endOf(ctx, key, id), nil
}

// locked models the ConcurrentBuffer of mennanov/limiters with its lock in Redis; the module proxy
// does not have that library. Under a mutex of the process and a lock in Redis, one pipeline
// removes expired members, adds the request and counts. If there are too many, the request is
// removed again.
type locked struct {
	set
	atOnce  int64
	mutexes sync.Map // key to *sync.Mutex
}

func openLocked(client *redis.Client, atOnce int) (Runs, error) {
	return &locked{set: newSet(client, "locked:"), atOnce: int64(atOnce)}, nil
}

// unlock deletes a lock if its owner still holds it.
var unlock = redis.NewScript(`
if redis.call('GET', KEYS[1]) ~= ARGV[1] then
  return 0
end
return redis.call('DEL', KEYS[1])
`)

func (l *locked) Start(ctx context.Context, key string) (end func(), err error) {
	mutex, _ := l.mutexes.LoadOrStore(key, new(sync.Mutex))
	mutex.(*sync.Mutex).Lock()
	defer mutex.(*sync.Mutex).Unlock()

	lock, owner := "lock:"+key, rand.Text()
	switch got, err := l.client.SetNX(ctx, lock, owner, 8*time.Second).Result(); {
	case err != nil:
		return nil, err
	case !got:
		return nil, fmt.Errorf("the lock is held, though nobody else is there")
	}
	count, id, err := l.add(ctx, key)
	if err == nil && count > l.atOnce {
		if err = l.client.ZRem(ctx, l.prefix+key, id).Err(); err == nil {
			err = ErrDenied
		}
	}
	if unlockErr := unlock.Run(ctx, l.client, []string{lock}, owner).Err(); err == nil {
		err = unlockErr
	}
	if err != nil {
		return nil, err
	}
	return l.endOf(ctx, key, id), nil
}

// add adds a request unconditionally and returns the number of requests.
func (l *locked) add(ctx context.Context, key string) (count int64, id string, err error) {
	id = rand.Text()
	name, now := l.prefix+key, time.Now()
	var card *redis.IntCmd
	_, err = l.client.Pipelined(ctx, func(p redis.Pipeliner) error {
		p.ZRemRangeByScore(ctx, name, "-inf", strconv.FormatInt(now.Add(-lease).UnixNano(), 10))
		p.ZAdd(ctx, name, redis.Z{Score: float64(now.UnixNano()), Member: id})
		p.Expire(ctx, name, lease)
		card = p.ZCard(ctx, name)
		return nil
	})
	if err != nil {
		return 0, id, err
	}
	return card.Val(), id, nil
}
