package shed

import (
	"encoding/xml"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/internal/proof/overload"
)

// Each contestant is at work: nothing breaks down under load, and all that shed leave more than it does.
func TestContestantsShed(t *testing.T) {
	var pool *overload.Scenario
	for _, s := range overload.Scenarios() {
		if s.Name == "pool" {
			pool = s
		}
	}
	for _, c := range Contestants() {
		synctest.Test(t, func(t *testing.T) {
			x := pool.Run(c.Make(pool), overload.Options{Load: 2, Seed: 1})
			switch good := x.Goodput() / pool.Capacity(0); {
			case c.Name == "nothing" && (x.Shed != 0 || good > 0.1):
				t.Errorf("nothing: %d shed, goodput %.3f of the capacity", x.Shed, good)
			case c.Name != "nothing" && (x.Shed == 0 || good < 0.5):
				t.Errorf("%s: %d shed, goodput %.3f of the capacity", c.Name, x.Shed, good)
			}
		})
	}
}

func TestVegasKeepsFewWaiting(t *testing.T) {
	v := &vegas{steady: true}
	const ms = 1_000_000
	for _, c := range []struct{ mean, want float64 }{{50 * ms, 21}, {55 * ms, 21}, {60 * ms, 20}, {70 * ms, 19}} {
		if got := v.update(20, 50*ms, time.Duration(c.mean), 20); got != c.want {
			t.Errorf("limit 20, 50 ms without a queue and %v with: next limit %v, want %v", time.Duration(c.mean), got,
				c.want)
		}
	}
}

func TestGradient2LowersTheLimitWhenLatencyRises(t *testing.T) {
	g := new(gradient2)
	const ms = 1_000_000
	steady := g.update(100, 0, 50*ms, 100)
	if steady <= 100 {
		t.Errorf("limit 100 at the usual latency becomes %v", steady)
	}
	if slow := g.update(100, 0, 200*ms, 100); slow >= 100 {
		t.Errorf("limit 100 at four times the usual latency becomes %v", slow)
	}
}

func TestTheAboutOfEveryPictureFits(t *testing.T) {
	for _, s := range overload.Scenarios() {
		lines := wrap(s.About)
		if len(lines) > 2 {
			t.Errorf("%s: %d lines, want at most 2", s.Name, len(lines))
		}
		for _, line := range lines {
			if len(line) > letters {
				t.Errorf("%s: %q has %d letters, want at most %d", s.Name, line, len(line), letters)
			}
		}
	}
}

func TestPicturesAreXML(t *testing.T) {
	p := Picture{Title: "a title", Top: 1, Lines: []Line{{Name: "one", Points: make([]float64, len(Loads))}}}
	var b strings.Builder
	if err := p.WriteSVG(&b); err != nil {
		t.Fatal(err)
	}
	d := xml.NewDecoder(strings.NewReader(b.String()))
	for {
		if _, err := d.Token(); err == io.EOF {
			return
		} else if err != nil {
			t.Fatal(err)
		}
	}
}
