package main

import (
	"errors"
	"fmt"
	"io"

	"github.com/weir-go/weir/cmd/weir/internal/visible"
)

// The exit codes of every command. They are in the manual of each: scripts depend on them.
const (
	exitDone     = 0
	exitFound    = 1 // the command did its work, and the answer is bad news
	exitUnusable = 2 // it could not do its work: a flag, a file or a server
)

// errFound is the error of a command that has printed bad news itself, such as the
// mistakes of a file. The exit code is 1.
var errFound = errors.New("found")

// exitCode returns the exit code for err, and prints it unless it is [errFound].
func exitCode(err error, errOut io.Writer) int {
	switch {
	case err == nil:
		return exitDone
	case errors.Is(err, errFound):
		return exitFound
	}
	fmt.Fprintf(errOut, "weir: %s\n", visible.Text(err.Error())) // it may quote a page or a file
	return exitUnusable
}
