package headers_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/weir-go/weir/headers"
)

func TestWhatOthersDoToTheFieldsIsUndone(t *testing.T) {
	mine := decided(t, []published{perHour}, allowed(500, 30*time.Minute, time.Hour))
	for _, tt := range []struct {
		name    string
		formats []headers.Format
		do      func(http.Header)
		want    func(h http.Header) // does to the fields as they were what is right; nil: nothing
	}{
		{"a cleared header", nil, func(h http.Header) { clear(h) }, nil},
		{"a cleared header, of other formats", []headers.Format{headers.Draft6, headers.GitHub},
			func(h http.Header) { clear(h) }, nil},
		{"a doubled field", nil, func(h http.Header) { h.Add("RateLimit", "x") }, nil},
		{"another answer's", nil, func(h http.Header) { h.Set("RateLimit", h.Get("RateLimit")+"0") }, nil},
		{"members of a limiter inside", nil, func(h http.Header) { h.Set("RateLimit", h.Get("RateLimit")+", x") },
			func(h http.Header) { h.Set("RateLimit", h.Get("RateLimit")+", x") }},
		{"numbers of a limiter inside", []headers.Format{headers.GitHub},
			func(h http.Header) { h.Set("X-RateLimit-Remaining", "0") },
			func(h http.Header) { h.Set("X-RateLimit-Remaining", "0") }},
		{"deleted on purpose", nil, headers.Delete, headers.Delete},
	} {
		options := headers.Options{Formats: tt.formats}
		w := writer(t, options, perHour)
		h := written(t, options, []published{perHour}, mine)
		right := h.Clone()
		if tt.want != nil {
			tt.want(right)
		}
		kept := w.Keep(h)
		if kept.Changed(h) {
			t.Errorf("%s: changed at once", tt.name)
		}
		tt.do(h)
		if kept.Changed(h) != (tt.want == nil) {
			t.Errorf("%s: changed: %v", tt.name, kept.Changed(h))
		}
		kept.Restore(h)
		if got, want := fmt.Sprint(sent(h)), fmt.Sprint(sent(right)); got != want {
			t.Errorf("%s: %s, want %s", tt.name, got, want)
		}
	}
}
