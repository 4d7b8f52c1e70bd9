package policy_test

import (
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/policy"
)

type request = *http.Request

// names supplies what the files in testdata use.
var names = policy.Names[request]{
	Keys:  map[string]func(request) (string, error){"user": header("X-User")},
	Plans: map[string]func(request) (string, error){"plan": header("X-Plan")},
	Costs: map[string]func(request) int64{"report-size": func(r request) int64 { return r.ContentLength }},
}

func header(name string) func(request) (string, error) {
	return func(r request) (string, error) {
		if v := r.Header.Get(name); v != "" {
			return v, nil
		}
		return "", core.ErrAbsent
	}
}

func TestGoodFilesLoad(t *testing.T) {
	paths, err := filepath.Glob("testdata/good/*")
	if err != nil || len(paths) == 0 {
		t.Fatal(paths, err)
	}
	for _, path := range paths {
		p, err := policy.Load(path, names)
		if err != nil {
			t.Errorf("%v", err)
			continue
		}
		if _, err := core.New(core.Config[request]{Rules: p.Rules()}); err != nil {
			t.Errorf("%s: %v", path, err)
		}
		text, _ := os.ReadFile(path)
		if err := policy.Check(path, text); err != nil {
			t.Error(err)
		}
	}
}
