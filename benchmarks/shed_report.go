package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/weir-go/weir/benchmarks/shed"
	"github.com/weir-go/weir/benchmarks/table"
	"github.com/weir-go/weir/internal/proof/overload"
)

// reportShed prints how limiters of requests in flight protect overloaded services, in virtual
// time. Each round has a seed of its own, starting with SEED or 1. SCENARIO selects a single
// scenario; IMAGES names a directory for pictures.
func reportShed(rounds int) error {
	first := firstSeed()
	fmt.Printf("## shed: overload in virtual time\n\n"+
		"Seeds %d to %d. Latencies count from the intended start; arrivals are Poisson. Nothing "+
		"here depends on the machine.\n\n", first, first+uint64(rounds)-1)
	var all []*shed.Judgement
	for _, s := range overload.Scenarios() {
		if only := os.Getenv("SCENARIO"); only != "" && only != s.Name {
			continue
		}
		j, err := judge(s, rounds)
		if err != nil {
			return err
		}
		all = append(all, j)
		printScenario(j)
		if directory := os.Getenv("IMAGES"); directory != "" {
			if err := writePicture(filepath.Join(directory, "shed-"+s.Name+".svg"), j); err != nil {
				return err
			}
		}
	}
	printBars(all)
	return nil
}

// firstSeed returns SEED, or 1. New seeds test whether constants were fitted to the old ones.
func firstSeed() uint64 {
	if seed, err := strconv.ParseUint(os.Getenv("SEED"), 10, 64); err == nil {
		return seed
	}
	return 1
}

// workShed is a child that judges the named scenario, with the number of seeds after a comma.
func workShed(scenario string) {
	name, rounds, _ := strings.Cut(scenario, ",")
	n, _ := strconv.Atoi(rounds)
	var seeds []uint64
	for i := range n {
		seeds = append(seeds, firstSeed()+uint64(i))
	}
	os.Args = os.Args[:1]
	// Only a test can run a bubble.
	testing.Main(func(string, string) (bool, error) { return true, nil },
		[]testing.InternalTest{{Name: name, F: func(t *testing.T) {
			for _, s := range overload.Scenarios() {
				if s.Name == name {
					j := shed.Judge(s, seeds,
						func(f func()) { synctest.Test(t, func(*testing.T) { f() }) })
					if err := json.NewEncoder(os.Stdout).Encode(j); err != nil {
						t.Error(err)
					}
				}
			}
		}}}, nil, nil)
}

// judge judges a scenario in a process of its own.
func judge(s *overload.Scenario, rounds int) (*shed.Judgement, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	child := exec.Command(self, "child", "shed", fmt.Sprintf("%s,%d", s.Name, rounds))
	child.Env = append(os.Environ(), "GOMAXPROCS=1")
	child.Stderr = os.Stderr
	said, err := child.Output()
	if err != nil {
		return nil, fmt.Errorf("shed: scenario %s: %w", s.Name, err)
	}
	j := &shed.Judgement{Scenario: s}
	if err := json.NewDecoder(bytes.NewReader(said)).Decode(j); err != nil {
		return nil, fmt.Errorf("shed: scenario %s: %w", s.Name, err)
	}
	return j, nil
}

func percent(x float64) string { return fmt.Sprintf("%.2f%%", 100*x) }

func seconds(x float64) string {
	if x < 0 {
		return "never"
	}
	return fmt.Sprintf("%.1f", x)
}

func printScenario(j *shed.Judgement) {
	s := j.Scenario
	fmt.Printf("### %s\n\n%s. Capacity %.0f requests a second, SLO %v.\n\n", s.Name, s.About,
		s.Capacity(0), s.SLO)
	t := table.Table{Heads: []string{"goodput ÷ capacity, by load"}}
	for _, load := range shed.Loads {
		t.Heads = append(t.Heads, fmt.Sprintf("%g", load))
	}
	t.Heads = append(t.Heads, fmt.Sprintf("%g, a retry each", shed.RetriedLoad), "shed at 0.8",
		"p50 at 3, ms", "p99 at 3, ms", "first shed at 3, s")
	add := func(name string, row shed.Row, retried shed.Cell) {
		cells := []string{name}
		at := map[float64]shed.Cell{}
		for i, load := range shed.Loads {
			cells = append(cells, fmt.Sprintf("%.3f", row[i].Goodput/s.Work()))
			at[load] = row[i]
		}
		t.Add(
			append(cells, fmt.Sprintf("%.3f", retried.Goodput/s.Work()), percent(at[0.8].False),
				table.Number(at[3].P50), table.Number(at[3].P99), seconds(at[3].FirstShed))...)
	}
	add(fmt.Sprintf("best fixed limit, %d", j.Best), j.Fixed, j.Retried[""])
	for _, c := range shed.Contestants() {
		add(c.Name, j.Rows[c.Name], j.Retried[c.Name])
	}
	t.Print(os.Stdout)
}

