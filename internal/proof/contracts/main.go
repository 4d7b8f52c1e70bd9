// Contracts compares the table of versions in docs/contracts.md with what registries serve today,
// and tests the modules of the repository with those versions. Run it in the root of the
// repository, by .ci/contracts:
//
//	.ci/contracts                        # prints the rows that are behind; fails if there are any
//	.ci/contracts test                   # also tests each module, and prints two tables at the end
//	.ci/contracts test echo5mw           # one module
//	.ci/contracts with echo5mw go test . # runs a command in a module that requires these versions
//	.ci/contracts majors                 # asks for the next major version of each Go module
//
// It asks the registries by their own clients: go, npm and pip.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"
)

const document = "docs/contracts.md"

// patience is how long a client of a registry may take.
const patience = 5 * time.Minute

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(args []string) error {
	text, err := os.ReadFile(document)
	if err != nil {
		return err
	}
	rows, err := parse(string(text))
	if err != nil {
		return err
	}
	limit, err := goOf("go.mod")
	if err != nil {
		return err
	}
	served := registries{goLimit: limit, command: client}
	modules := workspace{rows: rows, command: exec.Command}
	switch {
	case len(args) == 0:
		return show(compare(served, rows))
	case args[0] == "majors" && len(args) == 1:
		return showMajors(served, rows)
	case args[0] == "with" && len(args) > 2:
		return modules.with(args[1], args[2:])
	case args[0] == "test":
		return testAll(served, modules, args[1:])
	}
	return fmt.Errorf(".ci/contracts has no form %q: call it without arguments, with majors, "+
		"with test and modules, or with a module and a command after with", strings.Join(args, " "))
}

// client is a command that asks a registry, outside any module.
func client(name string, args ...string) (*exec.Cmd, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = os.TempDir()
	cmd.WaitDelay = 10 * time.Second // for what it has started, and would wait for
	return cmd, cancel
}

// show prints the rows that are not what registries serve, also if err says that some did not answer.
func show(found []finding, err error) error {
	for _, f := range found {
		if f.note != "" {
			fmt.Printf("%s %s: %s\n", f.row.name, f.row.version, f.note)
		}
	}
	behind := countBehind(found)
	fmt.Printf("%d rows of %s were compared with what registries serve, %d are behind\n",
		len(found), document, behind)
	return errors.Join(err, behindError(behind))
}

func countBehind(found []finding) (n int) {
	for _, f := range found {
		if f.behind {
			n++
		}
	}
	return n
}

func behindError(behind int) error {
	if behind == 0 {
		return nil
	}
	return fmt.Errorf("%s is behind: write the newer version and the day into each row, and where "+
		"else the old version stands: git grep finds it. Then run the test of the row, for a Go "+
		"module by .ci/contracts test with the directory of its module. If it fails and weir cannot "+
		"be mended now, write the old version again, and \"`TestName` fails with VERSION\" in the "+
		"last column", document)
}

func showMajors(served registries, rows []row) error {
	majors, err := served.majors(rows)
	if err != nil {
		return err
	}
	for _, m := range majors {
		fmt.Println(m)
	}
	if len(majors) > 0 {
		return fmt.Errorf("%d modules have a newer major version that %s does not name",
			len(majors), document)
	}
	fmt.Println("no module has a newer major version")
	return nil
}

// testAll compares and tests, and prints both tables at the end.
func testAll(served registries, modules workspace, only []string) error {
	found, compareErr := compare(served, modules.rows)
	if compareErr != nil {
		fmt.Fprintln(os.Stderr, compareErr) // the tests run all the same
	}
	results, err := modules.test(only)
	if err != nil {
		return err
	}
	fmt.Printf("\n%s\n%s", findingTable(found), resultTable(results))
	var testsErr error
	for _, r := range results {
		if r.err != nil {
			testsErr = fmt.Errorf("tests fail with the versions of %s", document)
		}
	}
	return errors.Join(compareErr, testsErr, behindError(countBehind(found)))
}
