package serve

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"slices"
	"time"

	"github.com/weir-go/weir/gateway/descriptors"
)

// sorted is what the paths of a Config are.
type sorted struct {
	policy string   // the policy file; "": none
	limits []string // files of limits by descriptors, and directories with such files
	others []string // directories without such files
}

// sort tells which of the paths, or of the files in directories, is the policy file.
func sort(paths []string) (all sorted, err error) {
	var policies []string
	for _, path := range paths {
		info, err := os.Stat(path)
		if errors.Is(err, fs.ErrNotExist) {
			return sorted{}, fmt.Errorf("there is no file or directory %s: check the name", path)
		} else if err != nil {
			return sorted{}, err
		}
		if info.IsDir() {
			limits, names, err := descriptors.Sort(path)
			if err != nil {
				return sorted{}, err
			}
			policies = append(policies, names...)
			if len(limits) > 0 {
				all.limits = append(all.limits, path)
			} else {
				all.others = append(all.others, path)
			}
			continue
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return sorted{}, err
		}
		if descriptors.Recognize(text) {
			all.limits = append(all.limits, path)
		} else {
			policies = append(policies, path)
		}
	}
	if len(policies) > 1 {
		return sorted{}, fmt.Errorf("%s and %s are both policy files: there may be one",
			policies[0], policies[1])
	}
	if policies != nil {
		all.policy = policies[0]
	}
	return all, nil
}

// newcomers logs files that come into directories that had only the policy file. They have no
// effect: which files a service has is found out when it begins. Directories with files of limits
// have a [descriptors.Watcher].
type newcomers struct {
	directories []string
	policy      string
	logger      *slog.Logger
	known       []string
}

// follow looks at the directories every two seconds until ctx ends.
func (n *newcomers) follow(ctx context.Context) {
	ticker := time.NewTicker(2 * time.Second)
	defer ticker.Stop()
	for {
		n.look()
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// look logs a line for each file that is new.
func (n *newcomers) look() {
	for _, directory := range n.directories {
		limits, policies, err := descriptors.Sort(directory)
		if err != nil {
			continue // who follows the policy file says so
		}
		for _, name := range limits {
			n.note(name, "serve: a file of limits is new in a directory that had none, and has no effect: "+
				"restart the service")
		}
		for _, name := range policies {
			if name != n.policy {
				n.note(name, "serve: a policy file is new beside the one in force, and has no effect: "+
					"move its rules into that one")
			}
		}
	}
}

func (n *newcomers) note(name, text string) {
	if !slices.Contains(n.known, name) {
		n.known = append(n.known, name)
		n.logger.Warn(text, "file", name)
	}
}
