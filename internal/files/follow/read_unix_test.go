//go:build unix

package follow

import (
	"errors"
	"path/filepath"
	"syscall"
	"testing"
)

// A named pipe may take the place of the file after it was looked at.
func TestANamedPipeIsNotWaitedFor(t *testing.T) {
	path := filepath.Join(t.TempDir(), "weir.yaml")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Skip(err)
	}
	for name, read := range map[string]func(string, int64) ([]byte, error){"read": Read, "open": open} {
		if text, err := read(path, 1); !errors.Is(err, ErrNoFile) {
			t.Errorf("%s: %q, %v", name, text, err)
		}
	}
}
