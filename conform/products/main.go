// Products measures the programs of its folders with package conform: limiters of many authors and
// languages, each pinned to a release, with the profile that says what it promises.
//
//	go run -C conform/products .                 # measures all, and prints the tables
//	go run -C conform/products . httprate nginx  # these two
//	go run -C conform/products . -write nginx    # writes results.json and docs/conformance.md, too
//	go run -C conform/products . -table          # writes docs/conformance.md from results.json
//
// A program whose tools the machine lacks is left out, and the output says so. The exit status is 1 if
// fewer than twelve could be measured, or if something that weir promises does not hold.
package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/weir-go/weir/conform"
)

// least is how many programs a run of all has to measure.
const least = 12

func main() {
	write := flag.Bool("write", false, "write results.json and the tables of docs/conformance.md")
	table := flag.Bool("table", false, "measure nothing, and write the tables from results.json")
	parallel := flag.Int("parallel", 2, "how many `programs` are measured at once")
	seed := flag.Uint64("seed", 0, "the `seed` of what is sent; 0: a new one for each program")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, flag.Args(), options{*write, *table, *parallel, *seed}); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

type options struct {
	write, table bool
	parallel     int
	seed         uint64
}

func run(ctx context.Context, names []string, o options) error {
	if o.table {
		m, err := readMeasurement(resultsFile)
		if err != nil {
			return err
		}
		return writeGuide(m)
	}
	all, err := products(".")
	if err != nil {
		return err
	}
	for _, name := range names {
		if !slices.ContainsFunc(all, func(p *product) bool { return p.Folder == name }) {
			return fmt.Errorf("there is no folder %s with a profile.yaml", name)
		}
	}
	if len(names) > 0 {
		all = slices.DeleteFunc(all, func(p *product) bool { return !slices.Contains(names, p.Folder) })
	}
	m := measure(ctx, all, o)
	if err := ctx.Err(); err != nil {
		return err
	}
	fmt.Print("\n", tables(m))
	if o.write {
		both, err := m.over(resultsFile)
		if err != nil {
			return err
		}
		if err := errors.Join(both.write(), writeGuide(both)); err != nil {
			return err
		}
	}
	return verdict(m, len(names) == 0)
}

// product is a program of a folder.
type product struct {
	Folder  string        // where it is
	Name    string        // with its version
	Day     string        `json:",omitempty"` // of the measurement
	Limit   string        `json:",omitempty"` // what it promises
	Key     string        `json:",omitempty"`
	Missing string        `json:",omitempty"` // why it was not measured
	Took    time.Duration `json:",omitempty"`
	Results []result      `json:",omitempty"`

	profile *conform.Profile
}

// products returns the programs of the folders in dir, by the names of the folders.
func products(dir string) (all []*product, err error) {
	paths, err := filepath.Glob(filepath.Join(dir, "*", "profile.yaml"))
	if err != nil {
		return nil, err
	}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		profile, err := conform.Parse(path, text)
		if err != nil {
			return nil, err
		}
		all = append(all, &product{Folder: filepath.Base(filepath.Dir(path)), Name: profile.Name, profile: profile})
	}
	return all, nil
}

// measure prepares the programs one after the other, since compilers need the whole machine, and then
// measures some at once, since most of their time is waiting.
func measure(ctx context.Context, all []*product, o options) *measurement {
	for _, p := range all {
		if ctx.Err() != nil {
			break
		}
		if p.Missing = p.lacks(); p.Missing == "" {
			p.Missing = p.prepare(ctx)
		}
		if p.Missing != "" {
			fmt.Printf("%s: not measured: %s\n", p.Name, p.Missing)
		}
	}
	var running sync.WaitGroup
	turns := make(chan struct{}, max(o.parallel, 1))
	for _, p := range all {
		if p.Missing != "" {
			continue
		}
		turns <- struct{}{}
		running.Go(func() {
			defer func() { <-turns }()
			p.measure(ctx, o.seed)
		})
	}
	running.Wait()
	return &measurement{all}
}

