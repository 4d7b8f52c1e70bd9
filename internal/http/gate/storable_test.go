package gate

import (
	"net/http"
	"testing"
	"time"
)

func TestSharedCachesStoreWhatIsSaidToBePublic(t *testing.T) {
	for text, want := range map[string]bool{
		"":                                   false,
		"public":                             true,
		"max-age=60":                         true,
		"S-MaxAge=60":                        true,
		" public , max-age=60":               true,
		"no-cache":                           false,
		"must-revalidate, max-age=60":        true,
		"private, max-age=60":                false,
		"max-age=60, private":                false,
		"max-age=60,no-store":                false,
		`private="Set-Cookie", max-age=60`:   true,
		`no-cache="public, max-age=60"`:      false,
		`no-cache="a\", public", stale=1`:    false,
		`extension="a, private", s-maxage=1`: true,
		`extension="\`:                       false,
		"publicly, x-max-age=60":             false,
		",,public":                           true,
	} {
		if got := isStorable(http.Header{"Cache-Control": {text}}); got != want {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
	if isStorable(http.Header{"Cache-Control": {"public", "no-store"}}) {
		t.Error("the second line does not count")
	}
}

// nginx 1.22.1 stores all of these that are storable here, and no other; the one with no-store only if
// X-Accel-Expires comes before it.
func TestSharedCachesStoreByExpiresToo(t *testing.T) {
	later := time.Now().Add(time.Hour).UTC().Format(http.TimeFormat)
	for _, tt := range []struct {
		h    http.Header
		want bool
	}{
		{http.Header{"Expires": {later}}, true},
		{http.Header{"Expires": {later}, "Cache-Control": {"private"}}, false},
		{http.Header{"Expires": {later}, "Cache-Control": {"no-store"}}, false},
		{http.Header{"Expires": {"Thu, 01 Jan 1970 00:00:00 GMT"}}, false},
		{http.Header{"Expires": {"0"}}, false},
		{http.Header{"X-Accel-Expires": {"60"}}, true},
		{http.Header{"X-Accel-Expires": {"60"}, "Cache-Control": {"no-store"}}, true},
		{http.Header{"X-Accel-Expires": {"0"}}, false},
	} {
		if got := isStorable(tt.h); got != tt.want {
			t.Errorf("%v: %v", tt.h, got)
		}
	}
}
