package examples

import (
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/limits"
)

// policyOf returns the path of a copy of a system's policy with other texts in it, each of
// which must be there once.
func policyOf(t *testing.T, name string, changes ...string) string {
	t.Helper()
	data, err := os.ReadFile("systems/" + name + "/weir.yaml")
	if err != nil {
		t.Fatal(err)
	}
	text := string(data)
	for i := 0; i < len(changes); i += 2 {
		if strings.Count(text, changes[i]) != 1 {
			t.Fatalf("%q is not once in the policy of %s", changes[i], name)
		}
		text = strings.Replace(text, changes[i], changes[i+1], 1)
	}
	file := filepath.Join(t.TempDir(), "weir.yaml")
	if err := os.WriteFile(file, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	return file
}

// secondsOf returns how long a period of the calendar lasts in which now is.
func secondsOf(period limits.Period) string {
	start, end, _ := limits.Calendar(1, period).Window(time.Now())
	return strconv.Itoa(int(end.Sub(start) / time.Second))
}

func TestTheGatewayOfAWSHasTheLimitsOfItsFile(t *testing.T) {
	onBoth(t, "apigateway", func(t *testing.T, url string) {
		a := send(t, "POST", url+"/prod/orders", "{}", "X-API-Key", "k-basic").want(t, http.StatusOK)
		a.field(t, "RateLimit-Policy", `"account";q=5000;w=1, "stage-prod";q=1000;w=1, `+
			`"method-orders";q=100;w=1, "plan-rate";q=20;w=2, "plan-quota";q=1000;w=`+secondsOf(limits.Month))
		a = send(t, "GET", url+"/test/pets", "", "X-API-Key", "k-gold").want(t, http.StatusOK)
		a.field(t, "RateLimit-Policy", `"account";q=5000;w=1, "stage-test";q=50;w=1, `+
			`"plan-rate";q=1000;w=2, "plan-quota";q=1000000;w=`+secondsOf(limits.Month))
		a = send(t, "GET", url+"/prod/pets", "", "X-API-Key", "k-made-up").want(t, http.StatusForbidden)
		a.field(t, "X-Amzn-ErrorType", "ForbiddenException")
		a.field(t, "RateLimit", "")
	}, "POLICY="+policyOf(t, "apigateway"))
}

// Each limit is replaced by one of 3 in which nothing returns while the test runs.
func TestTheNarrowestLimitOfTheGatewayOfAWSApplies(t *testing.T) {
	for _, c := range []struct{ limit, rule, method, path, key, others string }{
		{"token-bucket 10000/second burst 5000", "account", "GET", "/prod/pets", "k-gold", ""},
		{"token-bucket 2000/second burst 1000", "stage-prod", "GET", "/prod/pets", "k-gold", "GET /test/pets k-gold"},
		{"token-bucket 100/second burst 50", "stage-test", "GET", "/test/pets", "k-gold", "GET /prod/pets k-gold"},
		{"token-bucket 200/second burst 100", "method-orders", "POST", "/prod/orders", "k-gold",
			"GET /prod/orders k-gold"},
		{"token-bucket 10/second burst 20", "plan-rate", "GET", "/prod/pets", "k-basic", "GET /prod/pets k-gold"},
		{"calendar 1000/month", "plan-quota", "GET", "/prod/pets", "k-basic", "GET /prod/pets k-gold"},
	} {
		three := "token-bucket 3/day burst 3"
		if c.rule == "plan-quota" {
			three = "calendar 3/year" // does not end with the month
		}
		t.Run(c.rule, func(t *testing.T) {
			onBoth(t, "apigateway", func(t *testing.T, url string) {
				ask := func() answer { return send(t, c.method, url+c.path, "", "X-API-Key", c.key) }
				for range 3 {
					ask().want(t, http.StatusOK)
				}
				a := ask().want(t, http.StatusTooManyRequests)
				kind, message := "TooManyRequestsException", `{"message":"Too Many Requests"}`
				if c.rule == "plan-quota" {
					kind, message = "LimitExceededException", `{"message":"Limit Exceeded"}`
				}
				a.field(t, "X-Amzn-ErrorType", kind)
				if strings.TrimSpace(a.body) != message {
					t.Errorf("the answer is %s, want %s", a.body, message)
				}
				if !strings.Contains(a.Header.Get("RateLimit"), `"`+c.rule+`";r=0;`) {
					t.Errorf("RateLimit: %s, want %s to deny", a.Header.Get("RateLimit"), c.rule)
				}
				if c.others == "" {
					return
				}
				other := strings.Fields(c.others)
				send(t, other[0], url+other[1], "", "X-API-Key", other[2]).want(t, http.StatusOK)
			}, "POLICY="+policyOf(t, "apigateway", c.limit, three))
		})
	}
}

// What one limit denies takes nothing from the others.
func TestADenialOfTheGatewayOfAWSTakesNothing(t *testing.T) {
	onBoth(t, "apigateway", func(t *testing.T, url string) {
		send(t, "GET", url+"/prod/pets", "", "X-API-Key", "k-basic").want(t, http.StatusOK)
		for range 20 {
			send(t, "GET", url+"/prod/pets", "", "X-API-Key", "k-basic").want(t, http.StatusTooManyRequests)
		}
		a := send(t, "GET", url+"/prod/pets", "", "X-API-Key", "k-gold").want(t, http.StatusOK)
		a.field(t, "RateLimit", `"account";r=8;`)
	}, "POLICY="+policyOf(t, "apigateway",
		"token-bucket 10/second burst 20", "token-bucket 1/day burst 1",
		"token-bucket 10000/second burst 5000", "token-bucket 10/day burst 10",
	))
}
