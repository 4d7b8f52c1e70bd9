package conform_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"time"

	"github.com/weir-go/weir/conform"
	"github.com/weir-go/weir/keyfuncs"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/nethttp"
)

// served returns a server with a limit of 10 in 2 seconds, and its profile.
func served() (*httptest.Server, *conform.Profile) {
	limiter := nethttp.MustNew(nethttp.Config{Rules: []nethttp.Rule{{
		Name: "per-client", Limit: limits.SlidingLog(limits.Per(10, 2*time.Second)),
		Key: keyfuncs.Address(keyfuncs.MustTrustedProxies("127.0.0.0/8")),
	}}})
	server := httptest.NewServer(limiter.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})))
	profile, err := conform.Parse("profile.yaml", []byte(`
name: weir
url: `+server.URL+`
limit: 10 per 2s
algorithm: sliding-log
key: address in X-Forwarded-For
fields: [retry-after, draft-11]
`))
	if err != nil {
		panic(err)
	}
	return server, profile
}

func ExampleRun() {
	server, profile := served()
	defer server.Close()
	report, err := conform.Run(context.Background(), profile, conform.Options{Only: []string{"status", "syntax"}})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, r := range report.Results {
		fmt.Printf("%s: %s: %s\n", r.Check, r.Verdict, r.Found)
	}
	// Output:
	// status: holds: after 10 admitted requests in a row one is denied with status 429
	// syntax: holds: retry-after, draft-11 in 104 answers are well-formed
}

func ExampleParse() {
	_, err := conform.Parse("p.yaml", []byte("name: mine\nurl: http://127.0.0.1:$PORT/\nlimit: 10 an hour\n"))
	fmt.Println(strings.Split(err.Error(), ": write")[0])
	// Output:
	// p.yaml:1:1: key: is required: add it
	// p.yaml:3:8: limit
}

func ExampleProfile() {
	_, profile := served()
	fmt.Println(profile.Name, profile.Limit, profile.Named, profile.CountsDenied == conform.Silent)
	// Output: weir sliding-log 10/2s true true
}

func ExampleKey() {
	fmt.Println(conform.Key{From: conform.FromHeader, Field: "X-Api-Key"})
	fmt.Println(conform.Key{From: conform.FromAddress})
	fmt.Println(conform.Key{From: conform.FromForwarded, Field: "X-Forwarded-For"})
	fmt.Println(conform.Key{From: conform.FromNothing})
	// Output:
	// header X-Api-Key
	// address
	// address in X-Forwarded-For
	// none
}

func ExampleAnswer() {
	_, profile := served()
	fmt.Println(profile.CountsDenied == conform.No, profile.CountsDenied == conform.Yes)
	// Output: false false
}

func ExampleDialects() {
	fmt.Println(strings.Join(conform.Dialects(), " "))
	// Output: retry-after x-ratelimit draft-6 draft-7 draft-8 draft-11
}

func ExampleChecks() {
	for _, c := range conform.Checks() {
		if c.Name == "retry-after" {
			fmt.Printf("%s: %s\n", c.Name, c.Says)
		}
	}
	// Output: retry-after: a request at the time that Retry-After tells is admitted
}

func ExampleCheck() {
	c := conform.Checks()[0]
	fmt.Println(c.Name)
	fmt.Println(c.Says)
	fmt.Println(c.Source)
	// Output:
	// burst
	// 64 requests at once on a fresh key admit exactly the burst of the limit
	// the promise of the profile
}

func ExampleOptions() {
	server, profile := served()
	defer server.Close()
	report, err := conform.Run(context.Background(), profile, conform.Options{Seed: 7, Only: []string{"head"}})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(report.Seed, report.Results[0].Found)
	// Output: 7 HEAD counts as GET does, and is denied with status 429
}

func ExampleSource() {
	_, profile := served()
	fmt.Println(profile.Key.From == conform.FromForwarded, profile.Key.Field)
	// Output: true X-Forwarded-For
}

// report is one as Run returns it.
var report = &conform.Report{
	Name: "mine 1.2", Limit: "fixed-window 10/2s", Key: "address", Seed: 7, Took: 9 * time.Second,
	Results: []conform.Result{
		{
			Check: "burst", Verdict: conform.Holds, Requests: 192,
			Found: "of 64 requests at once on a fresh key 10 are admitted, three times",
		},
		{
			Check: "status", Verdict: conform.Fails, Requests: 15,
			Found:    "15 requests in a row are admitted within 0.004 s, and none is denied",
			Evidence: []string{"request 15: admitted"},
		},
	},
}

func ExampleReport_Text() {
	report.Text(os.Stdout)
	fmt.Println(report.OK())
	// Output:
	// mine 1.2: fixed-window 10/2s, key: address
	//
	// holds           burst         of 64 requests at once on a fresh key 10 are admitted, three times
	// does not hold   status        15 requests in a row are admitted within 0.004 s, and none is denied
	//                                 request 15: admitted
	//
	// 1 holds, 1 does not hold. 207 requests in 9s; --seed 7 sends them again.
	// false
}

func ExampleReport_HTML() {
	var page strings.Builder
	report.HTML(&page)
	fmt.Println(strings.Contains(page.String(), "<title>mine 1.2 – weir conform</title>"))
	// Output: true
}

func ExampleReport() {
	text, _ := json.Marshal(report.Results[1])
	fmt.Println(string(text)[:45])
	// Output: {"check":"status","verdict":"does not hold","
}

func ExampleReport_OK() {
	fmt.Println(report.OK())
	// Output: false
}

func ExampleReport_Count() {
	fmt.Println(report.Count(conform.Fails), report.Count(conform.Skips))
	// Output: 1 0
}

func ExampleResult() {
	text, _ := json.Marshal(report.Results[0].Verdict)
	fmt.Println(string(text))
	// Output: "holds"
}

func ExampleVerdict() {
	for _, v := range []conform.Verdict{conform.Holds, conform.Bound, conform.Fails, conform.Skips} {
		fmt.Println(v)
	}
	// Output:
	// holds
	// bound stated
	// does not hold
	// does not apply
}
