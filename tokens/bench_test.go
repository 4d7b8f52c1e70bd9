package tokens_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/weir-go/weir/tokens"
)

// chunks are events in the middle of a stream, as large as those of the services.
var chunks = map[string]string{
	"chat completions": `data: {"id":"chatcmpl-B9MHDbslfkBeAs8l4bebGdFOJ6PeG","object":"chat.completion.chunk",` +
		`"created":1741570283,"model":"gpt-4o-2024-08-06","service_tier":"default","system_fingerprint":"fp_fc9f1d7035",` +
		`"choices":[{"index":0,"delta":{"content":" token"},"logprobs":null,"finish_reason":null}],"usage":null}` + "\n\n",
	"responses": "event: response.output_text.delta\n" + `data: {"type":"response.output_text.delta","item_id":` +
		`"msg_67c9fdcf37fc8190ba82116e33fb28c507b8b0ad4e5eb654","output_index":0,"content_index":0,"delta":" token",` +
		`"logprobs":[],"obfuscation":"aB3dE5fG7h"}` + "\n\n",
	"messages": "event: content_block_delta\n" + `data: {"type":"content_block_delta","index":0,"delta":` +
		`{"type":"text_delta","text":" of several tokens"}}` + "\n\n",
}

// Reading an event, in addition to passing it on.
func BenchmarkChunk(b *testing.B) {
	for name, chunk := range chunks {
		for _, byText := range []bool{false, true} {
			b.Run(name+map[bool]string{true: ", by text"}[byText], func(b *testing.B) {
				c := call(b, tokens.Config{CountText: byText}, tokens.ChatCompletions)
				c.Answer(http.StatusOK, header(stream))
				p := []byte(chunk)
				b.SetBytes(int64(len(p)))
				b.ReportAllocs()
				for b.Loop() {
					c.Write(p)
				}
			})
		}
	}
}

// Passing an event through the handlers of a server, and through a Meter's Handler.
func BenchmarkPassedChunk(b *testing.B) {
	limit := func(next http.Handler) http.Handler { return next }
	p := []byte(chunks["chat completions"])
	next := func(b *testing.B) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", stream)
			for b.Loop() {
				w.Write(p)
			}
		})
	}
	for name, wrap := range map[string]func(http.Handler) http.Handler{
		"bare": limit,
		"read": func(next http.Handler) http.Handler {
			return tokens.MustNew(tokens.Config{}).Handler(tokens.ChatCompletions, limit, next)
		},
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			wrap(next(b)).ServeHTTP(nowhere{http.Header{}}, httptest.NewRequest("POST", "/", strings.NewReader("{}")))
		})
	}
}

// nowhere is a ResponseWriter whose client reads everything at once.
type nowhere struct{ header http.Header }

func (n nowhere) Header() http.Header         { return n.header }
func (n nowhere) WriteHeader(int)             {}
func (n nowhere) Write(p []byte) (int, error) { return len(p), nil }

func TestReadingAChunkAllocatesNothing(t *testing.T) {
	for name, chunk := range chunks {
		c := call(t, tokens.Config{CountText: true}, tokens.ChatCompletions)
		c.Answer(http.StatusOK, header(stream))
		p := []byte(chunk)
		if n := testing.AllocsPerRun(100, func() { c.Write(p) }); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}

// The estimate of a request, by the length of its prompt.
func BenchmarkEstimate(b *testing.B) {
	for name, length := range map[string]int{"1 kB": 1000, "100 kB": 100_000} {
		b.Run(name, func(b *testing.B) {
			body := []byte(`{"model":"m","messages":[{"role":"user","content":"` + strings.Repeat("word ", length/5) +
				`"}],"max_tokens":100,"stream":true}`)
			meter := tokens.MustNew(tokens.Config{})
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := meter.Estimate(tokens.ChatCompletions, body); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
