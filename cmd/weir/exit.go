package main

import (
	"errors"
	"fmt"
	"io"

	"github.com/weir-go/weir/cmd/weir/internal/visible"
)

// The exit codes of all commands. The manual of each command lists them: scripts depend on them.
const (
	exitDone     = 0
	exitFound    = 1 // the command worked, and found mistakes or denials
	exitUnusable = 2 // the command cannot work: a flag, a file or a server
)

// errFound is the error of a command that has already printed its findings, such as the mistakes of
// a file. The exit code is 1.
var errFound = errors.New("found")

// exitCode returns the exit code for err. It prints err unless it is [errFound].
func exitCode(err error, errOut io.Writer) int {
	switch {
	case err == nil:
		return exitDone
	case errors.Is(err, errFound):
		return exitFound
	}
	// the error may quote a page or a file
	fmt.Fprintf(errOut, "weir: %s\n", visible.Text(err.Error()))
	return exitUnusable
}
