package faults

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/redisbackend"
)

// leaseVariable has the address of the server where this program is to be one of several
// processes with leases, and leaseFile the file to which it writes what it admits.
const (
	leaseVariable = "WEIR_FAULTS_LEASE"
	leaseFile     = "WEIR_FAULTS_LEASE_FILE"
)

var leasedLimit = limits.TokenBucket(limits.PerSecond(5000), 5000)

// leasingProcess is one of the processes. It makes requests until it is killed, or its input
// ends, and writes each admission to its file before it makes the next.
func leasingProcess(addr string) int {
	file, err := os.Create(os.Getenv(leaseFile))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	client := redis.NewClient(&redis.Options{
		Addr: addr, ContextTimeoutEnabled: true, ReadTimeout: patience, MaxRetries: -1,
	})
	limiter := core.MustNew(core.Config[string]{
		Rules: []core.Rule[string]{{Name: "s", Limit: leasedLimit, Key: self, OnFailure: core.FailClosed}},
		Backend: redisbackend.MustNew(client, redisbackend.Options{
			Budget: patience, Lease: time.Second, Logger: slog.New(slog.DiscardHandler),
		}),
	})
	var mu sync.Mutex
	for range childGoroutines {
		go func() {
			for {
				for range rand.IntN(1000) {
					o := limiter.Decide(context.Background(), "k")
					if !o.Allowed() {
						break
					}
					at := o.At(0).At << 1
					if o.At(0).Source == limits.SourceLease {
						at |= 1
					}
					mu.Lock()
					binary.Write(file, binary.LittleEndian, at)
					mu.Unlock()
				}
				pauseFor(client, time.Duration(rand.Int64N(int64(80*time.Millisecond))))
			}
		}()
	}
	io.Copy(io.Discard, os.Stdin)
	return 0
}

// pauseFor waits until the clock of the server has gone on by d. Blocks run out by that clock,
// so some do unused.
func pauseFor(client *redis.Client, d time.Duration) {
	now := func() time.Time { return client.Time(context.Background()).Val() } // the zero time if there is no answer
	from := now()
	poll(func() bool { return now().Sub(from) >= d })
}
