package shed_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/weir-go/weir/internal/http/shedgate"
	"github.com/weir-go/weir/shed"
)

// neverSent is a framework that sends the answer of a time-out instead of the one that is pending.
type neverSent struct{}

func (neverSent) Pending(*http.Request, error, bool) bool { return true }
func (neverSent) OnSent(*http.Request, func(int, int64))  {}

func TestAfterATimeOutOutsideARequestIsInFlightNoMore(t *testing.T) {
	s := shed.MustNew(shed.Options[*http.Request]{Limit: 1})
	gate := shedgate.New(s, shedgate.Config[*http.Request]{Sending: neverSent{}})
	ctx, timeOut := context.WithCancel(t.Context())
	r := httptest.NewRequestWithContext(ctx, "GET", "/", nil)
	late := errors.New("late")
	err := gate.Serve(httptest.NewRecorder(), r, r, func(http.ResponseWriter, *http.Request) error {
		timeOut()
		return late
	})
	if n := s.State().InFlight; err != late || n != 0 {
		t.Errorf("%d are in flight, %v", n, err)
	}
}
