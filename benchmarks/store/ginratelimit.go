package store

import ratelimit "github.com/JGLTechnologies/gin-rate-limit"

// ginRateLimit is the store of gin-rate-limit, without gin. It loads, counts and stores in separate
// steps: under concurrency it loses counts, which makes it faster and wrong.
type ginRateLimit struct{ store ratelimit.Store }

func openGinRateLimit(q Quota, _ int) Store {
	return ginRateLimit{
		ratelimit.InMemoryStore(&ratelimit.InMemoryOptions{Rate: q.Window, Limit: uint(q.Burst)}),
	}
}

func (s ginRateLimit) Decider() Decider { return s }

func (s ginRateLimit) Allow(key string) bool { return !s.store.Limit(key, nil).RateLimited }
