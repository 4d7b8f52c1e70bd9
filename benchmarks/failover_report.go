package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/weir-go/weir/benchmarks/table"
	"github.com/weir-go/weir/benchmarks/topology"
	"github.com/weir-go/weir/redisbackend"
)

// quietClient is a logger of go-redis, which writes a line for each failed dial.
type quietClient struct{}

func (quietClient) Printf(context.Context, string, ...any) {}

// beQuiet drops the lines that go-redis and backends write for each failure.
func beQuiet() {
	redis.SetLogger(quietClient{})
	slog.SetDefault(slog.New(slog.DiscardHandler))
}

// reportFailover prints how soon Redis decides again after a server has died. rounds is how often
// each server does.
func reportFailover(rounds int) error {
	beQuiet()
	t := table.Table{Heads: []string{
		"what dies", "kills", "replaced after, s", "first decision later by, s: median", "most",
		"last failure later by, s, most", "failed", "of other keys",
	}}
	for _, row := range failovers() {
		var own, first, last []float64
		fell, spoil := 0, 0
		for round := range rounds {
			progress("failover: %s, %d of %d", row.name, round+1, rounds)
			r, err := readFailover(row, time.Duration(round)*time.Second/time.Duration(rounds))
			if err != nil {
				progress("")
				return err
			}
			own = append(own, r.own.Seconds())
			first = append(first, (r.first - r.own).Seconds())
			last = append(last, (r.last - r.own).Seconds())
			fell, spoil = fell+r.fell, spoil+r.spoil
		}
		slices.Sort(first)
		t.Add(row.name, fmt.Sprint(rounds), fmt.Sprintf("%.1f to %.1f", slices.Min(own), slices.Max(own)),
			fmt.Sprintf("%.2f", first[len(first)/2]), fmt.Sprintf("%.2f", slices.Max(first)),
			fmt.Sprintf("%.2f", slices.Max(last)), fmt.Sprint(fell), fmt.Sprint(spoil))
	}
	progress("")
	t.Print(os.Stdout)
	return nil
}

const (
	silentFor   = 10 * time.Second
	silentWatch = 3 * time.Second // of a backend that starts while a master is silent
)

// reportSilent prints what is decided while one master of three is silent, for a user with few
// rights. rounds is half of the number of backends that start meanwhile.
func reportSilent(rounds int) error {
	beQuiet()
	c, err := topology.StartCluster(false, 15*time.Second)
	if err != nil {
		return err
	}
	defer c.Close()
	silent := c.Masters[2]
	well := func(key string) bool { return !c.KeptBy(silent, stateOf(key)) }
	keys := keysOf(well, false)
	url := c.URL("limiter:secret@")
	before, err := openFailing(url)
	if err != nil {
		return err
	}
	defer before.Close()
	for _, key := range keys {
		if err := asks(before, key); err != nil {
			time.Sleep(failoverPace) // the first may be late
			_ = asks(before, key)
		}
	}
	if err := silent.Silence(); err != nil {
		return err
	}
	defer silent.Resume()
	progress("silent")
	t := table.Table{Heads: []string{
		"one of three masters is silent", "decisions", "of keys of the others", "decided by Redis",
		"share of those, least", "first decision after, ms: median", "most",
	}}
	add := func(name string, readings []silentReading) {
		var first, shares []float64
		asked, own, decided := 0, 0, 0
		for _, r := range readings {
			asked, own, decided = asked+r.asked, own+r.well, decided+r.decided
			first = append(first, float64(r.first.Milliseconds()))
			shares = append(shares, 100*float64(r.decided)/float64(r.well))
		}
		slices.Sort(first)
		t.Add(name, fmt.Sprint(asked), fmt.Sprint(own), fmt.Sprint(decided),
			fmt.Sprintf("%.1f%%", slices.Min(shares)), table.Number(first[len(first)/2]),
			table.Number(slices.Max(first)))
	}
	add("backend of before", []silentReading{readSilent(before, keys, well, silentFor)})
	var fresh []silentReading
	for range 2 * rounds {
		b, err := openFailing(url)
		if err != nil {
			return err
		}
		fresh = append(fresh, readSilent(b, keys, well, silentWatch))
		b.Close()
	}
	add(fmt.Sprintf("%d new backends", len(fresh)), fresh)
	progress("")
	t.Print(os.Stdout)
	return nil
}

// silentReading counts decisions while a master is silent.
type silentReading struct {
	asked, well, decided int
	first                time.Duration // until the first decision
}

func readSilent(
	b *redisbackend.Backend, keys []string, well func(string) bool, span time.Duration,
) (r silentReading) {
	isWell := make(map[string]bool) // so that no request waits for an answer
	for _, key := range keys {
		isWell[key] = well(key)
	}
	ctx, end := context.WithTimeout(context.Background(), span)
	defer end()
	var mu sync.Mutex
	start := time.Now()
	steadily(ctx, b, keys, func(key string, _ time.Time, err error) {
		mu.Lock()
		defer mu.Unlock()
		r.asked++
		if isWell[key] {
			r.well++
		}
		if err == nil {
			if r.decided++; r.decided == 1 {
				r.first = time.Since(start)
			}
		}
	})
	return r
}

const rightsDecisions = 1000 // of a reading

// reportRights prints how long decisions take on a Cluster, one after the other, for the default
// user and for one with few rights. They take turns.
func reportRights(rounds int) error {
	beQuiet()
	c, err := topology.StartCluster(false, 15*time.Second)
	if err != nil {
		return err
	}
	defer c.Close()
	users := []string{"", "limiter:secret@"}
	best := make([]time.Duration, len(users))
	for i := range rounds * len(users) {
		at := i % len(users)
		progress("rights: %d of %d", i+1, rounds*len(users))
		b, err := redisbackend.Open(c.URL(users[at]), redisbackend.Options{Budget: time.Second})
		if err != nil {
			return err
		}
		for key := range 100 {
			if err := asks(b, fmt.Sprint(key)); err != nil {
				return err
			}
		}
		begun := time.Now()
		for key := range rightsDecisions {
			if err := asks(b, fmt.Sprint(key)); err != nil {
				return err
			}
		}
		if took := time.Since(begun); best[at] == 0 || took < best[at] {
			best[at] = took
		}
		b.Close()
	}
	progress("")
	t := table.Table{Heads: []string{"1,000 decisions on a Cluster, one caller", "ms, least"}}
	for at, name := range []string{"the default user", "a user with the rights of redis.md"} {
		t.Add(name, fmt.Sprint(best[at].Milliseconds()))
	}
	t.Print(os.Stdout)
	return nil
}
