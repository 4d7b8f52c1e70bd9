package inflight_test

import (
	"testing"

	"github.com/weir-go/weir/benchmarks/inflight"
	"github.com/weir-go/weir/benchmarks/store"
	"github.com/weir-go/weir/limits"
)

const client, other = "203.0.113.7", "203.0.113.8"

// A benchmark of a limiter that does not limit is a benchmark of nothing.
func TestNoMoreRequestsRunAtOnceThanTheLimit(t *testing.T) {
	const atOnce = 3
	for _, c := range inflight.Contestants() {
		if !c.AtOnce {
			continue
		}
		t.Run(c.Name, func(t *testing.T) {
			s := c.Open(store.Ample, atOnce)
			for i := range atOnce {
				if !s.Hold(client) {
					t.Fatalf("request %d: got denied, want allowed", i+1)
				}
			}
			if s.Hold(client) || s.Decider().Allow(client) {
				t.Errorf("request %d: got allowed, want denied", atOnce+1)
			}
			if got := s.Decider().Allow(other); got != c.Keyed {
				t.Errorf("a request of another key: got allowed %v, want %v", got, c.Keyed)
			}
		})
	}
}

func TestARequestThatHasEndedMakesRoom(t *testing.T) {
	const atOnce = 3
	for _, c := range inflight.Contestants() {
		t.Run(c.Name, func(t *testing.T) {
			s := c.Open(store.Ample, atOnce)
			for range atOnce - 1 {
				s.Hold(client)
			}
			for i := range 10 * atOnce {
				if !s.Decider().Allow(client) {
					t.Fatalf("request %d, one at a time: got denied, want allowed", i+1)
				}
			}
			if got := s.Hold(client); !got {
				t.Error("the last place: got denied, want allowed")
			}
			if got := s.Hold(client); got == c.AtOnce {
				t.Errorf("one more: got allowed %v, want %v", got, !c.AtOnce)
			}
		})
	}
}

func TestARateHoldsThoughRequestsEnd(t *testing.T) {
	for _, c := range inflight.Contestants() {
		if !c.Rate {
			continue
		}
		t.Run(c.Name, func(t *testing.T) {
			want := store.Ordinary.Burst
			if c.Name == "weir, rate and FinalCost" {
				want = store.Ordinary.Burst - inflight.Estimate + inflight.Final // the last needs room for its estimate
			}
			d := c.Open(store.Ordinary, 3).Decider()
			for _, key := range []string{client, other} {
				got := int64(0)
				for got <= want && d.Allow(key) {
					got++
				}
				if got != want {
					t.Errorf("requests of %s: got %d allowed, want %d", key, got, want)
				}
			}
		})
	}
}

func TestTheLimitThatIsMeasuredIsTheHighestThereIs(t *testing.T) {
	if err := limits.Concurrent(inflight.AtOnce).Validate(); err != nil {
		t.Error(err)
	}
	if err := limits.Concurrent(inflight.AtOnce + 1).Validate(); err == nil {
		t.Errorf("a limit of %d is legal: measure with that", inflight.AtOnce+1)
	}
}
