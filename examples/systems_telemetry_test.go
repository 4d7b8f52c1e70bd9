package examples

import (
	"bytes"
	"compress/gzip"
	"net/http"
	"strings"
	"testing"
)

const (
	ofTransaction = "{}\n{\"type\":\"transaction\"}\n{}"
	ofError       = "{}\n{\"type\":\"event\"}\n{}"
)

func report(t *testing.T, url, body string, header ...string) answer {
	t.Helper()
	return send(t, "POST", url+"/api/1/envelope/", body,
		append([]string{"X-Sentry-Auth", "Sentry sentry_version=7, sentry_key=one"}, header...)...)
}

func packed(t *testing.T, text string) string {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	w.Write([]byte(text))
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestADeniedTransactionStopsNoErrors(t *testing.T) {
	onBoth(t, "telemetry", func(t *testing.T, url string) {
		a := denied(t, func() answer { return report(t, url, ofTransaction) })
		wait := a.Header.Get("Retry-After")
		a.field(t, "X-Sentry-Rate-Limits", wait+":transaction:key")
		if wait != "1" && wait != "2" {
			t.Errorf("Retry-After is %q, want 1 or 2", wait)
		}
		report(t, url, ofError).want(t, http.StatusOK).field(t, "X-Sentry-Rate-Limits", "")
		body := packed(t, ofTransaction)
		denied(t, func() answer { return report(t, url, body, "Content-Encoding", "gzip") })
	})
}

// The first item must not decide for the others.
func TestEachItemOfAnEnvelopeCounts(t *testing.T) {
	url := start(t, "systems/telemetry")
	transactions := func(n int) string {
		return strings.Repeat("{\"type\":\"transaction\",\"length\":3}\n{\n}\n", n)
	}
	for i := range 3 { // eighteen of twenty
		a := report(t, url, "{}\n{\"type\":\"session\"}\n{}\n"+transactions(6)+"\n")
		if a.StatusCode != http.StatusOK {
			t.Fatalf("envelope %d: %s %s", i, a.Status, a.body)
		}
	}
	a := report(t, url, "{}\n{\"type\":\"event\"}\n{}\n"+transactions(20))
	a.want(t, http.StatusTooManyRequests)
	a.field(t, "X-Sentry-Rate-Limits", a.Header.Get("Retry-After")+":transaction:key")
	a = report(t, url, "{}\n{\"type\":\"transaction\",\"Type\":\"event\",\"length\":2}\n{}\n"+
		transactions(19))
	a.want(t, http.StatusTooManyRequests)
	report(t, url, ofError).want(t, http.StatusOK)
}

func TestWaitsOfTelemetryAreSeconds(t *testing.T) {
	onBoth(t, "telemetry", func(t *testing.T, url string) {
		for _, path := range []string{"/v1/traces", "/v1/metrics", "/v1/logs"} {
			a := denied(t, func() answer { return send(t, "POST", url+path, "{}") })
			a.field(t, "Retry-After", "1")
		}
	})
}

func TestEnvelopesOfStrangersAreRefused(t *testing.T) {
	url := start(t, "systems/telemetry")
	for _, c := range []struct{ path, body, encoding string }{
		{"/api/1/envelope/", ofError, ""},
		{"/api/1/envelope/?sentry_key=invented", ofError, ""},
		{"/api/2/envelope/?sentry_key=one", ofError, ""},
	} {
		a := send(t, "POST", url+c.path, c.body)
		if a.StatusCode != http.StatusForbidden {
			t.Errorf("%s: %s, want 403", c.path, a.Status)
		}
	}
	for _, c := range []struct{ body, encoding string }{
		{"", ""}, {ofError, "gzip"}, {ofError, "br"}, {strings.Repeat("x", 2<<20), ""},
		{"{}\n", ""}, {ofError + "\n{", ""}, {"{}\n{\"type\":\"event\",\"length\":3}\n{}", ""},
		{"{}\n{\"type\":\"event\",\"length\":-1}\n{}", ""}, {"{}\n{\"type\":\"event\",\"length\":1}\n{}", ""},
		{packed(t, ofError+strings.Repeat(" ", 32<<20)), "gzip"},
	} {
		if a := report(t, url, c.body, "Content-Encoding", c.encoding); a.StatusCode != http.StatusBadRequest {
			t.Errorf("an envelope of %d bytes in %q: %s, want 400", len(c.body), c.encoding, a.Status)
		}
	}
	send(t, "POST", url+"/api/2/envelope/?sentry_key=two", ofError).want(t, http.StatusOK)
}
