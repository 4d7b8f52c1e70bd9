package client_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/client"
)

// vector is one or several answers, and when a client that obeys them may send again:
// testdata/vectors/README.md describes its members.
type vector struct {
	Name, Source, Server string
	Now                  time.Time
	Answers              []vectorAnswer
	Earliest             *float64
	Open                 *struct {
		From float64
		To   *float64
	}
	Never bool
	Why   string
}

type vectorAnswer struct {
	Status int
	Fields []string
	Body   string
	At     float64
	Sent   *float64
}

func (a *vectorAnswer) response() *http.Response {
	response := answer(a.Status, list(strings.Join(a.Fields, "\n"))...)
	if a.Body != "" {
		response.Body, response.ContentLength = io.NopCloser(strings.NewReader(a.Body)), int64(len(a.Body))
	}
	return response
}

// departures are vectors of which the client sends earlier, on purpose.
var departures = map[string]time.Duration{
	"a number that looks like an instant": time.Minute, // Docker Hub sends instants
}

// dialects are those of the servers of vectors.
var dialects = map[string]client.Dialect{
	"GitHub": client.GitHub, "Discord": client.Discord,
	"OpenAI": client.OpenAI, "Anthropic": client.Anthropic,
}

// readVectors returns the vectors of each file.
func readVectors(t *testing.T) map[string][]vector {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("testdata", "vectors", "*.json"))
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	all := make(map[string][]vector)
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		var file struct {
			Now     time.Time
			Vectors []vector
		}
		decoder := json.NewDecoder(bytes.NewReader(text))
		decoder.DisallowUnknownFields()
		if err := decoder.Decode(&file); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for i := range file.Vectors {
			if v := &file.Vectors[i]; v.Now.IsZero() {
				v.Now = file.Now
			}
		}
		all[filepath.Base(name)] = file.Vectors
	}
	return all
}

func TestTheClientObeysTheVectors(t *testing.T) {
	for name, vectors := range readVectors(t) {
		for _, v := range vectors {
			t.Run(strings.TrimSuffix(name, ".json")+"/"+v.Name, v.test)
		}
	}
}

func TestVectorsAreAsTheirDescriptionSays(t *testing.T) {
	readme, err := os.ReadFile(filepath.Join("testdata", "vectors", "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	total := 0
	for name, vectors := range readVectors(t) {
		total += len(vectors)
		if row := fmt.Sprintf("| [%s](%s) | %d |", name, name, len(vectors)); !strings.Contains(string(readme), row) {
			t.Errorf("the description lacks %q", row)
		}
		known := make(map[string]bool)
		for _, v := range vectors {
			decisions := 0
			for _, decides := range []bool{v.Earliest != nil, v.Open != nil, v.Never} {
				if decides {
					decisions++
				}
			}
			if known[v.Name] || v.Name == "" || v.Source == "" || len(v.Answers) == 0 || decisions != 1 {
				t.Errorf("%s: %q: want a name of its own, a source, answers and one decision", name, v.Name)
			}
			if o := v.Open; o != nil && (v.Why == "" || o.From < 0 || o.To != nil && *o.To < o.From) {
				t.Errorf("%s: %q: want a reason, and bounds in their order", name, v.Name)
			}
			known[v.Name] = true
		}
	}
	if !strings.HasPrefix(string(readme), fmt.Sprintf("# Vectors for clients of HTTP\n\n%d answers", total)) {
		t.Errorf("the description does not begin with the number of vectors, %d", total)
	}
}

func (v *vector) test(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(v.Now))
		wait, repeated := v.wait(t)
		if v.Never {
			if repeated {
				t.Errorf("repeated after %v, want no repetition", wait)
			}
			return
		}
		least := v.least()
		last := v.Answers[len(v.Answers)-1].Status
		if last == http.StatusRequestEntityTooLarge && !repeated {
			return // the answer goes back, and holds no other request back
		}
		if wait < least {
			t.Errorf("sent after %v, want %v at least", wait, least)
		}
		// Two seconds for what a server and the client may have rounded, and a second at random.
		if v.Earliest != nil && least > 0 && repeated && wait > least+3*time.Second {
			t.Errorf("sent after %v, want little more than %v", wait, least)
		}
	})
}

// least returns the earliest instant of v, or the longest wait that is believed.
func (v *vector) least() time.Duration {
	const longest = 30 * 24 * time.Hour
	if least, ok := departures[v.Name]; ok {
		return least
	}
	seconds := v.Earliest
	if seconds == nil {
		seconds = &v.Open.From
	}
	if *seconds >= longest.Seconds() {
		return longest
	}
	return time.Duration(*seconds * float64(time.Second))
}

// wait returns how long after the last answer the next request is sent, and whether the client
// repeats it by itself.
func (v *vector) wait(t *testing.T) (wait time.Duration, repeated bool) {
	var mu sync.Mutex
	var arrived time.Duration // of the last answer
	warm := 0                 // requests before those of v
	start := time.Now()
	server := scripted(func(n int, _ *http.Request) *http.Response {
		if n -= warm + 1; n < 0 || n >= len(v.Answers) {
			return answer(200)
		}
		a := &v.Answers[n]
		if a.Sent != nil {
			time.Sleep(seconds(a.At) - time.Since(start))
		}
		mu.Lock()
		defer mu.Unlock()
		arrived = time.Since(start)
		return a.response()
	})
	c := &http.Client{Transport: newClient(t, server, client.Options{
		MaxWait: 1000 * 24 * time.Hour, Attempts: 9, Dialect: dialects[v.Server],
	})}
	send := func() {
		response, err := c.Get("http://a/")
		if err != nil {
			t.Error(err)
			return
		}
		response.Body.Close()
	}
	var inFlight sync.WaitGroup
	if v.Answers[0].Sent != nil { // several are in flight together only after an answer
		warm = 1
		send()
	}
	for i, a := range v.Answers {
		if server.count() > warm+i { // the client has repeated it
			continue
		}
		if a.Sent != nil {
			inFlight.Go(send)
			synctest.Wait()
			continue
		}
		time.Sleep(seconds(a.At) - time.Since(start))
		send()
	}
	inFlight.Wait()
	all := warm + len(v.Answers)
	if repeated = server.count() > all; !repeated && !v.Never {
		send()
	}
	if server.count() <= all {
		return 0, false
	}
	return server.at[all] - arrived, repeated
}

// seconds returns a number of seconds of a vector.
func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
