// Weir is the command of the weir rate limiter. It checks policy files, explains their effect on a
// request, and prints values for them.
//
//	weir check weir.yaml
//	weir explain --policy weir.yaml GET /reports/7
//	weir help
//
// "weir help check" is the manual of check.
package main

import (
	"io"
	"os"
	_ "time/tzdata" // to read policies with time zones on every machine
)

func main() {
	os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// run runs the command line args and returns the exit code.
func run(args []string, in io.Reader, out, errOut io.Writer) int {
	root := newRoot()
	root.SetArgs(args)
	root.SetIn(in)
	root.SetOut(out)
	root.SetErr(errOut)
	return exitCode(root.Execute(), errOut)
}
