// Asks one client of Go about each vector, in a bubble of testing/synctest, and prints an object a line.
package vectors

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	azruntime "github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"
	"github.com/go-resty/resty/v2"
	"github.com/hashicorp/go-retryablehttp"
	"github.com/weir-go/weir/client"
)

var name = flag.String("client", "", "client to ask")

type answer struct {
	Status int
	Fields []string
	Body   string
	At     float64
	Sent   *float64
}

type vector struct {
	Name, Server string
	Now          time.Time
	Answers      []answer
}

// server is a transport that answers as a vector says.
type server struct {
	answers []answer
	served  int
	last    time.Time
	gap     *float64
}

func (s *server) RoundTrip(r *http.Request) (*http.Response, error) {
	n := s.served
	s.served++
	if n == len(s.answers) && s.gap == nil {
		gap := time.Since(s.last).Seconds()
		s.gap = &gap
	}
	a := answer{Status: 200, Fields: []string{"Content-Type: application/json"}, Body: "{}"}
	if n < len(s.answers) {
		a = s.answers[n]
		s.last = time.Now()
	}
	h := make(http.Header)
	for _, field := range a.Fields {
		name, value, _ := strings.Cut(field, ":")
		h.Add(name, strings.TrimSpace(value))
	}
	return &http.Response{StatusCode: a.Status, Status: fmt.Sprint(a.Status, " ", http.StatusText(a.Status)),
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: h, Request: r,
		Body: io.NopCloser(strings.NewReader(a.Body)), ContentLength: int64(len(a.Body))}, nil
}

const url = "http://a.example/things"

func closed(r *http.Response, err error) error {
	if err == nil {
		r.Body.Close()
	}
	return err
}

// clients return how to call each of them with a transport. Errors that come of a status are nil.
var clients = map[string]func(base http.RoundTripper, server string) func() error{
	"github.com/weir-go/weir/client": func(base http.RoundTripper, server string) func() error {
		dialects := map[string]client.Dialect{"GitHub": client.GitHub, "Discord": client.Discord,
			"OpenAI": client.OpenAI, "Anthropic": client.Anthropic}
		c := &http.Client{Transport: client.MustNew(client.Options{
			Base: base, Dialect: dialects[server], MaxWait: 60 * 365 * 24 * time.Hour})}
		return func() error { return closed(c.Get(url)) }
	},
	"github.com/hashicorp/go-retryablehttp": func(base http.RoundTripper, _ string) func() error {
		c := retryablehttp.NewClient()
		c.Logger, c.HTTPClient = nil, &http.Client{Transport: base}
		c.ErrorHandler = retryablehttp.PassthroughErrorHandler
		return func() error { return closed(c.Get(url)) }
	},
	"github.com/Azure/azure-sdk-for-go/sdk/azcore": func(base http.RoundTripper, _ string) func() error {
		p := azruntime.NewPipeline("m", "v1", azruntime.PipelineOptions{},
			&policy.ClientOptions{Transport: &http.Client{Transport: base}})
		return func() error {
			r, err := azruntime.NewRequest(context.Background(), "GET", url)
			if err != nil {
				return err
			}
			return closed(p.Do(r))
		}
	},
	"github.com/go-resty/resty/v2": func(base http.RoundTripper, _ string) func() error {
		c := resty.New().SetTransport(base).SetRetryCount(3).AddRetryCondition(func(r *resty.Response, err error) bool {
			return r.StatusCode() == 429 || r.StatusCode() == 503
		})
		return func() error { _, err := c.R().Get(url); return err }
	},
}

func TestVectors(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(os.Getenv("VECTORS"), "*.json"))
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		var file struct {
			Now     time.Time
			Vectors []vector
		}
		if err := json.Unmarshal(text, &file); err != nil {
			t.Fatal(err)
		}
		for _, v := range file.Vectors {
			if v.Now.IsZero() {
				v.Now = file.Now
			}
			if v.Answers[0].Sent == nil {
				ask(t, strings.TrimSuffix(filepath.Base(name), ".json"), &v)
			}
		}
	}
}

func ask(t *testing.T, file string, v *vector) {
	s := &server{answers: v.Answers}
	repeated, failure := false, ""
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(v.Now))
		call := clients[*name](s, v.Server)
		send := func() {
			failure = ""
			if err := call(); err != nil {
				failure = fmt.Sprintf("%T: %.100s", err, err)
			}
		}
		for i, a := range v.Answers {
			if s.served > i {
				continue
			}
			time.Sleep(time.Until(v.Now.Add(time.Duration(a.At * float64(time.Second)))))
			send()
		}
		if repeated = s.gap != nil; !repeated && v.Answers[len(v.Answers)-1].Status < 300 {
			send()
		}
	})
	line, err := json.Marshal(map[string]any{
		"file": file, "vector": v.Name, "wait": s.gap, "repeated": repeated, "error": failure,
	})
	if err != nil {
		t.Fatal(err)
	}
	fmt.Println(string(line))
}
