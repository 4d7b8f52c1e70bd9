package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"sync"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/keyfuncs"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/nethttp"
	"github.com/weir-go/weir/redisbackend"
)

// instance configures one of the servers that share a limit.
type instance struct {
	Redis string // URL
	Limit limits.Limit
	Lease time.Duration
}

// instanceDecision is the decision about one request, as an instance reports it.
type instanceDecision struct {
	At      int64 // Unix time in microseconds, by the clock of Redis
	Allowed bool
	Source  limits.Source
	Micros  float64 // in the middleware, until its answer or the next handler
}

// workInstance runs an instance in a process of its own. It prints its address, and when its
// input ends, all its decisions.
func workInstance(config string) {
	var c instance
	if err := json.Unmarshal([]byte(config), &c); err != nil {
		fail("instances: %v", err)
	}
	backend, err := redisbackend.Open(c.Redis, redisbackend.Options{
		Lease: c.Lease, Budget: time.Second, // a busy machine is no failure
	})
	if err != nil {
		fail("instances: %v", err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fail("instances: %v", err)
	}
	recorder := recorder{decisions: []instanceDecision{}}
	printReading("http://" + listener.Addr().String())
	go http.Serve(listener, recorder.handler(nethttp.Config{
		Backend: backend,
		Rules: []nethttp.Rule{{
			Name: "route", Limit: c.Limit, Key: keyfuncs.Constant[*http.Request]("all"),
		}},
	}))
	io.Copy(io.Discard, os.Stdin)
	recorder.mu.Lock()
	printReading(recorder.decisions)
}

// recorder records the decisions of a limiter.
type recorder struct {
	mu        sync.Mutex
	decisions []instanceDecision // guarded by mu
}

type decisionKey struct{}

// handler returns the middleware of c around a handler that answers 204.
func (r *recorder) handler(c nethttp.Config) http.Handler {
	c.Observer = core.ObserverFuncs[*http.Request]{
		OnDecision: func(ctx context.Context, _ *http.Request, o core.Outcome) {
			d := ctx.Value(decisionKey{}).(*instanceDecision)
			d.At, d.Allowed, d.Source = o.At(0).At, o.Allowed(), o.At(0).Source
		},
	}
	limited := nethttp.MustNew(c).Handler(http.HandlerFunc(
		func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }))
	return http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		var d instanceDecision
		ctx := context.WithValue(request.Context(), decisionKey{}, &d)
		start := time.Now()
		limited.ServeHTTP(w, request.WithContext(ctx))
		d.Micros = float64(time.Since(start).Nanoseconds()) / 1000
		r.mu.Lock()
		r.decisions = append(r.decisions, d)
		r.mu.Unlock()
	})
}

// runningInstance is an instance that has started.
type runningInstance struct {
	command *exec.Cmd
	input   io.Closer
	output  *json.Decoder
	address string
}

func (c instance) start() (r *runningInstance, err error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	config, err := json.Marshal(c)
	if err != nil {
		return nil, err
	}
	r = &runningInstance{command: exec.Command(self, "child", "instances", string(config))}
	r.command.Stderr = os.Stderr
	if r.input, err = r.command.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := r.command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := r.command.Start(); err != nil {
		return nil, err
	}
	r.output = json.NewDecoder(out)
	if err := r.output.Decode(&r.address); err != nil {
		r.kill()
		return nil, fmt.Errorf("the instance did not start: %w", err)
	}
	return r, nil
}

// stop ends an instance, and returns its decisions.
func (r *runningInstance) stop() (decisions []instanceDecision, err error) {
	defer r.kill()
	r.input.Close()
	if err := r.output.Decode(&decisions); err != nil {
		return nil, fmt.Errorf("the instance did not report: %w", err)
	}
	return decisions, nil
}

func (r *runningInstance) kill() {
	r.command.Process.Kill()
	r.command.Wait()
}

// within returns the decisions that Redis dates from start on, for a duration.
func within(all []instanceDecision, start time.Time, d time.Duration) []instanceDecision {
	from, until := start.UnixMicro(), start.Add(d).UnixMicro()
	return slices.DeleteFunc(slices.Clone(all), func(x instanceDecision) bool {
		return x.At < from || x.At >= until
	})
}