// worst returns the least ratio of our goodput to another's, over all loads.
func worst(ours, other shed.Row) float64 {
	least := math.Inf(1)
	for i := range ours {
		least = min(least, ours[i].Goodput/max(other[i].Goodput, 1e-9))
	}
	return least
}

func printBars(all []*shed.Judgement) {
	for _, c := range shed.Contestants() {
		if !c.Weir {
			continue
		}
		fmt.Printf("### %s: the least part of another's goodput at any load, and the other "+
			"targets\n\n", c.Name)
		t := table.Table{Heads: []string{"", "best fixed"}}
		targets := []string{"*target*", "*≥ 0.95*"}
		for _, peer := range shed.Contestants() {
			if peer.Library {
				t.Heads = append(t.Heads, peer.Name)
				targets = append(targets, "*≥ 0.98*")
			}
		}
		t.Heads = append(t.Heads, "false sheds at 0.8", "first shed at 3, s", "recovered, s",
			"critical at 3", "all at 3")
		t.Add(append(targets, "*≤ fixed + 0.1%*", "*≤ 2*", "*≤ 5*", "*≥ 0.99*", "")...)
		for _, j := range all {
			t.Add(bars(j, c.Name)...)
		}
		t.Print(os.Stdout)
	}
}

func bars(j *shed.Judgement, name string) []string {
	ours := j.Rows[name]
	mark := func(text string, ok bool) string { return text + " " + table.Mark(ok) }
	ratio := func(x, bar float64) string { return mark(fmt.Sprintf("%.3f", x), x >= bar) }
	cells := []string{j.Scenario.Name, ratio(worst(ours, j.Fixed), 0.95)}
	for _, peer := range shed.Contestants() {
		if peer.Library {
			cells = append(cells, ratio(worst(ours, j.Rows[peer.Name]), 0.98))
		}
	}
	at := func(row shed.Row, load float64) shed.Cell {
		for i, l := range shed.Loads {
			if l == load {
				return row[i]
			}
		}
		panic("no such load")
	}
	calm := at(ours, 0.8)
	cells = append(cells, mark(percent(calm.False), calm.False <= at(j.Fixed, 0.8).False+0.001))
	first := at(ours, 3).FirstShed
	if j.Scenario.Capacity(0) >= 20 {
		cells = append(cells, mark(seconds(first), first >= 0 && first <= 2))
	} else {
		cells = append(cells, seconds(first))
	}
	switch {
	case j.Scenario.End == 0:
		cells = append(cells, "")
	case j.Scenario.Name == "spike":
		after := at(ours, 5).AfterEnd
		cells = append(cells, mark(seconds(after), after <= 5))
	default:
		after := at(ours, 0.8).AfterEnd
		cells = append(cells, mark(seconds(after), after <= 5))
	}
	if j.Scenario.Trouble.To > 0 {
		return append(cells, fmt.Sprintf("(%.4f)", j.Critical), fmt.Sprintf("%.3f", j.All))
	}
	return append(cells, mark(fmt.Sprintf("%.4f", j.Critical), j.Critical >= 0.99),
		fmt.Sprintf("%.3f", j.All))
}

func writePicture(path string, j *shed.Judgement) error {
	p := shed.Picture{Title: j.Scenario.Name, About: j.Scenario.About, Top: 1.1}
	points := func(row shed.Row) (out []float64) {
		for _, c := range row {
			out = append(out, c.Goodput/j.Scenario.Work())
		}
		return out
	}
	add := func(name string, row shed.Row, strong bool) {
		p.Lines = append(p.Lines, shed.Line{Name: name, Points: points(row), Strong: strong})
	}
	add("nothing", j.Rows["nothing"], false)
	add(fmt.Sprintf("best fixed limit, %d", j.Best), j.Fixed, false)
	for _, c := range shed.Contestants() {
		if c.Library {
			add(c.Name, j.Rows[c.Name], false)
		}
	}
	add("weir", j.Rows["weir"], true)
	highest := 0.0
	for _, line := range p.Lines {
		for _, y := range line.Points {
			highest = max(highest, y)
		}
	}
	if highest < 0.8 {
		p.Top = 0.8
	}
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer f.Close()
	return p.WriteSVG(f)
}
