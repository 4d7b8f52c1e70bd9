package main

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/weir-go/weir/keyfuncs"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/nethttp"
)

func TestAnInstanceRecordsEachDecision(t *testing.T) {
	var r recorder
	handler := r.handler(nethttp.Config{Rules: []nethttp.Rule{{
		Name: "route", Limit: limits.FixedWindow(limits.Per(2, 24*time.Hour)),
		Key: keyfuncs.Constant[*http.Request]("all"),
	}}})
	before := time.Now().UnixMicro()
	for range 5 {
		handler.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil))
	}
	if len(r.decisions) != 5 {
		t.Fatalf("%d decisions, want 5", len(r.decisions))
	}
	allowed := 0
	for _, d := range r.decisions {
		if d.Allowed {
			allowed++
		}
		if d.At < before || d.At > time.Now().UnixMicro() || d.Micros <= 0 {
			t.Errorf("%+v: want an instant of this test, and a time", d)
		}
	}
	if allowed != 2 && allowed != 4 { // 4: the day has turned
		t.Errorf("%d are allowed, want 2", allowed)
	}
}

func TestOnlyDecisionsOfTheStretchCount(t *testing.T) {
	begin := time.Unix(1000, 0)
	var all []instanceDecision
	for i, at := range []time.Duration{-1 * time.Microsecond, 0, time.Second - time.Microsecond,
		time.Second, instancesStretch - time.Microsecond, instancesStretch} {
		all = append(all, instanceDecision{
			At: begin.Add(at).UnixMicro(), Allowed: i != 3, Micros: float64(i),
		})
	}
	all[2].Source = limits.SourceFallback
	got := summarize(within(all, begin, instancesStretch))
	want := instancesReading{offered: 0.4, admitted: 0.3, most: 2, p50: 3, p99: 4, alone: 1}
	if got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}
