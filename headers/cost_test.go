package headers_test

import (
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/headers"
)

func TestTheCostOfTheRequestIsShown(t *testing.T) {
	dear := published{Name: "dear", Limit: perHour.Limit, Cost: func(string) int64 { return 7 }}
	policies := []published{perMinute, dear}
	options := headers.Options{CostParameter: "c"}
	o := decided(t, policies, allowed(50, 30*time.Second, time.Minute), allowed(900, time.Hour, time.Minute))
	if got := written(t, options, policies, o).Get("RateLimit"); got !=
		`"default";r=50;t=30;c=1, "dear";r=900;t=3600;c=7` {
		t.Errorf("got %s", got)
	}
	o = decided(t, policies, allowed(50, 30*time.Second, time.Minute), denied(6, time.Minute, time.Minute))
	options.CostParameter = "acme-cost"
	want(t, written(t, options, policies, o),
		`RateLimit: "default";r=50;t=30;acme-cost=1, "dear";r=6;t=60;acme-cost=7`,
		`RateLimit-Policy: "default";q=100;w=60, "dear";q=1000;w=3600`, "Retry-After: 60")
}

func TestTheNameOfTheCostIsAParameter(t *testing.T) {
	for name, want := range map[string]string{
		"c": "", "acme-cost": "", "C": "must be lower-case letters",
		"r": "is a parameter of the draft", "pk": "is a parameter of the draft",
	} {
		_, err := headers.New[string](headers.Options{CostParameter: name}, nil)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), "cost parameter: ") ||
			err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got error %v, want %q", name, err, want)
		}
	}
	_, err := headers.New[string](headers.Options{
		CostParameter: "c", Formats: []headers.Format{headers.GitHub},
	}, nil)
	if err == nil || err.Error() != "headers: cost parameter: only IETF has one: add IETF to formats" {
		t.Errorf("without IETF: got error %v", err)
	}
}
