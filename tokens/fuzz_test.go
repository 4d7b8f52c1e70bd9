package tokens_test

import (
	"bytes"
	"encoding/json"
	"io"
	"math"
	"math/big"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/weir-go/weir/tokens"
)

// FuzzAnswer reads an answer in pieces. The usage must be that of the whole, and that which
// encoding/json finds if the answer is a JSON value. Each byte must pass.
func FuzzAnswer(f *testing.F) {
	for _, a := range answers {
		f.Add([]byte(a.text), a.media == stream, a.byText, uint64(1))
	}
	f.Add([]byte(`{"usage":{"prompt_tokens":1},"usage":{"prompt_tokens":2,"completion_tokens":3}}`), false, false,
		uint64(2))
	f.Add([]byte(`{"choices":[{"delta":{"a":["x",{"type":"y"},"z"]}}],"delta":"x","x":{"delta":"y"}}`), false, true,
		uint64(3))
	f.Fuzz(func(t *testing.T, answer []byte, inEvents, byText bool, seed uint64) {
		media := plain
		if inEvents {
			media = stream
		}
		read := func(media string, pieces ...[]byte) tokens.Usage {
			c := call(t, tokens.Config{CountText: byText}, tokens.ChatCompletions)
			c.Answer(http.StatusOK, header(media))
			for _, piece := range pieces {
				c.Write(piece)
			}
			return c.Usage()
		}
		whole, pieces := read(media, answer), cut(answer, seed)
		if got := read(media, pieces...); got != whole {
			t.Errorf("in pieces %+v, in one %+v", got, whole)
		}
		if min(whole.Cached, whole.CacheWrites, whole.Output, whole.Reasoning, whole.Input-whole.Cached-whole.CacheWrites,
			whole.Output-whole.Reasoning) < 0 {
			t.Errorf("the parts are more than the whole: %+v", whole)
		}
		if got := passed(t, media, pieces); !bytes.Equal(got, answer) {
			t.Errorf("the client got %q", got)
		}
		if !json.Valid(answer) || bytes.ContainsRune(answer, '\\') { // names that are escaped do not count
			return
		}
		if want := readSlowly(answer, false); read(plain, answer) != want {
			t.Errorf("as JSON %+v, want %+v", read(plain, answer), want)
		}
		if !bytes.ContainsAny(answer, "\r\n") {
			event := slices.Concat([]byte("data: "), answer, []byte("\n\n"))
			if want := readSlowly(answer, byText); read(stream, event) != want {
				t.Errorf("as an event %+v, want %+v", read(stream, event), want)
			}
		}
	})
}

// cut returns text in pieces of random length.
func cut(text []byte, seed uint64) (pieces [][]byte) {
	random := rand.New(rand.NewPCG(seed, 0))
	for len(text) > 0 {
		n := 1 + random.IntN(min(len(text), 1+random.IntN(100)))
		pieces = append(pieces, text[:n])
		text = text[n:]
	}
	return pieces
}

// passed returns what a client gets of pieces.
func passed(t *testing.T, media string, pieces [][]byte) []byte {
	w := httptest.NewRecorder()
	unlimited := func(next http.Handler) http.Handler { return next }
	tokens.MustNew(tokens.Config{}).Handler(tokens.Messages, unlimited, http.HandlerFunc(
		func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", media)
			for _, piece := range pieces {
				if n, err := w.Write(piece); n != len(piece) || err != nil {
					t.Errorf("wrote %d bytes: %v", n, err)
				}
			}
		})).ServeHTTP(w, httptest.NewRequest("POST", "/", strings.NewReader("{}")))
	return w.Body.Bytes()
}

// readSlowly returns the usage in a JSON value by its paths, by way of encoding/json.
func readSlowly(answer []byte, byText bool) tokens.Usage {
	d := json.NewDecoder(bytes.NewReader(answer))
	d.UseNumber()
	told, text := make(map[string]int64), 0
	var path []string // names of members, and "[]" for arrays
	last, isKey := "", false
	var objects []bool
	for {
		token, err := d.Token()
		if err == io.EOF {
			break
		}
		at := strings.Join(path, ".") + "."
		inDelta := strings.HasPrefix(at, "delta.") || strings.HasPrefix(at, "choices.[].delta.")
		value := true
		switch v := token.(type) {
		case json.Delim:
			switch v {
			case '{':
				objects, isKey, value = append(objects, true), true, false
				path = append(path, "") // of the member
			case '[':
				objects, isKey, value = append(objects, false), false, false
				path = append(path, "[]")
			default:
				objects, path, last = objects[:len(objects)-1], path[:len(path)-1], ""
			}
		case string:
			if isKey {
				path[len(path)-1], last, isKey, value = v, v, false, false
			} else if inDelta && !slices.Contains([]string{"type", "role", "id", "signature"}, last) {
				text += lengthOf(d, answer)
			}
		case json.Number:
			if n, ok := new(big.Int).SetString(v.String(), 10); ok && !strings.HasPrefix(v.String(), "-") {
				number := int64(math.MaxInt64 - 1)
				if n.IsInt64() {
					number = min(n.Int64(), number)
				}
				told[at] = max(told[at], number+1)
			}
		}
		if value && len(objects) > 0 {
			isKey = objects[len(objects)-1]
		}
	}
	return usageOf(told, (text+3)/4, byText)
}

// lengthOf returns the length of the string that d has just read, as it is written.
func lengthOf(d *json.Decoder, answer []byte) int {
	end := int(d.InputOffset()) - 1
	return end - 1 - bytes.LastIndexByte(answer[:end], '"')
}

