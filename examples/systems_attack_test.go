package examples

import (
	"bufio"
	"fmt"
	"github.com/weir-go/weir/internal/proof/testrun"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestChargesInTestModeTakeNoRoomOfLiveOnes(t *testing.T) {
	url := start(t, "systems/stripe", "PERIOD=1ms", "WORKERS=1000")
	customers, charges := url+"/v1/customers", url+"/v1/charges"
	all := newCrowd(t)
	for _, key := range []string{"live_1", "live_2", "live_3", "live_4"} {
		all.send(20, key, "GET", customers)
	}
	until(t, http.StatusServiceUnavailable, "live_5", "GET", customers).full(t)
	a := asKey(t, "test_1", "POST", charges)
	a.full(t)
	if _, ok := a.Header["Stripe-Rate-Limited-Reason"]; ok || !strings.Contains(a.body, `"api_error"`) {
		t.Errorf("a full fleet blames the client: %v, %s", a.Header, a.body)
	}
	asKey(t, "live_5", "POST", charges).want(t, http.StatusOK)
}

func TestStripeShedsGETsBeforeOtherChanges(t *testing.T) {
	url := start(t, "systems/stripe", "WORKERS=10", "PERIOD=1ms")
	newCrowd(t).send(8, "live_1", "GET", url+"/v1/customers")
	until(t, http.StatusServiceUnavailable, "live_2", "GET", url+"/v1/customers")
	asKey(t, "live_2", "DELETE", url+"/v1/customers/1").want(t, http.StatusOK)
}

// The bucket of charges is theirs however the path is written.
func TestChargesOfStripeHaveOneBucket(t *testing.T) {
	url := start(t, "systems/stripe", "PERIOD=1m", "WORKERS=1000")
	for i := range 100 {
		path := []string{"/v1/charges", "/v1/charges/", "//v1/charges", "/v1%2fcharges"}[i%4]
		asKey(t, "live_1", "POST", url+path).want(t, http.StatusOK)
	}
	denied(t, func() answer { return asKey(t, "live_1", "POST", url+"/v1/charges/") }).limited(t, "endpoint-rate")
}

// Reading a form takes ten megabytes of memory for each request, and files without bound, and a
// client that sends it slowly holds its place.
func TestASystemThatNeedsNoBodyReadsNone(t *testing.T) {
	for _, c := range [][3]string{{"stripe", "Bearer sk_live_1", "/v1/charges"}, {"github", "Bearer ghp-ann", issues}} {
		url := start(t, "systems/"+c[0])
		a := send(t, "POST", url+c[2], "ms=60000", "Authorization", c[1], "Content-Type",
			"application/x-www-form-urlencoded")
		a.want(t, http.StatusOK) // at once, not after a minute
	}
}

// A page that an operator has open can send requests to 127.0.0.1.
func TestNoPageThrowsASwitchOfStripe(t *testing.T) {
	admin := freeAddr(t)
	url := start(t, "systems/stripe", "ADMIN="+admin)
	asKey(t, "live_1", "GET", url).want(t, http.StatusOK)
	modes := "http://" + admin + "/modes?name=fleet&mode=disabled"
	if a := send(t, "POST", modes, "", "Sec-Fetch-Site", "cross-site"); a.StatusCode != http.StatusForbidden {
		t.Errorf("a page of another site: %s", a.Status)
	}
	if a := send(t, "GET", modes, ""); a.StatusCode != http.StatusMethodNotAllowed {
		t.Errorf("GET: %s", a.Status)
	}
}

// Many origins decode %2F, so the path is theirs.
func TestNoSpellingOfThePathEscapesTheCustomersLimitOfCloudflare(t *testing.T) {
	url := start(t, "systems/cloudflare")
	for i, path := range []string{"/api/", "/api%2fx", "/%61pi/x", "/api", "//api/x", "/x/..%2fapi/", "/./api/x"} {
		a := send(t, "GET", url+path, "", "X-API-Key", "k-shop").want(t, http.StatusOK)
		a.field(t, "RateLimit", `"customer";r=`+strconv.Itoa(599-i))
	}
	send(t, "GET", url+"/apis", "").want(t, http.StatusOK).field(t, "RateLimit", "")
}

func TestAChannelOfDiscordHasOneBucket(t *testing.T) {
	url := start(t, "systems/discord")
	for i, channel := range []string{"1", "01", "%31", "001", "0001"} {
		a := asBot(t, "ann", "POST", url+"/channels/"+channel+"/messages").want(t, http.StatusOK)
		a.field(t, "X-RateLimit-Remaining", strconv.Itoa(4-i))
	}
	for i, channel := range []string{"x", "1%2f", "+1", "1%20", "-1"} { // none of them a channel
		a := asBot(t, "ann", "POST", url+"/channels/"+channel+"/messages").want(t, http.StatusOK)
		a.field(t, "X-RateLimit-Remaining", strconv.Itoa(4-i))
	}
}

func TestClientsOfEnvoyDoNotSeeItsCounters(t *testing.T) {
	admin := freeAddr(t)
	url := start(t, "systems/envoy", "ADMIN="+admin, "POLICY=systems/envoy/weir.yaml")
	send(t, "GET", url+"/stats", "").want(t, http.StatusOK).field(t, "X-RateLimit-Limit", "1000")
	if a := send(t, "GET", "http://"+admin+"/stats", ""); !strings.Contains(a.body, "ratelimit.local.ok: 1\n") {
		t.Errorf("the counters are %s", a.body)
	}
}

// A stage that is not in the file has no limit, so it must not be served.
func TestTheGatewayOfAWSServesNoOtherStage(t *testing.T) {
	url := start(t, "systems/apigateway", "POLICY=systems/apigateway/weir.yaml")
	for _, c := range [][2]string{
		{"GET", "/dev/pets"}, {"GET", "/PROD/pets"}, {"PUT", "/prod/orders"},
		{"POST", "/prod/orders/"}, {"POST", "/prod/orders%2f"},
	} {
		a := send(t, c[0], url+c[1], "", "X-API-Key", "k-gold")
		if a.StatusCode != http.StatusForbidden ||
			a.Header.Get("X-Amzn-ErrorType") != "MissingAuthenticationTokenException" {
			t.Errorf("%s %s: %s %s", c[0], c[1], a.Status, a.body)
		}
	}
}

func TestGitHubRefusesCredentialsWithoutAToken(t *testing.T) {
	url := start(t, "systems/github")
	for _, credentials := range []string{"Bearer", "ghp-ann", "token"} {
		if a := send(t, "GET", url+issues, "", "Authorization", credentials); a.StatusCode != http.StatusUnauthorized {
			t.Errorf("%q: %s", credentials, a.Status)
		}
	}
	send(t, "GET", url+issues, "").want(t, http.StatusOK).field(t, "X-RateLimit-Remaining", "59")
}

// What a stream has not used returns to the budget of the day, also if the program stops meanwhile.
func TestTheGatewayStopsAfterItsStreams(t *testing.T) {
	addr := freeAddr(t)
	startRedisServer(t, addr)
	program := build(t, "systems/llm")
	cmd := testrun.Command(t, program)
	cmd.Env = append(os.Environ(), "ADDR=127.0.0.1:0", "REDIS_URL=redis://"+addr)
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	stuck := time.AfterFunc(time.Minute, func() { cmd.Process.Kill() })
	defer stuck.Stop()
	log := bufio.NewReader(stderr)
	line, err := log.ReadString('\n')
	_, at, ok := strings.Cut(strings.TrimSpace(line), "listening on ")
	if !ok {
		t.Fatalf("logged %q (%v)", line, err)
	}
	r, err := http.NewRequest("POST", "http://"+at+"/v1/chat/completions",
		strings.NewReader(`{"model":"echo","messages":[{"content":"a b"}],"max_tokens":50000,"pause_ms":1000}`))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer k-pro")
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body := bufio.NewReader(response.Body)
	first, _ := body.ReadString('\n')
	cmd.Process.Signal(syscall.SIGTERM)
	rest, err := io.ReadAll(body)
	if answer := first + string(rest); err != nil || strings.Count(answer, `"content"`) != 2 {
		t.Errorf("the stream is %q (%v), want both words", answer, err)
	}
	io.Copy(io.Discard, log)
	if err := cmd.Wait(); err != nil {
		t.Errorf("stopped: %v", err)
	}
	a := complete(t, launch(t, program, "REDIS_URL=redis://"+addr), "pro", "x", 1).want(t, http.StatusOK)
	left := 1_000_000_000 - 20*(4+estimate("x", 1)) // the stream, and this request
	if !strings.Contains(a.Header.Get("RateLimit"), fmt.Sprintf(`"budget";r=%d;`, left)) {
		t.Errorf("RateLimit: %s, want the budget without what the stream has used", a.Header.Get("RateLimit"))
	}
}
