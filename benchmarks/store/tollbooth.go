package store

import "github.com/didip/tollbooth/v7/limiter"

type tollboothStore struct{ limiter *limiter.Limiter }

func openTollbooth(q Quota, _ int) Store {
	return tollboothStore{limiter.New(nil).SetMax(1 / q.Refill.Seconds()).SetBurst(int(q.Burst))}
}

func (s tollboothStore) Decider() Decider { return s }

func (s tollboothStore) Allow(key string) bool { return !s.limiter.LimitReached(key) }
