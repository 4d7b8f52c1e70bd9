package parity

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/limits"
)

var ruleNames = regexp.MustCompile(`"([a-z]+-(?:one|two))"`)

// setOf returns the set of rules, "one" or "two", that made an answer. It returns an error if the
// answer is of both sets or of none.
func setOf(a reply) (set string, err error) {
	fields := []string{a.header.Get("RateLimit"), a.header.Get("RateLimit-Policy")}
	if a.status == http.StatusTooManyRequests {
		var document struct {
			Violated []string `json:"violated-policies"`
		}
		if err := json.Unmarshal([]byte(a.body), &document); err != nil {
			return "", err
		}
		quoted, _ := json.Marshal(document.Violated)
		fields = append(fields, string(quoted))
	}
	for i, field := range fields {
		names := ruleNames.FindAllStringSubmatch(field, -1)
		if i < 2 && len(names) != 2 || len(names) == 0 {
			return "", fmt.Errorf("%q names %d rules", field, len(names))
		}
		for _, name := range names {
			_, of, _ := strings.Cut(name[1], "-")
			if set != "" && of != set {
				return "", fmt.Errorf("an answer by a mixture: %q", fields)
			}
			set = of
		}
	}
	return set, nil
}

// testReplacedUnderLoad replaces rules while 64 clients send requests, after every 22nd answer. So no
// request outlasts more changes than a gate remembers, however slow it is. One of the sets has a
// FinalCost. Both count in the same scopes.
func testReplacedUnderLoad[R any](t *testing.T, a Adapter[R]) {
	const clients, each, most, perChange = 64, 20, 900, 22
	var sets [2][]core.Rule[R]
	for i, suffix := range []string{"-one", "-two"} {
		for _, scope := range []string{"a", "b"} {
			rule := daily[R](scope+suffix, most)
			rule.Scope = scope
			sets[i] = append(sets[i], rule)
		}
	}
	var ends atomic.Int64
	sets[1][0].FinalCost = func(r core.Result) int64 {
		if r.Status != http.StatusOK || r.Bytes != 5 {
			t.Errorf("a request has ended with %+v", r)
		}
		return r.Cost
	}
	sets[1] = append(sets[1],
		core.Rule[R]{Name: "slots-two", Limit: limits.Concurrent(clients), Key: sets[1][0].Key,
			Mode: core.Shadow})
	limit, made := changing(sets[0]...)
	var decided atomic.Int64
	limit.Observer = core.ObserverFuncs[R]{
		OnDecision: func(context.Context, R, core.Outcome) { decided.Add(1) },
		Next:       limit.Observer,
	}
	limit.Observer = core.ObserverFuncs[R]{OnEnd: func(s limits.Settlement) {
		if s.Rule == "a-two" {
			ends.Add(1)
		}
	}, Next: limit.Observer}
	server := httptest.NewServer(a.Serve(t, App[R]{Site: limit}))
	t.Cleanup(server.Close)
	transport := &http.Transport{MaxIdleConnsPerHost: clients}
	t.Cleanup(transport.CloseIdleConnections)
	client := &http.Client{Transport: transport}

	changes := make(chan struct{}, clients*each/perChange)
	var replacing, asking sync.WaitGroup
	replacing.Go(func() {
		now := 0
		for range changes {
			now = 1 - now
			if err := (*made).Replace(sets[now]); err != nil {
				t.Error(err)
			}
		}
	})
	var answered atomic.Int64
	var allowed, allowedByTwo, denied atomic.Int64
	for range clients {
		asking.Go(func() {
			for range each {
				response, err := client.Get(server.URL + "/hello")
				if err != nil {
					t.Error(err)
					return
				}
				body, _ := io.ReadAll(response.Body)
				response.Body.Close()
				if answered.Add(1)%perChange == 0 {
					changes <- struct{}{}
				}
				set, err := setOf(reply{response.StatusCode, response.Header, string(body)})
				if err != nil {
					t.Errorf("%s: %v", response.Status, err)
				}
				switch {
				case response.StatusCode == http.StatusTooManyRequests:
					denied.Add(1)
				case response.StatusCode != http.StatusOK || string(body) != "hello":
					t.Errorf("%s: %s", response.Status, body)
				default:
					if allowed.Add(1); set == "two" {
						allowedByTwo.Add(1)
					}
				}
			}
		})
	}
	asking.Wait()
	close(changes)
	replacing.Wait()
	server.Close() // after Close all handlers have returned and all requests have ended
	if allowed.Load() != most || denied.Load() != clients*each-most || decided.Load() != clients*each {
		t.Errorf("%d allowed, %d denied, %d decided of %d, want %d allowed", allowed.Load(),
			denied.Load(), decided.Load(), clients*each, most)
	}
	if held := (*made).State().Held; held != 0 || ends.Load() != allowedByTwo.Load() {
		t.Errorf("%d units are held; %d ends of %d requests", held, ends.Load(), allowedByTwo.Load())
	}
}
