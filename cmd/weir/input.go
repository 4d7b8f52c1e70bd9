package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/weir-go/weir/cmd/weir/internal/files"
	"github.com/weir-go/weir/cmd/weir/internal/visible"
)

// maxInput is the number of bytes read of a file: one more than a file of descriptors may have.
const maxInput = 4<<20 + 1

// readInput reads the named file, or standard input for "-". It also returns the name for messages.
func readInput(c *cobra.Command, name string) (shown string, text []byte, err error) {
	if name == "-" {
		waitForTyping(c, "the file")
		text, err = io.ReadAll(io.LimitReader(c.InOrStdin(), maxInput))
		return "standard input", text, err
	}
	file, err := files.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return name, nil, fmt.Errorf("there is no file %s: check the name", visible.Name(name))
	} else if err != nil {
		return name, nil, visible.Error(err)
	}
	defer file.Close()
	if info, err := file.Stat(); err == nil && info.IsDir() {
		return name, nil, fmt.Errorf("%s is a directory: name the files in it", visible.Name(name))
	}
	text, err = io.ReadAll(io.LimitReader(file, maxInput))
	return name, text, visible.Error(err)
}

// waitForTyping prints a prompt if standard input is a terminal.
func waitForTyping(c *cobra.Command, input string) {
	if isTerminal(c.InOrStdin()) {
		fmt.Fprintf(c.ErrOrStderr(), "weir: type or paste %s, then Enter and Ctrl-D.\n", input)
	}
}

// isTerminal reports whether stream is a terminal.
func isTerminal(stream any) bool {
	file, ok := stream.(*os.File)
	if !ok {
		return false
	}
	info, err := file.Stat()
	if err != nil || info.Mode()&os.ModeCharDevice == 0 {
		return false
	}
	null, err := os.Stat(os.DevNull) // the null device is a character device, too
	return err != nil || !os.SameFile(info, null)
}

// count returns a number with a noun, such as "1 mistake" and "2 mistakes".
func count(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

// policyFiles completes the names of policy files.
func policyFiles(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return []string{"yaml", "yml", "json"}, cobra.ShellCompDirectiveFilterFileExt
}

// noFiles completes nothing.
func noFiles(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return nil, cobra.ShellCompDirectiveNoFileComp
}

// noArguments rejects arguments. Its error tells how to use the command.
func noArguments(instead string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) > 0 {
			return fmt.Errorf("%s takes no arguments (got %.80q): %s", c.Name(),
				strings.Join(args, " "), instead)
		}
		return nil
	}
}
