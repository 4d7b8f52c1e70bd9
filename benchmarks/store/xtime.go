package store

import (
	"sync"

	"golang.org/x/time/rate"
)

// mutexMap is golang.org/x/time/rate as most tutorials use it with keys: a map of limiters under
// one mutex, never cleaned.
type mutexMap struct {
	mu       sync.Mutex
	limiters map[string]*rate.Limiter
	rate     rate.Limit
	burst    int
}

func openMutexMap(q Quota, _ int) Store {
	return &mutexMap{
		limiters: make(map[string]*rate.Limiter), rate: rate.Every(q.Refill), burst: int(q.Burst),
	}
}

func (s *mutexMap) Decider() Decider { return s }

func (s *mutexMap) Allow(key string) bool {
	s.mu.Lock()
	l, ok := s.limiters[key]
	if !ok {
		l = rate.NewLimiter(s.rate, s.burst)
		s.limiters[key] = l
	}
	s.mu.Unlock()
	return l.Allow()
}

// syncMap is the same with a sync.Map.
type syncMap struct {
	limiters sync.Map // of *rate.Limiter
	rate     rate.Limit
	burst    int
}

func openSyncMap(q Quota, _ int) Store {
	return &syncMap{rate: rate.Every(q.Refill), burst: int(q.Burst)}
}

func (s *syncMap) Decider() Decider { return s }

func (s *syncMap) Allow(key string) bool {
	l, ok := s.limiters.Load(key)
	if !ok {
		l, _ = s.limiters.LoadOrStore(key, rate.NewLimiter(s.rate, s.burst))
	}
	return l.(*rate.Limiter).Allow()
}
