package watch

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
)

// opaque is a writer with no optional method, and plain one with Unwrap alone.
type opaque struct{ w http.ResponseWriter }

func (o opaque) Header() http.Header         { return o.w.Header() }
func (o opaque) Write(p []byte) (int, error) { return o.w.Write(p) }
func (o opaque) WriteHeader(status int)      { o.w.WriteHeader(status) }

type plain struct{ opaque }

func (p plain) Unwrap() http.ResponseWriter { return p.w }

func TestWhatIsBehindAPlainWriterIsNoted(t *testing.T) {
	for _, test := range []struct {
		name            string
		outside         http.ResponseWriter
		flushes, hijack bool
	}{
		{"both", plain{opaque{able{httptest.NewRecorder()}}}, true, true},
		{"both, further away", plain{opaque{plain{opaque{able{httptest.NewRecorder()}}}}}, true, true},
		{"flush", plain{opaque{httptest.NewRecorder()}}, true, false},
		{"none", plain{opaque{opaque{httptest.NewRecorder()}}}, false, false},
		{"nobody unwraps", opaque{able{httptest.NewRecorder()}}, false, false},
	} {
		for _, do := range []struct {
			name   string
			by     func(*http.ResponseController) error
			can    bool
			status int
		}{
			{"flush", func(c *http.ResponseController) error { return c.Flush() }, test.flushes, 200},
			{"hijack", func(c *http.ResponseController) error { _, _, err := c.Hijack(); return err }, test.hijack, 101},
		} {
			told := new(counter)
			w, watched := Around(test.outside, told)
			err := do.by(http.NewResponseController(w))
			status, written := watched.Answer(nil)
			switch {
			case do.can && (err != nil || told.calls != 1 || !written || status != do.status):
				t.Errorf("%s: %s: %v, told %d times, status %d", test.name, do.name, err, told.calls, status)
			case !do.can && (!errors.Is(err, http.ErrNotSupported) || told.calls != 0 || written):
				t.Errorf("%s: %s: %v, told %d times, status %d, want it not supported", test.name, do.name, err, told.calls, status)
			}
		}
	}
}

func TestStreamIsToldOnceWhateverIsBehind(t *testing.T) {
	told := new(counter)
	w, _ := Around(plain{opaque{able{httptest.NewRecorder()}}}, told)
	if !Stream(plain{opaque{w}}) || Stream(w) || told.calls != 1 {
		t.Errorf("told %d times", told.calls)
	}
}
