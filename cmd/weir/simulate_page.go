package main

import (
	"fmt"
	"os"
	"path/filepath"

	simreport "github.com/weir-go/weir/cmd/weir/internal/report"
	"github.com/weir-go/weir/cmd/weir/internal/simulate"
	"github.com/weir-go/weir/cmd/weir/internal/visible"
)

// checkPage rejects a name for a page before the logs are read. It protects the inputs: a page must
// not overwrite a log.
func checkPage(name string, inputs ...string) error {
	info, err := os.Stat(name)
	if err != nil {
		if dir := filepath.Dir(name); !isDirectory(dir) {
			return fmt.Errorf("--html %s: there is no directory %s: make it first",
				visible.Name(name), visible.Name(dir))
		}
		return nil
	}
	if info.IsDir() {
		return fmt.Errorf("--html %s: is a directory: name a file in it, such as report.html",
			visible.Name(name))
	}
	for _, input := range inputs {
		if other, err := os.Stat(input); err == nil && os.SameFile(info, other) &&
			info.Mode().IsRegular() {
			return fmt.Errorf("--html %s: the command reads this file: name another",
				visible.Name(name))
		}
	}
	return nil
}

func isDirectory(name string) bool {
	info, err := os.Stat(name)
	return err == nil && info.IsDir()
}

func writePage(name string, r *simulate.Report) error {
	file, err := os.Create(name)
	if err != nil {
		return fmt.Errorf("--html: %w", visible.Error(err))
	}
	if err := simreport.HTML(file, r); err != nil {
		file.Close()
		return fmt.Errorf("--html: %w", visible.Error(err))
	}
	return file.Close()
}
