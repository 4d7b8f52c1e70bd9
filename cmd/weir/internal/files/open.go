// Package files opens the files named on a command line.
package files

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/weir-go/weir/cmd/weir/internal/visible"
)

// Open opens a file for reading. It rejects files that are not regular: opening a named pipe or
// reading a terminal would block. It accepts any file that the shell has already opened: standard
// input, and a process substitution such as /dev/fd/63. It also opens directories, which fail when
// they are read.
func Open(name string) (*os.File, error) {
	if info, err := os.Stat(name); err == nil { // otherwise os.Open reports the error
		if kind := kindOf(info.Mode()); kind != "" && !isDescriptor(name) {
			return nil,
				fmt.Errorf("%s is %s: save what comes from it as a file, and name that",
					visible.Name(name), kind)
		}
	}
	return os.Open(name)
}

// kindOf returns the kind of a file that is neither regular nor a directory, or "".
func kindOf(mode fs.FileMode) string {
	switch {
	case mode.IsRegular(), mode.IsDir():
		return ""
	case mode&fs.ModeNamedPipe != 0:
		return "a named pipe"
	case mode&fs.ModeSocket != 0:
		return "a socket"
	case mode&fs.ModeDevice != 0:
		return "a device"
	}
	return "no regular file"
}

// maxLinks is the number of symbolic links that are followed.
const maxLinks = 16

// isDescriptor reports whether name stands for an open file of a process: /dev/stdin, /dev/fd/63,
// /proc/self/fd/63, or a symbolic link to one. These are links to files that may have no name.
func isDescriptor(name string) bool {
	path, err := filepath.Abs(name)
	for range maxLinks {
		if err != nil {
			return false
		}
		directory, number := filepath.Split(path)
		switch {
		case path == "/dev/stdin", directory == "/dev/fd/":
			return true
		case strings.HasPrefix(directory, "/proc/") && strings.HasSuffix(directory, "/fd/"):
			return strings.Trim(number, "0123456789") == ""
		}
		if path, err = os.Readlink(path); !filepath.IsAbs(path) {
			path = filepath.Join(directory, path)
		}
	}
	return false
}
