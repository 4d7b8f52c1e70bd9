package client_test

import (
	"net/http"
	"testing"

	"github.com/weir-go/weir/client"
)

func TestARequestThatNeedNotWaitAllocatesNothing(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	for name, h := range map[string]http.Header{
		"no fields": {},
		"RateLimit": {"Ratelimit": {`"a";r=999999;t=60`}, "Ratelimit-Policy": {`"a";q=1000000;w=60`}},
		"X-RateLimit": {"X-Ratelimit-Remaining": {"999999"}, "X-Ratelimit-Limit": {"1000000"},
			"X-Ratelimit-Reset": {"1795345200"}, "Date": {"Sun, 22 Nov 2026 10:00:00 GMT"}},
		"a date": {"X-Ratelimit-Remaining": {"999999"}, "X-Ratelimit-Reset": {"2026-11-22T10:30:00Z"},
			"Date": {"Sun, 22 Nov 2026 10:00:00 GMT"}},
		"other parameters": {"Ratelimit": {`"a"; r=999999; t=60`},
			"Ratelimit-Policy": {`"a"; q=1000000; w=60; pk=:YWJj:`}},
		"older drafts": {"Ratelimit-Remaining": {"999999"}, "Ratelimit-Reset": {"60"}},
	} {
		a := &http.Response{StatusCode: 200, Header: h, Body: http.NoBody}
		c := client.MustNew(client.Options{Base: canned(func(*http.Request) *http.Response { return a })})
		r := request(t, "GET", "http://a/", nil, "Authorization", "Bearer x")
		if n := testing.AllocsPerRun(100, func() {
			if _, err := c.RoundTrip(r); err != nil {
				t.Fatal(err)
			}
		}); n > 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}
