package policy_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/policy"
	"github.com/weir-go/weir/shed"
)

const shedFile = `version: 1
rules: [{name: all, key: everybody, limit: 100/s}]
shed:
  slo: 300ms
  mode: shadow
  max-in-flight: 500
  exempt: [GET /healthz]
  classes:
    - {name: payments, match: POST /payments/}
    - {name: reads, match: [GET /api/], share: 70}
    - {name: rest}
`

func TestAFileSaysHowLoadIsShed(t *testing.T) {
	p, err := policy.Parse("p.yaml", []byte(shedFile), policy.Names[*http.Request]{})
	if err != nil {
		t.Fatal(err)
	}
	options, ok := p.Shed()
	if !ok || options.SLO != 300*time.Millisecond || options.MaxInFlight != 500 || options.Mode != core.Shadow {
		t.Fatalf("%+v, %v", options, ok)
	}
	want := []shed.Class{{Name: "payments"}, {Name: "reads", Share: 70}, {Name: "rest"}}
	for i, c := range options.Classes {
		if c != want[i] {
			t.Errorf("%+v, want %+v", c, want[i])
		}
	}
	for request, class := range map[string]int{
		"POST /payments/7": 0, "GET /payments/7": 2, "GET /api/x": 1, "HEAD /api/x": 1, "POST /api/x": 2,
		"POST /api/../payments/7": 2, "POST //payments/7": 2, "POST /payments%2F7": 2, // not beyond doubt
	} {
		method, path, _ := strings.Cut(request, " ")
		if got := options.Classify(httptest.NewRequest(method, path, nil)); got != class {
			t.Errorf("%s: class %d, want %d", request, got, class)
		}
	}
	for request, exempt := range map[string]bool{
		"GET /healthz": true, "HEAD /healthz": true, "POST /healthz": false, "GET //healthz": false, "GET /api": false,
	} {
		method, path, _ := strings.Cut(request, " ")
		if got := options.Exempt(httptest.NewRequest(method, path, nil)); got != exempt {
			t.Errorf("%s: exempt %v, want %v", request, got, exempt)
		}
	}
	if _, err := shed.New(options); err != nil {
		t.Error(err)
	}
	without, err := policy.Parse("p.yaml", []byte("version: 1\nrules: [{name: all, key: everybody, limit: 100/s}]\n"),
		policy.Names[*http.Request]{})
	if err != nil {
		t.Fatal(err)
	}
	if options, ok := without.Shed(); ok || options.Mode != core.Disabled {
		t.Errorf("a file without shed sheds: %+v, %v", options, ok)
	}
	changes := without.Changes(p)
	if len(changes) != 5 || changes[0].String() != "shed.slo: removed: 300ms" {
		t.Errorf("%v", changes)
	}
}

// requestless is the request of a framework that is not net/http.
type requestless struct{}

func TestPatternsOfShedNeedTheRequest(t *testing.T) {
	_, err := policy.Parse("p.yaml", []byte(shedFile), policy.Names[requestless]{})
	if err == nil || !strings.Contains(err.Error(), "p.yaml:7:12: shed: reads the request of net/http") {
		t.Errorf("%v", err)
	}
}

func TestAWatchedFileChangesHowLoadIsShed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "p.yaml")
		write := func(text string) {
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		write(shedFile)
		p, err := policy.Load(path, policy.Names[*http.Request]{})
		if err != nil {
			t.Fatal(err)
		}
		options, _ := p.Shed()
		shedder := shed.MustNew(options)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() {
			ended <- policy.WatchPolicy(ctx, p, func(p *policy.Policy[*http.Request]) error {
				options, _ := p.Shed()
				return shedder.Replace(options)
			}, policy.Options{})
		}()
		write(strings.Replace(shedFile, "mode: shadow", "mode: enforce", 1))
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if mode := shedder.State().Mode; mode != core.Enforce {
			t.Errorf("mode %v", mode)
		}
		cancel()
		<-ended
	})
}

func TestALimitOfOneLeavesTheFirstClassNoPlace(t *testing.T) {
	file := func(classes string) []byte {
		return []byte("version: 1\nrules: [{name: all, key: everybody, limit: 100/s}]\nshed:\n  max-in-flight: 1\n" +
			classes)
	}
	for classes, wrong := range map[string]bool{
		"":                           false,
		"  classes: [{name: all}]\n": false,
		"  classes: [{name: pay, match: POST /pay}, {name: rest, share: 100}]\n":           false,
		"  classes: [{name: pay, match: POST /pay}, {name: rest}]\n":                       true,
		"  classes: [{name: pay, match: POST /pay, share: 60}, {name: rest, share: 60}]\n": false,
	} {
		_, err := policy.Parse("p.yaml", file(classes), policy.Names[*http.Request]{})
		got := err != nil && strings.Contains(err.Error(), "max-in-flight must be at least 2 with these classes")
		if got != wrong || err != nil && !wrong {
			t.Errorf("%s%v", classes, err)
		}
	}
}
