package quota_test

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weir-go/weir/client/internal/quota"
)

// beside reports whether a good member of RateLimit is read that stands beside others. The fields of
// an older draft stand beside it: they count if RateLimit does not.
func beside(t *testing.T, others ...string) bool {
	t.Helper()
	h := http.Header{
		"Ratelimit":           append([]string{`"good";r=5;t=30`}, others...),
		"Ratelimit-Remaining": {"6"}, "Ratelimit-Reset": {"40"},
	}
	q, ok := quota.Of(h)
	if !ok || q.Left != 5 && q.Left != 6 {
		t.Errorf("beside %q: %+v, %v", others, q, ok)
	}
	return q.Left == 5
}

func TestAMalformedRateLimitIsIgnoredWhole(t *testing.T) {
	for _, others := range []string{
		"", "x y", `"x`, `"x";r=`, `"x";R=1`, `"x";r=1;;t=1`, `"x" ;r=1`, `"x";r=1;t=1.1234`, "x=1", "é",
		`"x";r=1;t=1;u="\n"`, "(a", "1000000000000000", ":a", "@1.5", `%"%C3"`, "?2", `"x",`, `"x";r=1 t=2`,
	} {
		if beside(t, others) {
			t.Errorf("read beside %q", others)
		}
	}
}

func TestMembersThatAreNoLimitsDoNotSpoilRateLimit(t *testing.T) {
	for _, others := range []string{
		"7;r=1;t=1", "1.5", `:YWJj:;r=1;t=1`, "?1;r=0;t=9", "@1795345200", `%"f%c3%bc";r=0;t=1`, "(a b);r=0;t=9",
		"()", `"";r=0;t=9`, `"x"`, `"x";r=1`, `"x";t=1`, `"x";r=-1;t=1`, `"x";r=1.0;t=1`, `"x";r="1";t=1`,
		`"x";r=1;t=1;r=?1`, "x:/#", `"x";u=:YWJj:;v=@7;w="\"\\"`, "1 , 2",
	} {
		if !beside(t, others) {
			t.Errorf("not read beside %q", others)
		}
	}
}

// Each case of a list in the public suite stands beside a good member.
func TestThePublicSuiteIsReadBesideALimit(t *testing.T) {
	const suiteFolder = "WEIR_STRUCTURED_FIELDS"
	folder := os.Getenv(suiteFolder)
	if folder == "" {
		t.Skip(suiteFolder + " names no folder with httpwg/structured-field-tests")
	}
	files, _ := filepath.Glob(filepath.Join(folder, "*.json"))
	tried := 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var cases []struct {
			Name     string
			Raw      []string
			Type     string `json:"header_type"`
			MustFail bool   `json:"must_fail"`
		}
		if err := json.Unmarshal(text, &cases); err != nil {
			t.Fatal(err)
		}
		for _, c := range cases {
			if c.Type != "list" || strings.Join(c.Raw, "") == "" { // a member is missing after the comma
				continue
			}
			if tried++; beside(t, c.Raw...) == c.MustFail {
				t.Errorf("%s: %s: %q is read: %v", filepath.Base(file), c.Name, c.Raw, c.MustFail)
			}
		}
	}
	if tried < 300 {
		t.Errorf("the suite has %d lists", tried)
	}
}
