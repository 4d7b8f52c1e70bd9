package serve

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/internal/proof/testrun"
)

// askers use the SDKs of OpenAI as its documents do. Their arguments are a URL and what to do.
var askers = map[string]string{
	"client.py": `
import sys, openai
client = openai.OpenAI(base_url=sys.argv[1] + '/v1', api_key='key-of-red')
messages = [{'role': 'user', 'content': 'hi'}]

def streamed(**options):
    text, tokens = '', '-'
    for part in client.chat.completions.create(model='small', messages=messages, stream=True, **options):
        text += ''.join(choice.delta.content or '' for choice in part.choices)
        tokens = part.usage.total_tokens if part.usage else tokens
    print('stream', text, tokens)

if sys.argv[2] == 'answers':
    answer = client.chat.completions.create(model='large', messages=messages)
    print('whole', answer.choices[0].message.content, answer.usage.total_tokens)
    streamed(stream_options={'include_usage': True})
    streamed()
else:
    try:
        patient = client.with_options(max_retries=int(sys.argv[3])) if len(sys.argv) > 3 else client
        answer = patient.chat.completions.create(model='small', messages=messages)
        print(answer.choices[0].message.content)
    except openai.APIStatusError as e:
        print(type(e).__name__, e.status_code, e.response.headers.get('retry-after'))
`,
	"client.mjs": `
import OpenAI from 'openai'
const [, , base, what, retries] = process.argv
const client = new OpenAI({ baseURL: base + '/v1', apiKey: 'key-of-red' })
const messages = [{ role: 'user', content: 'hi' }]

async function streamed(options) {
  let text = '', tokens = '-'
  const ask = { model: 'small', messages, stream: true, ...options }
  for await (const part of await client.chat.completions.create(ask)) {
    text += part.choices.map((choice) => choice.delta.content ?? '').join('')
    tokens = part.usage?.total_tokens ?? tokens
  }
  console.log('stream', text, tokens)
}

if (what === 'answers') {
  const answer = await client.chat.completions.create({ model: 'large', messages })
  console.log('whole', answer.choices[0].message.content, answer.usage.total_tokens)
  await streamed({ stream_options: { include_usage: true } })
  await streamed({})
} else {
  try {
    const options = retries ? { maxRetries: Number(retries) } : {}
    const answer = await client.chat.completions.create({ model: 'small', messages }, options)
    console.log(answer.choices[0].message.content)
  } catch (e) {
    console.log(e.constructor.name, e.status, e.headers.get('retry-after'))
  }
}
`,
}

// attempt is a request of a client and the answer to it.
type attempt struct {
	asked, answered time.Time
	status          int
	retryAfter      string
}

// watched returns the URL of a proxy to s that notes what clients ask.
func (s *system) watched() (at string, attempts <-chan attempt) {
	s.t.Helper()
	target, err := url.Parse(s.url)
	if err != nil {
		s.t.Fatal(err)
	}
	noted := make(chan attempt, 100)
	proxy := httputil.NewSingleHostReverseProxy(target)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked, own := time.Now(), *proxy
		own.ModifyResponse = func(answer *http.Response) error {
			noted <- attempt{asked, time.Now(), answer.StatusCode, answer.Header.Get("Retry-After")}
			return nil
		}
		own.ServeHTTP(w, r)
	}))
	s.t.Cleanup(server.Close)
	return server.URL, noted
}

// The SDKs of OpenAI are charged what their answers tell, and wait as a denial says if it is not long.
func TestOpenAIsClientsAskThroughARealEnvoy(t *testing.T) {
	testrun.FullOnly(t, "clients, which pip and npm install")
	testrun.Program(t, "envoy")
	dir := t.TempDir()
	for _, command := range [][]string{
		{"python3", "-m", "pip", "install", "-q", "--target", dir, "openai==3.57.0"},
		{"npm", "install", "--no-audit", "--no-fund", "--silent", "--prefix", dir, "openai@7.59.0"},
	} {
		if out, err := testrun.Command(t, command[0], command[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", command[0], err, out)
		}
	}
	for name, sdk := range map[string]struct {
		program string
		over    int // requests, if the wait is long
	}{"client.py": {"python3", 1}, "client.mjs": {"node", 3}} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(dir, name)
			if err := os.WriteFile(path, []byte(askers[name]), 0o644); err != nil {
				t.Fatal(err)
			}
			hold := make(chan struct{})
			s := modelled(t, "models", answers(hold), []string{
				"concurrent 20", "concurrent 1", "requests_per_unit: 100000", "requests_per_unit: 20000"})
			at, attempts := s.watched()
			says := func(args ...string) string {
				client := testrun.Command(t, sdk.program, append([]string{path, at}, args...)...)
				client.Env = append(os.Environ(), "PYTHONPATH="+dir)
				out, err := client.CombinedOutput()
				if err != nil {
					t.Errorf("%v\n%s", err, out)
				}
				return strings.TrimSpace(string(out))
			}

			want := "whole Hello. 3001\nstream Hello. 3001\nstream Hello. -"
			if got := says("answers"); got != want {
				t.Errorf("got %s, want %s", got, want)
			}
			s.has("4999747", "12998", "1") // 226 and 19 units, and 8 for an estimate of 1,000 tokens
			for range 3 {
				<-attempts
			}

			// Another request of the team runs. The SDK waits, and asks again.
			r, _ := http.NewRequest("POST", s.url+"/v1/chat/completions",
				strings.NewReader(`{"model":"small","does":"waits","stream":true,"stream_options":{}}`))
			r.Header.Set("Authorization", "Bearer key-of-red")
			other, err := http.DefaultClient.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			said := make(chan string)
			go func() { said <- says("busy", "9") }()
			denied := <-attempts
			close(hold)
			io.Copy(io.Discard, other.Body)
			other.Body.Close()
			if got := <-said; got != "Hello." {
				t.Error(got)
			}
			again := <-attempts
			seconds, err := strconv.Atoi(denied.retryAfter)
			if wait := again.asked.Sub(denied.answered); denied.status != 429 || err != nil || seconds < 1 ||
				wait < time.Duration(seconds)*time.Second {
				t.Errorf("denied by %d with Retry-After %q, and asked again after %v",
					denied.status, denied.retryAfter, wait)
			}
			t.Logf("Retry-After is %s, and it asks again after %v", denied.retryAfter, again.asked.Sub(denied.answered))
			for again.status == 429 {
				again = <-attempts
			}
			s.has("4999709", "6996", "1")

			// The tokens are used up until the next window.
			for left := 6996; left > 0; {
				s.asks(`{"model":"small"}`, 200)
				left = max(0, left-3001)
				s.has(fmt.Sprint(4999709-19*((6996-left+3000)/3001)), fmt.Sprint(left), "1")
			}
			if got := says("over"); !strings.HasPrefix(got, "RateLimitError 429 ") {
				t.Error(got)
			}
			var statuses []int
			var last time.Time
			for range len(attempts) {
				one := <-attempts
				if statuses = append(statuses, one.status); len(statuses) > 1 {
					t.Logf("Retry-After is %s, and it asks again after %v", one.retryAfter, one.asked.Sub(last))
				}
				last = one.answered
			}
			if !slices.Equal(statuses, slices.Repeat([]int{429}, sdk.over)) {
				t.Errorf("answers over the limit: %v, want %d denials", statuses, sdk.over)
			}
		})
	}
}