// measure makes all checks.
func (p *product) measure(ctx context.Context, seed uint64) {
	report, err := conform.Run(ctx, p.profile, conform.Options{Seed: seed})
	if err != nil {
		p.Missing = strings.ReplaceAll(err.Error(), "\n", " ")
		fmt.Printf("%s: not measured: %s\n", p.Name, p.Missing)
		return
	}
	p.Day = report.Began.Format(time.DateOnly)
	p.Limit, p.Key, p.Took = report.Limit, report.Key, report.Took.Round(time.Second)
	for _, r := range report.Results {
		p.Results = append(p.Results, result{r.Check, r.Verdict, r.Found})
	}
	fmt.Printf("%s: %d checks in %v\n", p.Name, len(p.Results), p.Took)
}

// prepare runs the command of the profile that fetches and compiles. It returns what is wrong.
func (p *product) prepare(ctx context.Context) string {
	command := p.profile.Prepare
	p.profile.Prepare = "" // it runs once
	if command == "" {
		return ""
	}
	began := time.Now()
	shell := exec.CommandContext(ctx, "sh", "-c", command)
	shell.Dir = p.Folder
	said, err := shell.CombinedOutput()
	if err != nil {
		lines := strings.Split(string(bytes.TrimSpace(said)), "\n")
		return fmt.Sprintf("%s: %v: %s", command, err, lines[len(lines)-1])
	}
	fmt.Printf("%s: prepared in %v\n", p.Name, time.Since(began).Round(time.Second))
	return ""
}

// resultOf returns what a check has found, or nil.
func (p *product) resultOf(check string) *result {
	for i := range p.Results {
		if p.Results[i].Check == check {
			return &p.Results[i]
		}
	}
	return nil
}

// tools are the programs that files of a folder need.
var tools = []struct{ file, programs string }{
	{"main.go", "go"}, {"package.json", "npm"}, {"requirements.txt", "python3"}, {"pom.xml", "mvn java javac"},
	{"Cargo.toml", "cargo"}, {"weir.yaml", "go"},
	{"nginx.conf", "nginx"}, {"envoy.yaml", "envoy"}, {"dynamic.yaml", "traefik"}, {"haproxy.cfg", "haproxy"},
}

// programs returns the programs that the files of the folder need.
func (p *product) programs() (programs []string) {
	for _, t := range tools {
		if _, err := os.Stat(filepath.Join(p.Folder, t.file)); err == nil {
			programs = append(programs, strings.Fields(t.programs)...)
		}
	}
	return programs
}

// lacks says which program the machine lacks.
func (p *product) lacks() string {
	programs := p.programs()
	if p.profile.Store != "" {
		programs = append(programs, "redis-server")
	}
	for _, program := range programs {
		_, err := exec.LookPath(program)
		if err != nil {
			_, err = exec.LookPath("/usr/sbin/" + program)
		}
		if err != nil {
			return "the machine lacks " + program
		}
	}
	return ""
}

// verdict returns an error if too few were measured, or if weir does not keep what it promises.
func verdict(m *measurement, all bool) error {
	var errs []error
	measured := 0
	for _, p := range m.Products {
		ours := strings.HasPrefix(p.Folder, "weir-")
		if len(p.Results) > 0 {
			measured++
		} else if ours {
			errs = append(errs, fmt.Errorf("%s was not measured", p.Folder))
		}
		for _, r := range p.Results {
			if ours && r.Verdict == conform.Fails {
				errs = append(errs, fmt.Errorf("%s, %s: %s", p.Name, r.Check, cmp.Or(r.Found, string(r.Verdict))))
			}
		}
	}
	if all && measured < least {
		errs = append(errs, fmt.Errorf("%d programs were measured, want %d at least", measured, least))
	}
	return errors.Join(errs...)
}
