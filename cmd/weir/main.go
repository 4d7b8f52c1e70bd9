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
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	_ "time/tzdata" // to read policies with time zones on every machine

	"github.com/redis/go-redis/v9"
)

func main() {
	redis.SetLogger(clientLog{}) // of the whole process; it writes to stderr by itself otherwise
	os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// clientLog logs what the client of Redis says by slog.Default, which serve sets.
type clientLog struct{}

// Printf is the method that go-redis calls.
func (clientLog) Printf(ctx context.Context, format string, values ...any) {
	slog.WarnContext(ctx, fmt.Sprintf(format, values...))
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
