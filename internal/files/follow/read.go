package follow

import (
	"errors"
	"fmt"
	"io"
	"os"
)

// ErrNoFile is the error for a path that leads to no regular file.
var ErrNoFile = errors.New("is not a file")

// Read reads the file at path, up to one byte more than most. It opens regular files only: opening
// a device may have an effect.
func Read(path string, most int64) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s: %w", path, ErrNoFile)
	}
	return open(path, most)
}

// open opens path without blocking, in case it is no longer a regular file.
func open(path string, most int64) ([]byte, error) {
	file, err := os.OpenFile(path, os.O_RDONLY|nonBlocking, 0)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	if info, err := file.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s: %w", path, ErrNoFile)
	}
	return io.ReadAll(io.LimitReader(file, most+1))
}