func usageOf(told map[string]int64, text int, byText bool) tokens.Usage {
	find := func(paths ...string) (n int64) {
		for _, path := range paths {
			n = max(n, told[path+"."])
		}
		return n
	}
	sum := func(a, b int64) int64 { return int64(min(uint64(a)+uint64(b), math.MaxInt64)) }
	u, all := estimated, []string{"usage.", "response.usage.", "message.usage."}
	under := func(prefixes []string, names ...string) (paths []string) {
		for _, prefix := range prefixes {
			for _, name := range names {
				paths = append(paths, prefix+name)
			}
		}
		return paths
	}
	details := []string{"prompt_tokens_details.", "input_tokens_details.", "completion_tokens_details.",
		"output_tokens_details."}
	if find(slices.Concat(
		under(all, "prompt_tokens", "input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens", "total_tokens"),
		under(all[:2], "completion_tokens", "output_tokens"),
		under(under(all[:2], details...), "cached_tokens", "reasoning_tokens"))...) <= 1 {
		told = nil // all are 0
	}
	read := max(0, find(under(all, "cache_read_input_tokens")...)-1)
	writes := max(0, find(under(all, "cache_creation_input_tokens")...)-1)
	prompt, input := find(under(all, "prompt_tokens")...), find(under(all, "input_tokens")...)
	cached := max(0, find(under(under(all[:2], details...), "cached_tokens")...)-1)
	if prompt > 0 {
		u.Input = max(prompt, input) - 1
		u.Cached = min(u.Input, max(cached, read))
	} else if input > 0 {
		u.Input = sum(input-1, sum(read, writes))
		u.Cached = min(u.Input, sum(cached, read))
	}
	if max(prompt, input) > 0 {
		u.CacheWrites = min(u.Input-u.Cached, writes)
	}
	if n := find(under(all[:2], "completion_tokens", "output_tokens")...); n > 0 {
		u.Output = max(n-1, find(under(all, "total_tokens")...)-1-u.Input)
		u.Reasoning = min(u.Output, max(0, find(under(under(all[:2], details...), "reasoning_tokens")...)-1))
	} else if byText {
		u.Output = int64(text)
	}
	return u
}

// FuzzEstimate compares the estimate with what encoding/json finds in the request.
func FuzzEstimate(f *testing.F) {
	for _, body := range []string{`{}`, `{"model":"m","n":2,"max_tokens":3}`, `{"max_tokens":1,"max_tokens":2}`,
		`{"Max_Tokens":1}`, `{"n":4611686018427387904,"max_completion_tokens":3}`, `{"max_tokens":"1"}`,
		`{ "a":[{"n":1}], "max\u005ftokens" : 9 }`, `{"model":7}`, `[{}]`, "{\"max_to\u212aens\":1}", `{"n":0}`} {
		f.Add([]byte(body))
	}
	meter := tokens.MustNew(tokens.Config{})
	f.Fuzz(func(t *testing.T, body []byte) {
		before := bytes.Clone(body)
		call, err := meter.Estimate(tokens.ChatCompletions, body)
		if !bytes.Equal(before, body) {
			t.Error("the body has changed")
		}
		want, ok := estimateSlowly(body)
		if ok != (err == nil) {
			t.Fatalf("accepted: %v (%v), want %v", err == nil, err, ok)
		}
		if ok && call.Usage() != want {
			t.Errorf("the estimate is %+v, want %+v", call.Usage(), want)
		}
	})
}

func estimateSlowly(body []byte) (u tokens.Usage, ok bool) {
	names := []string{"model", "n", "max_tokens", "max_completion_tokens"}
	members, isObject := membersOf(body)
	if !isObject {
		return u, false
	}
	found := make(map[string]int64)
	for _, m := range members {
		i := slices.IndexFunc(names, func(name string) bool { return strings.EqualFold(m.key, name) })
		if i < 0 {
			continue
		}
		_, twice := found[m.key]
		if twice || m.key != names[i] {
			return u, false
		}
		found[m.key] = -1
		switch v := m.value.(type) {
		case nil:
		case string:
			if m.key != "model" || len(v) > 200 {
				return u, false
			}
		case json.Number:
			n, isWhole := new(big.Int).SetString(v.String(), 10)
			if m.key == "model" || !isWhole || strings.HasPrefix(v.String(), "-") || m.key == "n" && n.Sign() == 0 {
				return u, false
			}
			found[m.key] = math.MaxInt64
			if n.IsInt64() {
				found[m.key] = n.Int64()
			}
		default:
			return u, false
		}
	}
	get := func(name string) int64 {
		if n, ok := found[name]; ok {
			return n
		}
		return -1
	}
	output := max(get("max_tokens"), get("max_completion_tokens"))
	if output <= 0 {
		output = 4096
	}
	all := new(big.Int).Mul(big.NewInt(output), big.NewInt(max(1, get("n"))))
	u = tokens.Usage{Input: int64(len(body)+3) / 4, Output: math.MaxInt64}
	if all.IsInt64() {
		u.Output = all.Int64()
	}
	return u, true
}

type member struct {
	key   string
	value any
}

// membersOf returns the members of an object, those that are there twice, too.
func membersOf(body []byte) (all []member, isObject bool) {
	if !json.Valid(body) {
		return nil, false
	}
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	if token, err := d.Token(); err != nil || token != json.Delim('{') {
		return nil, false
	}
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return nil, false
		}
		m := member{key: key.(string)}
		if err := d.Decode(&m.value); err != nil {
			return nil, false
		}
		all = append(all, m)
	}
	return all, true
}
