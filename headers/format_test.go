package headers_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/headers"
)

// allFormats are the formats that there are: those with a name.
func allFormats() (all []headers.Format) {
	for f := headers.IETF; !strings.HasPrefix(f.String(), "Format("); f++ {
		all = append(all, f)
	}
	return all
}

func TestFormatsThatWriteTheSameFieldAreRefusedTogether(t *testing.T) {
	policies := []published{perMinute}
	o := decided(t, policies, denied(0, 30*time.Second, time.Minute))
	_, unknown := headers.New(headers.Options{Formats: []headers.Format{0}}, policies)
	wrote := map[headers.Format]http.Header{}
	for _, f := range allFormats() {
		if !strings.Contains(unknown.Error(), f.String()) {
			t.Errorf("the error of an unknown format does not list %v: %v", f, unknown)
		}
		if !slices.ContainsFunc(everyFormat, func(set []headers.Format) bool { return slices.Contains(set, f) }) {
			t.Errorf("everyFormat has no set with %v", f)
		}
		h := written(t, headers.Options{Formats: []headers.Format{f}}, policies, o)
		h.Del("Retry-After")
		if len(h) == 0 {
			t.Errorf("a denial has no field of %v", f)
		}
		for other, fields := range wrote {
			_, err := headers.New(headers.Options{Formats: []headers.Format{other, f}}, policies)
			for field := range h {
				shared := field == "Ratelimit-Policy" && (other == headers.Draft6 || f == headers.Draft6)
				alike := field == "Retry-After-Ms" // one value for both
				if err == nil && fields[field] != nil && !shared && !alike {
					t.Errorf("%v and %v both write %s, and New accepts them", other, f, field)
				}
			}
		}
		wrote[f] = h
	}
}
