package main

import (
	"bytes"
	"compress/gzip"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/weir-go/weir/internal/proof/testrun"
)

// A page whose engine is of yesterday would decide as programs did yesterday.
func TestTheCommittedEngineIsThatOfTheSource(t *testing.T) {
	testrun.FullOnly(t, "builds the engine")
	want, err := build("..")
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range want {
		if committed, err := read(name); err != nil || !bytes.Equal(committed, content) {
			t.Errorf("page/%s is not what %s builds from the source (%v): run go generate in cmd/weir/playground, "+
				"and commit it", name, toolchain, err)
		}
	}
}

// read returns a committed file, unpacked.
func read(name string) ([]byte, error) {
	path := filepath.Join("..", "page", name)
	if filepath.Ext(name) != ".wasm" {
		return os.ReadFile(path)
	}
	f, err := os.Open(path + ".gz")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	r, err := gzip.NewReader(f)
	if err != nil {
		return nil, err
	}
	return io.ReadAll(r)
}
