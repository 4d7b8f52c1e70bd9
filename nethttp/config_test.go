package nethttp

import (
	"log/slog"
	"reflect"
	"testing"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/headers"
	"github.com/weir-go/weir/internal/http/gate"
	"github.com/weir-go/weir/limits/backends"
	"github.com/weir-go/weir/memory"
)

// An adapter hands on Denied itself, with the framework, and that of calls CountProbes.
func TestEveryFieldOfAConfigReachesTheGate(t *testing.T) {
	backend := func() backends.Backend { return memory.MustNew(memory.Options{}) }
	config := ConfigOf[int, bool]{
		Rules:            []core.Rule[int]{{Name: "a"}},
		Backend:          backend(),
		Fallback:         backend(),
		Instances:        3,
		Observer:         core.ObserverFuncs[int]{},
		Logger:           slog.New(slog.DiscardHandler),
		Headers:          headers.Options{Body: headers.Bots},
		SkipPreflight:    true,
		MaxWaiting:       4,
		OutcomeInContext: true,
		DrainLimit:       5,
	}
	var calls CallConfigOf[int, bool]
	from, to := reflect.ValueOf(config), reflect.ValueOf(&calls).Elem()
	for i := range to.NumField() {
		if to.Type().Field(i).Name == "CountProbes" {
			continue
		}
		to.Field(i).Set(from.FieldByName(to.Type().Field(i).Name))
	}
	var none gate.Framework[int]
	got, ofCalls := reflect.ValueOf(config.with(none)), reflect.ValueOf(calls.with(none))
	fields := 0
	for _, part := range []reflect.Type{got.Type(), reflect.TypeFor[core.Config[int]]()} {
		for i := range part.NumField() {
			field := part.Field(i)
			if field.Anonymous || field.Name == "MaxPromise" { // the gate takes it from Headers
				continue
			}
			fields++
			want := from.FieldByName(field.Name)
			switch {
			case !want.IsValid():
				t.Errorf("%v has no field %s", from.Type(), field.Name)
			case want.IsZero():
				t.Errorf("the test sets no %s", field.Name)
			case !reflect.DeepEqual(got.FieldByName(field.Name).Interface(), want.Interface()):
				t.Errorf("%v does not hand %s on", from.Type(), field.Name)
			case field.Name == "SkipPreflight", field.Name == "DrainLimit": // calls have neither
				fields--
			case !reflect.DeepEqual(ofCalls.FieldByName(field.Name).Interface(), want.Interface()):
				t.Errorf("%v does not hand %s on", to.Type(), field.Name)
			}
		}
	}
	if to.NumField() != fields+2 || from.NumField() != fields+3 {
		t.Errorf("%d and %d fields; the gate has %d", to.NumField(), from.NumField(), fields)
	}
}
