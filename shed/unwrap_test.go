package shed_test

import (
	"bufio"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/weir-go/weir/shed"
)

// logging is a writer of a middleware outside, with no optional interface but Unwrap, as
// http.ResponseController asks for.
type logging struct{ w http.ResponseWriter }

func (l logging) Header() http.Header         { return l.w.Header() }
func (l logging) Write(p []byte) (int, error) { return l.w.Write(p) }
func (l logging) WriteHeader(status int)      { l.w.WriteHeader(status) }
func (l logging) Unwrap() http.ResponseWriter { return l.w }

// A stream that the shedder does not hear of would be in flight until its client leaves.
func TestAStreamBehindAWriterThatOnlyUnwrapsIsNotInFlight(t *testing.T) {
	for name, stream := range map[string]func(c *http.ResponseController) error{
		"flush": func(c *http.ResponseController) error { return c.Flush() },
		"hijack": func(c *http.ResponseController) error {
			_, _, err := c.Hijack()
			return err
		},
	} {
		s := shed.MustNew(shed.Options[request]{})
		handler := shed.Handler(s, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			if err := stream(http.NewResponseController(w)); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			if state := s.State(); state.InFlight != 0 || state.Streams != 1 {
				t.Errorf("%s: %+v", name, state)
			}
		}))
		handler.ServeHTTP(logging{logging{&hijackable{httptest.NewRecorder(), nil}}}, httptest.NewRequest("GET", "/", nil))
		if state := s.State(); state.InFlight != 0 || state.Streams != 0 {
			t.Errorf("%s: left over: %+v", name, state)
		}
	}
}

// Handlers choose by optional interfaces what to do.
func TestAWriterDoesNotClaimWhatNobodyBehindItHas(t *testing.T) {
	handler := shed.Handler(shed.MustNew(shed.Options[request]{}), http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if _, ok := w.(http.Flusher); ok {
			t.Error("it claims to flush")
		}
		for {
			if _, ok := w.(http.Hijacker); ok {
				t.Errorf("%T claims to hijack", w)
			}
			inner, ok := w.(interface{ Unwrap() http.ResponseWriter })
			if !ok {
				return
			}
			w = inner.Unwrap()
		}
	}))
	handler.ServeHTTP(logging{httptest.NewRecorder()}, httptest.NewRequest("GET", "/", nil)) // a Flusher, no Hijacker
}

var _ interface {
	Hijack() (net.Conn, *bufio.ReadWriter, error)
} = (*hijackable)(nil)
