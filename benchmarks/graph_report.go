package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"testing"
	"testing/synctest"

	"github.com/weir-go/weir/benchmarks/shed"
	"github.com/weir-go/weir/benchmarks/table"
	"github.com/weir-go/weir/internal/proof/overload"
)

// reportGraph prints how limiters protect a front and two services behind it, in virtual time. Each
// round has a seed of its own, as in reportShed.
func reportGraph(rounds int) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	child := exec.Command(self, "child", "graph", strconv.Itoa(rounds))
	child.Env = append(os.Environ(), "GOMAXPROCS=1")
	child.Stderr = os.Stderr
	said, err := child.Output()
	if err != nil {
		return fmt.Errorf("graph: %w", err)
	}
	all := make(map[string][]shed.GraphRow)
	if err := json.NewDecoder(bytes.NewReader(said)).Decode(&all); err != nil {
		return fmt.Errorf("graph: %w", err)
	}
	first := firstSeed()
	fmt.Printf("## graph: a front and two services, in virtual time\n\n"+
		"Seeds %d to %d, medians. Nothing here depends on the machine.\n\n",
		first, first+uint64(rounds)-1)
	least := make(map[string]float64)
	mean := make(map[string]float64)
	var names []string
	for _, g := range overload.Graphs() {
		fmt.Printf("### %s\n\n%s. Capacity %.0f requests a second.\n\n", g.Name, g.About,
			g.Capacity())
		t := table.Table{
			Heads: []string{"good answers ÷ those that can be, and a's work in vain, by load"},
		}
		for _, load := range shed.GraphLoads {
			t.Heads = append(t.Heads, fmt.Sprintf("%g", load))
		}
		for _, row := range all[g.Name] {
			if _, ok := least[row.Name]; !ok {
				names = append(names, row.Name)
				least[row.Name] = 2
			}
			cells := []string{row.Name}
			for i := range row.Good {
				cells = append(cells, fmt.Sprintf("%.3f, %.2f", row.Good[i], row.Vain[i]))
				least[row.Name] = min(least[row.Name], row.Good[i])
				mean[row.Name] += row.Good[i] / float64(len(row.Good)*len(all))
			}
			t.Add(cells...)
		}
		t.Print(os.Stdout)
		fmt.Println()
	}
	t := table.Table{Heads: []string{"good answers ÷ those that can be", "mean", "least"}}
	for _, name := range names {
		t.Add(name, fmt.Sprintf("%.3f", mean[name]), fmt.Sprintf("%.3f", least[name]))
	}
	t.Print(os.Stdout)
	fmt.Println()
	return nil
}

// workGraph is a child that judges all graphs with the given number of seeds.
func workGraph(rounds string) {
	n, _ := strconv.Atoi(rounds)
	var seeds []uint64
	for i := range n {
		seeds = append(seeds, firstSeed()+uint64(i))
	}
	os.Args = os.Args[:1]
	all := make(map[string][]shed.GraphRow)
	testing.Main(func(string, string) (bool, error) { return true, nil },
		[]testing.InternalTest{{Name: "graph", F: func(t *testing.T) {
			for _, g := range overload.Graphs() {
				all[g.Name] = shed.JudgeGraph(g, seeds,
					func(f func()) { synctest.Test(t, func(*testing.T) { f() }) })
			}
			if err := json.NewEncoder(os.Stdout).Encode(all); err != nil {
				t.Error(err)
			}
		}}}, nil, nil)
}
