package gate

import (
	"net/http"
	"testing"
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
