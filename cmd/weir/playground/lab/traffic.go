package lab

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"

	"github.com/weir-go/weir/limits"
)

// traffic generates the stream of requests.
type traffic struct {
	kind  trafficKind
	rate  limits.Rate
	size  int64 // size of a burst
	moves []move
	every int64 // period of moves; 0: they do not repeat

	random *rand.Rand
	sent   int64 // number of requests, bursts or moves sent
	at     int64 // time of the latest one
}

type trafficKind uint8

const (
	click trafficKind = iota
	steady
	poisson
	burst
	script
)

var trafficKinds = [...]string{"click", "steady", "poisson", "burst", "script"}

// move is a group of requests at one time of a script.
type move struct {
	at, n, cost int64  // cost 0: the cost of the setup
	value       string // value of a retry; otherwise the setup determines it
}

const maxTogether = 100 // requests at one time

// readTraffic parses the fields that determine when requests come.
func (p *plan) readTraffic(kind, rate, size, moves string, note func(string, error)) {
	t := traffic{rate: limits.PerSecond(1), size: 5, random: rand.New(rand.NewPCG(p.seed, 0))}
	known := false
	for k, name := range trafficKinds {
		if name == kind {
			t.kind, known = trafficKind(k), true
		}
	}
	if !known {
		note("traffic",
			fmt.Errorf("must be %s (got %.30q)", strings.Join(trafficKinds[:], ", "), kind))
	}
	if limit, err := limits.Parse("fixed-window " + rate); err != nil {
		note("rate", fmt.Errorf("must be a rate such as 2/s or 30/minute (got %.30q)", rate))
	} else {
		t.rate = limit.Rate()
	}
	if n, err := strconv.ParseInt(size, 10, 64); err != nil || n < 1 || n > maxTogether {
		note("size", fmt.Errorf("must be 1 to %d (got %.30q)", maxTogether, size))
	} else {
		t.size = n
	}
	if t.kind == script {
		var err error
		t.moves, t.every, err = readScript(moves)
		note("script", err)
	}
	p.traffic = t
}

// readScript parses a script such as "4.8s x5, 5.2s x5 cost 2, every 15s".
func readScript(text string) (moves []move, every int64, err error) {
	if len(text) > 10*maxText {
		return nil, 0, fmt.Errorf("is longer than %d characters", 10*maxText)
	}
	wrong := func(part string) error {
		return fmt.Errorf("%.40q is not a time such as 4.8s x5, or 5.2s x2 cost 10, or every "+
			"15s at the end", part)
	}
	for _, part := range strings.Split(text, ",") {
		words := strings.Fields(part)
		if len(words) == 0 {
			continue
		}
		if every != 0 {
			return nil, 0, wrong(part)
		}
		if words[0] == "every" && len(words) == 2 {
			every, err = readDuration(words[1])
			if err != nil || every == 0 {
				return nil, 0, wrong(part)
			}
			continue
		}
		m := move{n: 1}
		if m.at, err = readDuration(words[0]); err != nil {
			return nil, 0, wrong(part)
		}
		words = words[1:]
		if len(words) > 0 && strings.HasPrefix(words[0], "x") {
			if m.n, err = strconv.ParseInt(words[0][1:], 10, 64); err != nil || m.n < 1 ||
				m.n > maxTogether {
				return nil, 0, wrong(part)
			}
			words = words[1:]
		}
		if len(words) == 2 && words[0] == "cost" {
			if m.cost, err = strconv.ParseInt(words[1], 10, 64); err != nil || m.cost < 1 {
				return nil, 0, wrong(part)
			}
			words = nil
		}
		if len(words) > 0 || len(moves) > 0 && m.at < moves[len(moves)-1].at {
			return nil, 0, wrong(part)
		}
		moves = append(moves, m)
	}
	if len(moves) == 0 {
		return nil, 0, fmt.Errorf("is empty: type times such as 4.8s x5, 5.2s x5, every 15s")
	}
	if last := moves[len(moves)-1].at; every != 0 && every <= last {
		return nil, 0, fmt.Errorf("starts again after %d ms, which is before its end", every/1000)
	}
	return moves, every, nil
}

// next returns the next requests of the stream: time, number and cost, which is 0 for the cost of
// the setup. ok is false if there are no more.
func (t *traffic) next() (m move, ok bool) {
	switch t.kind {
	case steady, burst:
		n := int64(1)
		if t.kind == burst {
			n = t.size
		}
		t.sent++
		// Adding up rounded gaps would drift.
		micros, units := float64(t.rate.Period.Microseconds()), float64(t.rate.Units)
		high := float64(t.sent) * float64(n) * micros / units
		return move{at: int64(math.Min(high, 1<<52)), n: n}, true
	case poisson:
		mean := float64(t.rate.Period.Microseconds()) / float64(t.rate.Units)
		t.at += int64(-math.Log(1-t.random.Float64()) * mean)
		return move{at: t.at, n: 1}, true
	case script:
		round, i := t.sent/int64(max(1, len(t.moves))), t.sent%int64(max(1, len(t.moves)))
		if len(t.moves) == 0 || round > 0 && t.every == 0 {
			return move{}, false
		}
		t.sent++
		m = t.moves[i]
		m.at += round * t.every
		return m, true
	}
	return move{}, false
}
